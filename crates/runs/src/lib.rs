//! The run folder: the types of every file in it, written and read by the same code, and the table of metrics.
//!
//! ```
//! use ergometer_runs::{Summary, metrics};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let json = r#"{"model": "tiny", "duration_s": 4.0, "cost_usd": 0.5, "complete": true, "format_version": 1}"#;
//! std::fs::write(folder.path().join("summary.json"), json)?;
//!
//! let summary = Summary::read(folder.path())?;
//! assert_eq!((summary.model.as_str(), summary.complete), ("tiny", true));
//! let duration = metrics::find("duration").expect("it is in the table");
//! assert_eq!((duration.key, duration.summary_value(&summary)), ("duration_s", Some(4.0)));
//! # Ok(())
//! # }
//! ```

mod column_names;
mod compatibility;
pub mod config;
pub mod cost_model;
mod error;
mod exchange;
pub mod folder;
pub mod load_over_time;
mod metric_unit;
pub mod metrics;
mod query_formula;
#[expect(missing_docs, reason = "the fields are named by the layout, and by METRICS in docs")]
pub mod record;
pub mod regular_file;
#[cfg(test)]
mod roundtrip;
pub mod saved;
mod sender;
pub mod slug;
pub mod store;
pub mod summary;
pub mod sweep;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod times;

pub use error::ReadError;
pub use exchange::{Exchange, Fate};
pub use sender::{Closing, SenderFacts, WakeLag};
pub use summary::{EnergySource, Summary};
pub use sweep::Sweep;
pub use times::RequestTimes;
