//! What a run is asked to do, as it is stored and as it is read again.

mod counted;
mod judge;
mod retries;
mod run_config;
mod schedule;
mod slo;
mod think;

pub use counted::{Counted, DeviceError};
pub use judge::JudgeSpec;
pub use retries::{LONGEST_WAIT, Retries};
pub use run_config::{Prices, RunConfig};
pub use schedule::{Arrivals, Schedule};
pub use slo::Slo;
pub use think::Think;
