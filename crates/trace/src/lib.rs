//! Bytes of an accelerator trace → events → exact times of modules, ops, kernels, executions and steps.
//!
//! Times are whole picoseconds from a zero of the trace's own; what is absent is absent. No network, no async.

mod source;
pub mod statistics;

pub use source::{Cut, Found, Leniency, Limits, Packing, Reading, SkipReason, Skipped, Source, SourceError, find};
