//! Times of the variants of a function, by the id in the name of their module: what autotuning asks of a trace.
//!
//! Executions of `jit_autotune_fn_<id>` go in; for each id the busy time and the span of every execution come out, with
//! their statistics, the shortest busy time first. An execution on several devices counts once and takes the longest of
//! them, as whoever waits for its result does.

mod id;
mod runs;

use ergometer_units::Picos;
use regex::Regex;
use serde::{Serialize, Serializer};

use crate::accounting::Filter;
use crate::table::{ProgramId, Trace};
use ergometer_statistics::{DEFAULT_LEVEL, Ranking, Sample, SampleSummary, Variant, rank};

pub use id::FunctionId;
pub use runs::Collected;

/// What is a variant, and which of its events count.
#[derive(Debug, Clone)]
pub struct FunctionOptions {
    /// Found in the name of a module it makes that a variant; the first group is the id. Without a group the whole match is.
    pub pattern: Regex,
    /// Which events count. With a prefix or a pattern here an execution's times are those of the events that pass, and an
    /// execution without any is not there.
    pub filter: Filter,
    /// The level of intervals.
    pub level: f64,
}

impl FunctionOptions {
    /// The names that autotuning gives to its variants.
    pub const PATTERN: &'static str = "^jit_autotune_fn_([0-9]+)";

    /// With a pattern of one's own, and the rest as it is by default.
    #[must_use]
    pub fn new(pattern: Regex) -> Self {
        Self { pattern, filter: Filter::default(), level: DEFAULT_LEVEL }
    }

    /// With [`Self::PATTERN`].
    ///
    /// # Errors
    /// None: that pattern is a regular expression, which a test sees to.
    pub fn autotune() -> Result<Self, regex::Error> {
        Regex::new(Self::PATTERN).map(Self::new)
    }
}

/// The variants of a trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Functions {
    /// The shortest median busy time first.
    pub rows: Vec<FunctionTimes>,
    /// The modules that ran and are no variants, by name.
    pub other_modules: Vec<String>,
    /// The level of the intervals.
    pub level: f64,
}

/// The times of one variant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FunctionTimes {
    /// What the pattern found.
    pub id: FunctionId,
    /// The modules of this id, by name.
    pub modules: Vec<String>,
    /// Their compilations.
    pub program_ids: Vec<ProgramId>,
    /// How many executions there are.
    pub n: usize,
    /// On how many devices one of them ran at most.
    pub devices: usize,
    /// How long at least one event went on: this ranks.
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

/// The times of each variant in a trace, which may be of several files: executions of all their sessions count. Needs a
/// trace read with its ids.
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
    let mut collected = Collected::default();
    collected.add(trace, options, |_| true);
    collected.finish(options.level)
}

/// Ranks variants by the median of their busy times, and says which are slower than the fastest beyond chance.
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
