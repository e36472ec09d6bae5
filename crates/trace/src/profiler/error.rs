//! Why profiling fails, and what to know of a result that came all the same. The sentences are those that users of the
//! Python profiler know.

use std::fmt;

use ergometer_units::Picos;

use crate::error::TraceError;
use crate::source::SourceError;

/// Why a profile gives no answer.
#[derive(Debug, thiserror::Error)]
pub enum ProfilingError {
    /// The bytes are no profile.
    #[error("Failed to parse profile data: {0}")]
    Parse(#[from] TraceError),
    /// The bytes are packed, and cannot be unpacked.
    #[error("Failed to parse profile data: {0}")]
    Unpack(#[from] SourceError),
    /// No plane is of the device.
    #[error("No planes found for device '{device}'. Available devices: {}", Listed(available))]
    NoDevice {
        /// What was asked for.
        device: String,
        /// The names of the planes there are.
        available: Vec<String>,
    },
    /// There is no such plane.
    #[error("Plane index {plane} out of range (0-{last})")]
    PlaneOutOfRange {
        /// What was asked for.
        plane: usize,
        /// The last there is.
        last: usize,
    },
    /// The filter is no regular expression.
    #[error("Invalid regex pattern '{pattern}': {cause}")]
    Regex {
        /// What it reads.
        pattern: String,
        /// Why.
        #[source]
        cause: regex::Error,
    },
    /// There is nothing to look at.
    #[error("No profile was created.")]
    NoProfile,
}

/// Names as Python lists them.
struct Listed<'a>(&'a [String]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted: Vec<String> = self.0.iter().map(|name| format!("'{name}'")).collect();
        write!(formatter, "[{}]", quoted.join(", "))
    }
}

/// A result, and what to know of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Profiled<T> {
    /// The result.
    pub found: T,
    /// What to know before believing it.
    pub warnings: Vec<ProfilerWarning>,
}

/// What to know of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProfilerWarning {
    /// `max_events_per_profile` left events out.
    Cut {
        /// The plane.
        plane: String,
        /// How many events were looked at.
        kept: usize,
        /// How many were not.
        left_out: usize,
    },
    /// `min_duration_ns` left events out whose names pass the prefix. Only told where `verbose` asks.
    Short {
        /// The plane.
        plane: String,
        /// How many.
        events: usize,
        /// The sum of their durations.
        total: Picos,
    },
    /// `min_duration_ns` left executions of a function out as a whole: what is left are the longest.
    ShortExecutions {
        /// The function.
        id: String,
        /// How many were left out.
        left_out: usize,
        /// How many there are.
        executions: usize,
    },
}

impl ProfilerWarning {
    /// Whether it says that a result is not what was asked for; else it is only worth knowing.
    #[must_use]
    pub const fn is_caution(&self) -> bool {
        !matches!(self, Self::Short { .. })
    }
}

impl fmt::Display for ProfilerWarning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut { plane, kept, left_out } => write!(
                formatter,
                "max_events_per_profile = {kept} left out {left_out} events of {plane}: times are too short or missing. \
                 hint: None looks at all of them"
            ),
            Self::Short { plane, events, total } => write!(
                formatter,
                "{events} events of {plane} are shorter than min_duration_ns and left out, {:.3} µs together",
                total.get() as f64 / 1e6
            ),
            Self::ShortExecutions { id, left_out, executions } => write!(
                formatter,
                "min_duration_ns left out {left_out} of {executions} executions of function {id}, as no event of theirs is so \
                 long: its times are those of the others. hint: min_duration_ns = 0 counts all"
            ),
        }
    }
}
