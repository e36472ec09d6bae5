//! Bytes of an accelerator trace → events → exact times of modules, ops, kernels, executions and steps.
//!
//! Times are whole picoseconds from a zero of the trace's own; what is absent is absent. No network, no async.

pub mod accounting;
mod error;
mod functions;
#[cfg(test)]
mod handmade;
mod profiler;
mod source;
pub mod statistics;
mod table;
mod wire;
mod xspace;

pub use error::TraceError;
pub use functions::{FunctionId, FunctionOptions, FunctionTimes, Functions, compare, functions};
pub use profiler::{FunctionSeconds, Profiled, Profiler, ProfilerOptions, ProfilerWarning, ProfilingError};
pub use source::{Cut, Found, Leniency, Limits, Packing, Reading, SkipReason, Skipped, Source, SourceError, find};
pub use table::{
    Event, EventId, Kind, KindId, Line, Notice, Plane, Platform, ProgramId, Session, Stat, StatValue, Strings, Text,
    Trace, Unplaced, Why,
};
pub use wire::{Damage, Fault};
pub use xspace::{KeepIds, KeepLines, ReadOptions, read};
