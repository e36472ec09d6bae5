//! Which devices a run counts.

mod counted;

pub use counted::{Counted, DeviceError};
