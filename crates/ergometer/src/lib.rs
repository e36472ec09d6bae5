//! Measures the time and energy of AI inference: runs a dataset against a model and stores the results in a run folder.
//!
//! [`run`] sends the requests and writes the [`journal`], [`review`] counts missing tokens and judges answers, and [`close`]
//! derives the records, tables and summary. [`sweep`] runs one configuration at several loads. [`measure`] measures the
//! energy of any command:
//!
//! ```
//! use std::time::Duration;
//!
//! use ergometer::measure::{MeasureSpec, measure};
//! use ergometer_sensors::modelled::ModelPolicy;
//! use ergometer_sensors::probe_machine;
//!
//! let sensors = probe_machine(ModelPolicy::WhereUnmeasured).sensors;
//! let spec = MeasureSpec { idle: Duration::ZERO, ..MeasureSpec::new(["true"]) };
//! let report = measure(&spec, sensors, None, &mut ())?.report();
//! assert_eq!(report.runs.len(), 1);
//! # Ok::<(), ergometer::measure::MeasureError>(())
//! ```

pub use ergometer_attribution as attribution;
pub use ergometer_journal as journal;
pub mod close;
pub mod config;
pub mod measure;
pub mod review;
pub mod run;
mod stop;
pub mod sweep;
