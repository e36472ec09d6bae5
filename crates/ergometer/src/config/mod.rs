//! The devices a run counts, which the run configuration holds.

pub use ergometer_runs::config::{Counted, DeviceError};
