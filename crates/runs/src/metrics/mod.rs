//! The metrics of runs: name, key in files, unit, better direction, formula, and location in a summary.
//!
//! Comparisons, sweeps, plots and the command line use the metrics in [`METRICS`]. `name` is for the command line, as in
//! `--fail-if ttft_p50`; `key` is the name in files and includes the unit, as in `ttft_p50_ms` of `sweep.json`.
//! [`find`] accepts both.

mod table;

use ergometer_statistics::Aim;

use self::table::SWEEP_ORDER;
use crate::summary::EnergyTotals;
use crate::{EnergySource, Summary};

pub use self::table::METRICS;
pub use crate::metric_unit::Unit;
pub use crate::query_formula::{Amount, Fraction, Fractions, QueryFormula};

/// A figure of a whole run.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name, as in `--fail-if`.
    pub name: &'static str,
    /// Its name in files, with the unit.
    pub key: &'static str,
    /// Its name in tables.
    pub label: &'static str,
    /// The unit of its values.
    pub unit: Unit,
    /// Which direction is better; `None` if neither is.
    pub better: Option<Aim>,
    /// How it is computed.
    pub formula: &'static str,
    /// Whether `sweep.json` has it.
    pub in_sweeps: bool,
    /// The name of its distribution over queries in `percentiles.json`, which can differ from `name` because files of
    /// earlier versions stay readable.
    pub distribution: &'static str,
    /// How it is computed from queries. Runs are compared by the metrics that have such a formula.
    pub over_queries: Option<QueryFormula>,
    value: Value,
}

/// The location of a metric in a summary, in the unit of its key.
#[derive(Debug, Clone, Copy)]
enum Value {
    /// A field of the summary.
    Field(fn(&Summary) -> Option<f64>),
    /// A field of the energy totals of the chosen source.
    Energy(fn(&EnergyTotals) -> Option<f64>),
    /// A field outside the totals that depends on the energy source.
    PerJoule(fn(&Summary) -> Option<f64>),
    /// Not in the summary: computed from the records.
    Records,
}

impl Metric {
    /// Whether runs are compared by it.
    #[must_use]
    pub const fn in_comparisons(&self) -> bool {
        self.over_queries.is_some()
    }

    /// Whether its value depends on the energy source.
    #[must_use]
    pub const fn needs_energy(&self) -> bool {
        matches!(self.value, Value::Energy(_) | Value::PerJoule(_))
    }

    /// The unit of its key: milliseconds for the seconds of latencies.
    #[must_use]
    pub fn key_unit(&self) -> &'static str {
        if self.is_in_milliseconds() { "ms" } else { self.unit.name() }
    }

    /// The value in the unit of the metric, for a value in the unit of its key.
    #[must_use]
    pub fn in_unit(&self, key_value: f64) -> f64 {
        if self.is_in_milliseconds() { key_value * 1e-3 } else { key_value }
    }

    fn is_in_milliseconds(&self) -> bool {
        self.key.ends_with("_ms")
    }

    /// The value in a summary, in the unit of the metric. Uses measured energy if the summary has any.
    #[must_use]
    pub fn summary_value(&self, summary: &Summary) -> Option<f64> {
        self.value_from(summary, summary.energy_source())
    }

    /// The value in a summary, in the unit of the metric, with the energy of this source.
    #[must_use]
    pub fn value_from(&self, summary: &Summary, source: Option<EnergySource>) -> Option<f64> {
        self.key_value_from(summary, source).map(|value| self.in_unit(value))
    }

    /// The value in a summary, in the unit of the key.
    #[must_use]
    pub fn key_value(&self, summary: &Summary) -> Option<f64> {
        self.key_value_from(summary, summary.energy_source())
    }

    fn key_value_from(&self, summary: &Summary, source: Option<EnergySource>) -> Option<f64> {
        let value = match self.value {
            Value::Field(field) | Value::PerJoule(field) => field(summary),
            Value::Energy(field) => summary.energy_totals(source).and_then(field),
            Value::Records => None,
        };
        value.filter(|value| value.is_finite())
    }
}

/// The metric of this name or key.
#[must_use]
pub fn find(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name || metric.key == name)
}

/// The metric of this name, for code: in a constant, an unknown name is a compile error.
///
/// ```
/// use ergometer_runs::metrics::{self, Metric};
///
/// const TTFT: &Metric = metrics::named("ttft_p50");
/// assert_eq!((TTFT.label, TTFT.key, TTFT.key_unit()), ("TTFT p50", "ttft_p50_ms", "ms"));
/// ```
///
/// # Panics
/// If the table has no such metric.
#[must_use]
pub const fn named(name: &str) -> &'static Metric {
    let mut place = 0;
    while place < METRICS.len() {
        if is_equal(METRICS[place].name, name) {
            return &METRICS[place];
        }
        place += 1;
    }
    panic!("the table has no metric of this name")
}

/// `==` of texts, which constants cannot call.
const fn is_equal(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut place = 0;
    while place < one.len() && place < other.len() && one[place] == other[place] {
        place += 1;
    }
    place == one.len() && place == other.len()
}

/// The metrics of `sweep.json`, in the order of its tables.
pub fn in_sweeps() -> impl Iterator<Item = &'static Metric> {
    SWEEP_ORDER.iter().filter_map(|key| find(key))
}

/// The metrics by which runs are compared, in reading order.
pub fn in_comparisons() -> impl Iterator<Item = &'static Metric> {
    METRICS.iter().filter(|metric| metric.in_comparisons())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_and_key_find_the_same_metric() {
        let by_name = find("ttft_p99").unwrap();
        assert!(std::ptr::eq(by_name, find("ttft_p99_ms").unwrap()));
        assert!(std::ptr::eq(find("joules_per_token").unwrap(), find("gross_j_per_output_token").unwrap()));
        assert!(find("watts").is_none());
    }
}
