//! Computes the value of a metric in a run, from its summary or from its records.
//!
//! The metrics are those of `ergometer_runs::metrics`. Runs of other tools lack such a summary; their values come from the
//! records.

use ergometer_runs::EnergySource;
pub(super) use ergometer_runs::metrics::QueryFormula as Formula;
use ergometer_runs::metrics::{Metric, Unit, named};
use ergometer_runs::saved::Run;
use ergometer_statistics::{Change, Distribution};

use super::sample;

const DURATION: &Metric = named("duration");

/// The formula of a metric over the queries of a run.
pub(super) fn formula(metric: &Metric) -> Formula {
    metric.over_queries.unwrap_or(Formula::Whole)
}

/// How a change of a metric is reported: a difference for shares and times, a ratio for everything else.
#[must_use]
pub fn change(metric: &Metric) -> Change {
    match metric.unit {
        Unit::Share | Unit::Seconds if metric.name != DURATION.name => Change::Difference,
        _ => Change::Ratio,
    }
}

/// The value of a metric in a run, from its summary or else from its records.
#[must_use]
pub fn value(metric: &Metric, run: &Run) -> Option<f64> {
    let source = run.energy.unwrap_or(EnergySource::Measured);
    let found = metric.value_from(&run.summary, Some(source));
    let only_in_summary = matches!(formula(metric), Formula::Proportional(_) | Formula::ProportionalProduct(_));
    found.or_else(|| from_records(metric, run).filter(|_| !only_in_summary)).filter(|value| value.is_finite())
}

/// The value of a metric from the records. For a metric that only summaries have: the ratio it is proportional to.
#[must_use]
pub fn from_records(metric: &Metric, run: &Run) -> Option<f64> {
    match formula(metric) {
        Formula::Sums(fraction) | Formula::Proportional(fraction) => ratio(run.queries.iter().filter_map(fraction)),
        Formula::ProportionalProduct(fractions) => product(run.queries.iter().filter_map(fractions)),
        Formula::Percentile(percent, value) => {
            let values: Vec<f64> = run.completed().filter_map(value).collect();
            let found = Distribution::from_values(&values)?;
            match percent {
                50.0 => Some(found.p50),
                90.0 => Some(found.p90),
                _ => found.p99,
            }
        }
        Formula::Rate(amount) => {
            let seconds = sample::seconds(run)?;
            Some(run.queries.iter().filter_map(amount).sum::<f64>() / seconds)
        }
        Formula::Whole => None,
    }
}

/// Σ numerators / Σ denominators.
pub(super) fn ratio(fractions: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    product(fractions.map(|fraction| [fraction]))
}

/// Π (Σ numerators / Σ denominators).
pub(super) fn product<const FACTORS: usize>(items: impl Iterator<Item = [(f64, f64); FACTORS]>) -> Option<f64> {
    let mut sums = [(0.0, 0.0); FACTORS];
    for item in items {
        for (sum, part) in sums.iter_mut().zip(item) {
            *sum = (sum.0 + part.0, sum.1 + part.1);
        }
    }
    sums.iter().all(|sum| sum.1 > 0.0).then(|| sums.iter().map(|sum| sum.0 / sum.1).product())
}

#[cfg(test)]
mod tests {
    use ergometer_runs::metrics;

    use super::*;

    #[test]
    fn every_metric_without_a_field_in_summaries_has_a_formula_over_records() {
        let empty = ergometer_runs::testing::summary(serde_json::json!({"duration_s": 1.0}));
        for metric in metrics::in_comparisons() {
            let only_records = ["failed_share", "output_tokens_per_query", "cost_usd_per_query"];
            assert!(!only_records.contains(&metric.name) || !matches!(formula(metric), Formula::Whole));
            assert!(metric.name == "duration" || metric.summary_value(&empty).is_none(), "{}", metric.name);
        }
        assert_eq!(metrics::find("ttft_p99").map(change), Some(Change::Difference));
    }
}
