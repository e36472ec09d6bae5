//! Computes the times of function variants for autotuning, by the id in the name of their module.
//!
//! Each execution of `jit_autotune_fn_<id>` has a busy time and a span. An execution on several devices counts once,
//! with the longest time of all devices, because its caller waits for the slowest.

mod id;
mod runs;

use ergometer_units::Picos;
use regex::Regex;
use serde::{Serialize, Serializer};

use crate::accounting::Filter;
use crate::table::{ProgramId, Trace};
use ergometer_statistics::{DEFAULT_LEVEL, Ranking, Sample, SampleSummary, Variant, rank};

pub use id::FunctionId;
pub use runs::FunctionCollector;

/// Options that select the modules and their events.
#[derive(Debug, Clone)]
pub struct FunctionOptions {
    /// A module is a variant if this pattern matches its name. The id is the first group, or the whole match if the
    /// pattern has no group.
    pub pattern: Regex,
    /// The events that count. With a prefix or a pattern, the times of an execution are those of the matching events,
    /// and executions without matching events are left out.
    pub filter: Filter,
    /// The confidence level of the intervals.
    pub level: f64,
}

impl FunctionOptions {
    /// Matches the names that autotuning gives to its variants.
    pub const PATTERN: &'static str = "^jit_autotune_fn_([0-9]+)";

    /// Default options with this pattern.
    #[must_use]
    pub fn new(pattern: Regex) -> Self {
        Self { pattern, filter: Filter::default(), level: DEFAULT_LEVEL }
    }

    /// Default options with [`Self::PATTERN`].
    ///
    /// # Errors
    /// Never: a test checks that the pattern is valid.
    pub fn autotune() -> Result<Self, regex::Error> {
        Regex::new(Self::PATTERN).map(Self::new)
    }
}

/// The variants of a trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Functions {
    /// The times of each variant, the shortest median busy time first.
    pub rows: Vec<FunctionTimes>,
    /// The names of the modules that ran and are not variants.
    pub other_modules: Vec<String>,
    /// The confidence level of the intervals.
    pub level: f64,
}

/// The times of one variant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FunctionTimes {
    /// Its id.
    pub id: FunctionId,
    /// The names of the modules with this id.
    pub modules: Vec<String>,
    /// Their compilations.
    pub program_ids: Vec<ProgramId>,
    /// The number of executions.
    pub n: usize,
    /// The largest number of devices on which one execution ran.
    pub devices: usize,
    /// The time during which at least one event ran, which decides the rank.
    pub busy: SampleSummary,
    /// From the first start to the last end.
    pub span: SampleSummary,
    /// The busy time of each execution, by session and time.
    #[serde(rename = "busy_ps", serialize_with = "as_ps")]
    pub busy_times: Vec<Picos>,
    /// The span of each execution, in the same order.
    #[serde(rename = "span_ps", serialize_with = "as_ps")]
    pub span_times: Vec<Picos>,
}

fn as_ps<S: Serializer>(times: &[Picos], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(times.iter().map(|time| time.get()))
}

/// The times of each variant in a trace, over the executions of all its sessions. The trace must be read with ids.
///
/// ```
/// # use ergometer_trace::{FunctionOptions, ReadOptions, Source, functions, read};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/xplane/gpu_autotune.xplane.pb");
/// let trace = read(vec![Source::from_bytes("autotune", std::fs::read(file)?)], &ReadOptions::default())?;
/// let functions = functions(&trace, &FunctionOptions::autotune()?);
/// let fastest = &functions.rows[0];
/// assert_eq!((fastest.id.to_string().as_str(), fastest.n), ("0", 5));
/// // The four kernels of an execution take 13 µs, and 30 µs from the first start to the last end.
/// assert!((fastest.busy.median_s - 13.054e-6).abs() < 1e-12 && fastest.span.median_s > 2.0 * fastest.busy.median_s);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn functions(trace: &Trace, options: &FunctionOptions) -> Functions {
    let mut collected = FunctionCollector::default();
    collected.add(trace, options, |_| true);
    collected.finish(options.level)
}

/// Ranks variants by their median busy time, and tests which are significantly slower than the fastest.
///
/// ```
/// # use ergometer_trace::{FunctionOptions, ReadOptions, Source, compare, functions, read};
/// # use ergometer_statistics::Verdict;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/xplane/gpu_autotune.xplane.pb");
/// # let trace = read(vec![Source::from_bytes("autotune", std::fs::read(file)?)], &ReadOptions::default())?;
/// let ranking = compare(&functions(&trace, &FunctionOptions::autotune()?), 0.95);
/// assert_eq!((ranking.rows[1].id.as_str(), ranking.rows[1].verdict), ("1", Verdict::Slower));
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn compare(functions: &Functions, level: f64) -> Ranking {
    let variant = |row: &FunctionTimes| {
        Sample::from_picos(&row.busy_times).map(|sample| Variant { id: row.id.to_string(), sample })
    };
    rank(&functions.rows.iter().filter_map(variant).collect::<Vec<_>>(), level)
}
