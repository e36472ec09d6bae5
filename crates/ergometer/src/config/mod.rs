//! What a run is asked to do, as it is stored and as it is read again.

mod counted;
mod run_config;

pub use counted::{Counted, DeviceError};
pub use run_config::{Prices, RunConfig};
