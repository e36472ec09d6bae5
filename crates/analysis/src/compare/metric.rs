//! Computes the value of a metric in a run, from its summary or from its records.
//!
//! The metrics are those of `ergometer_runs::metrics`. Runs of other tools lack such a summary; their values come from the
//! records.

use ergometer_runs::EnergySource;
use ergometer_runs::metrics::{Metric, Unit};
use ergometer_runs::saved::{Query, Run};
use ergometer_statistics::{Change, Distribution};

use super::sample;

/// The numerator and denominator of a query, if it has them.
type Fraction = fn(&Query) -> Option<(f64, f64)>;

/// The numerators and denominators of a product of two ratios.
type Fractions = fn(&Query) -> Option<[(f64, f64); 2]>;

/// How a metric is computed from queries.
#[derive(Debug, Clone, Copy)]
pub(super) enum Formula {
    /// A ratio of sums over queries.
    Sums(Fraction),
    /// Proportional to a ratio of sums over queries, but also includes energy or time between requests. Only the summary
    /// has the value.
    Proportional(Fraction),
    /// Proportional to a product of two such ratios.
    ProportionalProduct(Fractions),
    /// A percentile over the completed queries.
    Percentile(f64, fn(&Query) -> Option<f64>),
    /// A sum over queries / the duration of the run.
    Rate(fn(&Query) -> Option<f64>),
    /// A value of the whole run that single queries do not have.
    Whole,
}

/// The formula of a metric over the queries of a run. A metric that runs are not compared by has none over queries.
pub(super) fn formula(metric: &Metric) -> Formula {
    known_formula(metric.name).unwrap_or(Formula::Whole)
}

/// The formula of a metric by its name; `None` if it is not listed here.
fn known_formula(name: &str) -> Option<Formula> {
    Some(match name {
        "accuracy" => Formula::Sums(|query| query.correct.map(|correct| (yes(correct), 1.0))),
        "failed_share" => Formula::Sums(|query| Some((yes(!query.is_completed()), 1.0))),
        "joules_per_query" => Formula::Sums(|query| gross_per(query, Some(1))),
        "net_joules_per_query" => Formula::Sums(|query| Some((query.energy?.net?, 1.0))),
        "joules_per_token" => Formula::Sums(|query| gross_per(query, query.output_tokens)),
        "joules_per_input_token" => {
            Formula::Sums(|query| Some((query.attribution?.prefill_j?, query.computed_tokens()? as f64)))
        }
        "decode_joules_per_output_token" => {
            Formula::Sums(|query| Some((query.attribution?.decode_j?, query.output_tokens? as f64)))
        }
        "joules_per_total_token" => {
            Formula::Sums(|query| gross_per(query, Some(query.input_tokens? + query.output_tokens?)))
        }
        "intelligence_per_joule" => {
            Formula::Proportional(|query| Some((yes(query.correct == Some(true)), query.energy?.gross)))
        }
        // Accuracy over mean power: right / graded x seconds / joules.
        "intelligence_per_watt" => Formula::ProportionalProduct(|query| {
            let (right, graded) = (query.correct == Some(true), query.correct.is_some());
            Some([(yes(right), yes(graded)), (query.total_s?, query.energy?.gross)])
        }),
        "mean_power_w" => Formula::Proportional(|query| Some((query.energy?.gross, query.total_s?))),
        "ttft_p50" => Formula::Percentile(50.0, Query::ttft),
        "ttft_p90" => Formula::Percentile(90.0, Query::ttft),
        "ttft_p99" => Formula::Percentile(99.0, Query::ttft),
        "tpot_p50" => Formula::Percentile(50.0, Query::tpot),
        "tpot_p99" => Formula::Percentile(99.0, Query::tpot),
        "e2e_p50" => Formula::Percentile(50.0, Query::e2e),
        "e2e_p99" => Formula::Percentile(99.0, Query::e2e),
        "output_tokens_per_second" => Formula::Rate(completed_tokens),
        "requests_per_second" => Formula::Rate(|query| query.is_completed().then_some(1.0)),
        "output_tokens_per_query" => Formula::Sums(|query| Some((query.output_tokens? as f64, 1.0))),
        "cost_usd_per_query" => Formula::Sums(|query| Some((query.cost_usd?, 1.0))),
        // ITL needs all chunks of an answer, goodput the latency limits of the run.
        "itl_p50" | "itl_p99" | "goodput" | "duration" => Formula::Whole,
        _ => return None,
    })
}

/// How a change of a metric is reported: a difference for shares and times, a ratio for everything else.
#[must_use]
pub fn change(metric: &Metric) -> Change {
    match metric.unit {
        Unit::Share | Unit::Seconds if metric.name != "duration" => Change::Difference,
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

fn gross_per(query: &Query, per: Option<u64>) -> Option<(f64, f64)> {
    Some((query.energy?.gross, per? as f64))
}

fn yes(is: bool) -> f64 {
    f64::from(u8::from(is))
}

fn completed_tokens(query: &Query) -> Option<f64> {
    query.output_tokens.filter(|_| query.is_completed()).map(|tokens| tokens as f64)
}

#[cfg(test)]
mod tests {
    use ergometer_runs::metrics;

    use super::*;

    #[test]
    fn every_compared_metric_has_a_formula() {
        for metric in metrics::in_comparisons() {
            assert!(known_formula(metric.name).is_some(), "{}", metric.name);
        }
    }

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
