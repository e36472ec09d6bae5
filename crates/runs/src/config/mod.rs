//! The configuration of a run, as files store it.

mod judge;
mod retries;
mod run_config;
mod saved;
mod schedule;
mod slo;
mod think;

pub use judge::JudgeSpec;
pub use retries::{LONGEST_WAIT, Retries};
pub use run_config::{Prices, RunConfig};
pub use saved::SavedConfig;
pub use schedule::{Arrivals, Axis, Schedule};
pub use slo::Slo;
pub use think::Think;
