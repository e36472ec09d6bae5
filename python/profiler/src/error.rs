//! Errors and warnings of the profiler, with the messages of `ejkernel`'s profiler.

use std::fmt;

use ergometer_diagnostics::{Diagnostic, Hint};
use ergometer_trace::{SourceError, TraceError};
use ergometer_units::Picos;

/// Why the profiler has no result.
#[derive(Debug, thiserror::Error)]
pub enum ProfilingError {
    /// The bytes are not a profile, or damaged.
    #[error("Failed to parse profile data: {0}")]
    Parse(#[from] TraceError),
    /// The bytes cannot be decompressed.
    #[error("Failed to parse profile data: {0}")]
    Unpack(#[from] SourceError),
    /// No plane has the device in its name.
    #[error("No planes found for device '{device}'. Available devices: {}", Listed(available))]
    NoDevice {
        /// The requested device.
        device: String,
        /// The names of all planes.
        available: Vec<String>,
    },
    /// There is no such plane.
    #[error("Plane index {plane} out of range (0-{last})")]
    PlaneOutOfRange {
        /// The requested plane.
        plane: usize,
        /// The number of the last plane.
        last: usize,
    },
    /// The filter is not a valid regular expression.
    #[error("Invalid regex pattern '{pattern}': {cause}")]
    Regex {
        /// The filter.
        pattern: String,
        /// Why it is not valid.
        #[source]
        cause: regex::Error,
    },
    /// There is no profile.
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

/// A result with its warnings.
#[derive(Debug, Clone, PartialEq)]
pub struct Profiled<T> {
    /// The result.
    pub value: T,
    /// Events and executions that the result leaves out.
    pub warnings: Vec<ProfilerWarning>,
}

/// Events or executions that a result leaves out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProfilerWarning {
    /// `max_events_per_profile` left events out.
    Cut {
        /// The plane.
        plane: String,
        /// The number of events used.
        kept: usize,
        /// The number of events left out.
        left_out: usize,
    },
    /// `min_duration_ns` left out events whose names start with the prefix. Reported only if `verbose` is set.
    Short {
        /// The plane.
        plane: String,
        /// The number of events left out.
        events: usize,
        /// The sum of their durations.
        total: Picos,
    },
    /// `min_duration_ns` left out whole executions of a function: only the longest ones remain.
    ShortExecutions {
        /// The function.
        id: String,
        /// The number of executions left out.
        left_out: usize,
        /// The number of all executions.
        executions: usize,
    },
}

impl ProfilerWarning {
    /// Whether the result may be wrong; otherwise the warning is only information.
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
                "max_events_per_profile = {kept} left out {left_out} events of {plane}: times are too short or missing"
            ),
            Self::Short { plane, events, total } => write!(
                formatter,
                "{events} events of {plane} are shorter than min_duration_ns and left out, {:.3} µs together",
                total.get() as f64 / 1e6
            ),
            Self::ShortExecutions { id, left_out, executions } => write!(
                formatter,
                "min_duration_ns left out {left_out} of {executions} executions of function {id}, because all their \
                 events are shorter: its times are those of the longer executions"
            ),
        }
    }
}

impl Diagnostic for ProfilerWarning {
    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Cut { .. } => Some(Hint::text("set max_events_per_profile to None to use all events")),
            Self::Short { .. } => None,
            Self::ShortExecutions { .. } => Some(Hint::text("set min_duration_ns to 0 to count all executions")),
        }
    }
}

impl Diagnostic for ProfilingError {
    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Parse(error) => error.hint(),
            Self::Unpack(error) => error.hint(),
            _ => None,
        }
    }
}
