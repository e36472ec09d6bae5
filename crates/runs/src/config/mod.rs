//! The configuration of a run, as files store it.

mod arrival_times;
mod counted;
mod judge;
mod retries;
mod run_config;
mod saved;
mod schedule;
mod sensor;
mod slo;
mod think;

pub use arrival_times::ArrivalTimes;
pub use counted::{CountedDevices, DeviceError};
pub use judge::JudgeSpec;
pub use retries::{LONGEST_WAIT, Retries};
pub use run_config::{MissingSecret, Prices, RunConfig};
pub use saved::SavedConfig;
pub use schedule::{Arrivals, ArrivalsError, Axis, Schedule};
pub use sensor::SensorSetting;
pub use slo::{LimitedMetric, Slo};
pub use think::Think;
