//! What a run is asked to do, as it is stored and as it is read again.

mod counted;
mod judge;
mod retries;
mod run_config;

pub use counted::{Counted, DeviceError};
pub use judge::JudgeSpec;
pub use retries::{LONGEST_WAIT, Retries};
pub use run_config::{Prices, RunConfig};
