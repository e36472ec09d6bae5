//! Reads accelerator traces, and computes the exact times of modules, ops, kernels, executions and steps.
//!
//! [`find`] finds trace files, [`Source`] opens them, [`read`] reads them into a [`Trace`], and [`accounting`] and
//! [`functions`] compute times. Times are integer picoseconds from the zero of the trace.
//!
//! ```
//! use ergometer_trace::accounting::{By, Filter, modules, rows};
//! use ergometer_trace::{ReadOptions, Reading, Source, read};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/xplane/gpu_autotune.xplane.pb");
//! let trace = read(vec![Source::open(path.as_ref(), &Reading::default())?], &ReadOptions::default())?;
//! let longest = &rows(&trace, By::Kernel, &Filter::default())[0];
//! assert_eq!(longest.label.name.map(|name| trace.text(name)), Some("gemm_fusion_dot_general_2"));
//! assert_eq!((longest.account.events, longest.account.self_time.get()), (15, 1_170_612_000));
//! assert!(modules(&trace, &Filter::default()).iter().all(|module| module.executions == Some(5)));
//! # Ok(())
//! # }
//! ```

pub mod accounting;
mod error;
mod functions;
mod source;
mod table;
mod wire;
mod xspace;

pub use error::TraceError;
pub use functions::{FunctionCollector, FunctionId, FunctionOptions, FunctionTimes, Functions, compare, functions};
pub use source::{Cut, Leniency, Limits, Packing, Reading, SkipReason, Skipped, Source, SourceError, TraceFiles, find};
pub use table::{
    Event, EventId, Kind, KindId, Line, Notice, Plane, Platform, ProgramId, RawStat, RawValue, Session, Stat,
    StatValue, StatVisitor, Strings, TableText, Text, Trace, UnplacedReason,
};
pub use wire::{Damage, Fault};
pub use xspace::{KeepIds, KeepLines, ReadOptions, read};
