//! The table of metrics.

use ergometer_statistics::{Aim, Distribution};

use super::{Fraction, Metric, QueryFormula, Unit, Value};
use crate::Summary;
use crate::query_formula::{completed_tokens, gross_per, yes};
use crate::saved::Query;
use crate::summary::{EnergyTotals, LoadSummary};

/// The keys of `sweep.json`, in the order of its tables.
pub(super) const SWEEP_ORDER: [&str; 26] = [
    "requests_per_second",
    "output_tokens_per_second",
    "steady_output_tokens_per_second",
    "goodput_requests_per_second",
    "ttft_p50_ms",
    "ttft_p99_ms",
    "itl_p50_ms",
    "itl_p99_ms",
    "tpot_p50_ms",
    "tpot_p99_ms",
    "e2e_p50_ms",
    "e2e_p99_ms",
    "gross_j_per_output_token",
    "gross_j_per_query",
    "net_j_per_output_token",
    "net_j_per_query",
    "prefill_j_per_input_token",
    "decode_j_per_output_token",
    "mean_power_w",
    "accuracy",
    "intelligence_per_joule",
    "intelligence_per_watt",
    "cost_usd",
    "completed",
    "failed",
    "duration_s",
];

const fn metric(name: &'static str, label: &'static str, unit: Unit, better: Option<Aim>) -> Metric {
    Metric {
        name,
        key: name,
        label,
        unit,
        better,
        formula: "",
        in_sweeps: true,
        distribution: name,
        over_queries: None,
        value: Value::Records,
    }
}

const fn energy(
    (name, key, label): (&'static str, &'static str, &'static str),
    formula: &'static str,
    field: fn(&EnergyTotals) -> Option<f64>,
    over_queries: Option<QueryFormula>,
) -> Metric {
    let value = Value::Energy(field);
    Metric { key, formula, over_queries, value, ..metric(name, label, Unit::Joules, Some(Aim::Lower)) }
}

/// A latency metric. Summaries and sweeps have milliseconds.
const fn latency(
    (name, key, label): (&'static str, &'static str, &'static str),
    formula: &'static str,
    field: fn(&Summary) -> Option<f64>,
    over_queries: QueryFormula,
) -> Metric {
    let (value, over_queries) = (Value::Field(field), Some(over_queries));
    Metric { key, formula, over_queries, value, ..metric(name, label, Unit::Seconds, Some(Aim::Lower)) }
}

/// The formula of a metric that is a ratio of sums over queries.
const fn sums(fraction: Fraction) -> QueryFormula {
    QueryFormula::Sums(fraction)
}

const fn only_in_comparisons(metric: Metric) -> Metric {
    Metric { in_sweeps: false, ..metric }
}

/// A statistic of a latency in milliseconds: of the load if there is one, else of the run.
fn from_distribution(
    summary: &Summary,
    load: fn(&LoadSummary) -> Option<Distribution>,
    run: fn(&Summary) -> Option<Distribution>,
    statistic: fn(&Distribution) -> Option<f64>,
) -> Option<f64> {
    let of_load = summary.load.as_deref().and_then(load).and_then(|found| statistic(&found));
    of_load.or_else(|| run(summary).and_then(|found| statistic(&found)))
}

macro_rules! statistic {
    ($field:ident, $statistic:expr) => {
        |summary| from_distribution(summary, |load| load.whole.$field, |summary| summary.latency.$field, $statistic)
    };
}

const P50: fn(&Distribution) -> Option<f64> = |found| Some(found.p50);
const P90: fn(&Distribution) -> Option<f64> = |found| Some(found.p90);
const P99: fn(&Distribution) -> Option<f64> = |found| found.p99;

const HIGHER: Option<Aim> = Some(Aim::Higher);
const LOWER: Option<Aim> = Some(Aim::Lower);

/// Every metric, in reading order.
pub static METRICS: &[Metric] = &[
    Metric {
        formula: "correct answers / graded answers",
        value: Value::Field(|summary| Some(summary.accuracy.as_ref()?.rate.value)),
        over_queries: Some(sums(|query| query.correct.map(|correct| (yes(correct), 1.0)))),
        ..metric("accuracy", "accuracy", Unit::Share, HIGHER)
    },
    only_in_comparisons(Metric {
        formula: "failed queries / queries",
        over_queries: Some(sums(|query| Some((yes(!query.is_completed()), 1.0)))),
        ..metric("failed_share", "failed", Unit::Share, LOWER)
    }),
    energy(
        ("joules_per_query", "gross_j_per_query", "J/query"),
        "gross joules of the queries with energy / their number",
        |totals| Some(totals.gross_j_per_query.value),
        Some(sums(|query| gross_per(query, Some(1)))),
    ),
    energy(
        ("net_joules_per_query", "net_j_per_query", "net J/query"),
        "(gross - idle power x time) joules of the queries with energy / their number",
        |totals| Some(totals.net_j_per_query?.value),
        Some(sums(|query| Some((query.energy?.net?, 1.0)))),
    ),
    Metric {
        distribution: "joules_per_output_token",
        ..energy(
            ("joules_per_token", "gross_j_per_output_token", "J/output token"),
            "gross joules of the queries with known tokens / their output tokens",
            |totals| totals.gross_j_per_output_token,
            Some(sums(|query| gross_per(query, query.output_tokens))),
        )
    },
    energy(
        ("net_joules_per_token", "net_j_per_output_token", "net J/output token"),
        "net joules of the queries with known tokens / their output tokens",
        |totals| totals.net_j_per_output_token,
        None,
    ),
    energy(
        ("joules_per_input_token", "prefill_j_per_input_token", "net J/input token"),
        "net joules attributed to prompts / input tokens that were computed (not taken from a cache)",
        |totals| totals.prefill_j_per_input_token,
        Some(sums(|query| Some((query.attribution?.prefill_j?, query.computed_tokens()? as f64)))),
    ),
    energy(
        ("decode_joules_per_output_token", "decode_j_per_output_token", "net decode J/output token"),
        "net joules attributed to outputs / output tokens",
        |totals| totals.decode_j_per_output_token,
        Some(sums(|query| Some((query.attribution?.decode_j?, query.output_tokens? as f64)))),
    ),
    only_in_comparisons(energy(
        ("joules_per_total_token", "gross_j_per_token", "J/total token"),
        "gross joules of the queries with known tokens / their input and output tokens",
        |totals| totals.gross_j_per_token,
        Some(sums(|query| gross_per(query, Some(query.input_tokens? + query.output_tokens?)))),
    )),
    Metric {
        formula: "correct answers / gross joules of the run",
        value: Value::PerJoule(|summary| Some(summary.intelligence.as_ref()?.per_joule.value)),
        over_queries: Some(QueryFormula::Proportional(|query| {
            Some((yes(query.correct == Some(true)), query.energy?.gross))
        })),
        ..metric("intelligence_per_joule", "correct answers per joule", Unit::Count("/J"), HIGHER)
    },
    Metric {
        formula: "accuracy / mean gross power",
        value: Value::PerJoule(|summary| Some(summary.intelligence.as_ref()?.per_watt?.value)),
        // Accuracy over mean power: right / graded x seconds / joules.
        over_queries: Some(QueryFormula::ProportionalProduct(|query| {
            let (right, graded) = (query.correct == Some(true), query.correct.is_some());
            Some([(yes(right), yes(graded)), (query.total_s?, query.energy?.gross)])
        })),
        ..metric("intelligence_per_watt", "accuracy per watt", Unit::Count("/W"), HIGHER)
    },
    Metric {
        formula: "gross joules of the run / its duration",
        value: Value::Energy(|totals| Some(totals.mean_power_w)),
        over_queries: Some(QueryFormula::Proportional(|query| Some((query.energy?.gross, query.total_s?)))),
        ..metric("mean_power_w", "mean power", Unit::Watts, None)
    },
    latency(
        ("ttft_p50", "ttft_p50_ms", "TTFT p50"),
        "median of first token - sent, over completed requests",
        statistic!(ttft_ms, P50),
        QueryFormula::Percentile(50.0, Query::ttft),
    ),
    only_in_comparisons(latency(
        ("ttft_p90", "ttft_p90_ms", "TTFT p90"),
        "90th percentile of first token - sent, over completed requests",
        statistic!(ttft_ms, P90),
        QueryFormula::Percentile(90.0, Query::ttft),
    )),
    latency(
        ("ttft_p99", "ttft_p99_ms", "TTFT p99"),
        "99th percentile of first token - sent, over completed requests",
        statistic!(ttft_ms, P99),
        QueryFormula::Percentile(99.0, Query::ttft),
    ),
    latency(
        ("tpot_p50", "tpot_p50_ms", "TPOT p50"),
        "median of (E2E - TTFT) / (output tokens - 1), over completed requests",
        statistic!(tpot_ms, P50),
        QueryFormula::Percentile(50.0, Query::tpot),
    ),
    latency(
        ("tpot_p99", "tpot_p99_ms", "TPOT p99"),
        "99th percentile of (E2E - TTFT) / (output tokens - 1), over completed requests",
        statistic!(tpot_ms, P99),
        QueryFormula::Percentile(99.0, Query::tpot),
    ),
    // ITL needs all chunks of an answer, which a query does not have.
    latency(
        ("itl_p50", "itl_p50_ms", "ITL p50"),
        "median of the times between token events of one answer",
        |summary| from_distribution(summary, |load| load.whole.itl_ms, |_| None, P50),
        QueryFormula::Whole,
    ),
    latency(
        ("itl_p99", "itl_p99_ms", "ITL p99"),
        "99th percentile of the times between token events of one answer",
        |summary| from_distribution(summary, |load| load.whole.itl_ms, |_| None, P99),
        QueryFormula::Whole,
    ),
    latency(
        ("e2e_p50", "e2e_p50_ms", "E2E latency p50"),
        "median of last token - sent, over completed requests",
        statistic!(e2e_ms, P50),
        QueryFormula::Percentile(50.0, Query::e2e),
    ),
    latency(
        ("e2e_p99", "e2e_p99_ms", "E2E latency p99"),
        "99th percentile of last token - sent, over completed requests",
        statistic!(e2e_ms, P99),
        QueryFormula::Percentile(99.0, Query::e2e),
    ),
    Metric {
        formula: "output tokens of completed requests / duration",
        value: Value::Field(|summary| {
            let load = summary.load.as_ref().and_then(|load| load.whole.output_tokens_per_second);
            load.or(summary.tokens.output_per_second)
        }),
        over_queries: Some(QueryFormula::Rate(completed_tokens)),
        ..metric("output_tokens_per_second", "throughput", Unit::Count("tok/s"), HIGHER)
    },
    Metric {
        formula: "output tokens that arrived in the steady state / its duration",
        value: Value::Field(|summary| summary.load.as_ref()?.steady_state.as_ref()?.figures.output_tokens_per_second),
        ..metric("steady_output_tokens_per_second", "steady throughput", Unit::Count("tok/s"), HIGHER)
    },
    Metric {
        formula: "completed requests / duration",
        value: Value::Field(|summary| {
            let load = summary.load.as_ref().and_then(|load| load.whole.requests_per_second);
            load.or(summary.tokens.requests_per_second)
        }),
        over_queries: Some(QueryFormula::Rate(|query| query.is_completed().then_some(1.0))),
        ..metric("requests_per_second", "requests", Unit::Count("/s"), HIGHER)
    },
    Metric {
        key: "goodput_requests_per_second",
        formula: "requests within every limit / duration",
        value: Value::Field(|summary| Some(summary.load.as_ref()?.whole.goodput?.requests_per_second)),
        // It needs the latency limits of the run.
        over_queries: Some(QueryFormula::Whole),
        ..metric("goodput", "goodput", Unit::Count("/s"), HIGHER)
    },
    only_in_comparisons(Metric {
        formula: "output tokens / queries",
        over_queries: Some(sums(|query| Some((query.output_tokens? as f64, 1.0)))),
        ..metric("output_tokens_per_query", "tokens/query", Unit::Count(""), None)
    }),
    // The cost in a summary is of the whole run and grows with its length, so comparisons use the cost per query.
    only_in_comparisons(Metric {
        formula: "cost of the queries / their number",
        over_queries: Some(sums(|query| Some((query.cost_usd?, 1.0)))),
        ..metric("cost_usd_per_query", "cost/query", Unit::Dollars, LOWER)
    }),
    Metric {
        formula: "input tokens x input price + output tokens x output price",
        value: Value::Field(|summary| summary.cost_usd),
        ..metric("cost_usd", "cost", Unit::Dollars, LOWER)
    },
    Metric {
        formula: "requests that completed",
        value: Value::Field(|summary| Some(summary.outcomes.completed as f64)),
        ..metric("completed", "completed", Unit::Count(""), None)
    },
    Metric {
        formula: "requests that failed, of every kind",
        value: Value::Field(|summary| Some(summary.failed() as f64)),
        ..metric("failed", "failed requests", Unit::Count(""), LOWER)
    },
    Metric {
        key: "duration_s",
        formula: "last request's end - first request's start, added over the sessions",
        value: Value::Field(|summary| Some(summary.duration_s).filter(|&seconds| seconds > 0.0)),
        over_queries: Some(QueryFormula::Whole),
        ..metric("duration", "duration", Unit::Seconds, None)
    },
];

#[cfg(test)]
mod tests {
    use super::super::in_sweeps;
    use super::*;

    #[test]
    fn every_metric_has_one_name_one_key_and_a_formula() {
        for (index, metric) in METRICS.iter().enumerate() {
            let is_plain =
                |character: char| character.is_ascii_lowercase() || character.is_ascii_digit() || character == '_';
            assert!(metric.name.chars().all(is_plain) && metric.key.chars().all(is_plain), "{}", metric.name);
            assert!(!metric.formula.is_empty(), "{}", metric.name);
            for other in &METRICS[..index] {
                let names = [other.name, other.key];
                assert!(!names.contains(&metric.name) && !names.contains(&metric.key), "{}", metric.name);
                assert_ne!(metric.label, other.label);
            }
        }
    }

    #[test]
    fn a_metric_without_a_field_in_summaries_is_computed_from_queries() {
        for metric in METRICS.iter().filter(|metric| matches!(metric.value, Value::Records)) {
            assert!(matches!(metric.over_queries, Some(QueryFormula::Sums(_))), "{}", metric.name);
        }
    }

    #[test]
    fn the_order_of_sweeps_has_every_metric_of_sweeps_once() {
        let listed: Vec<&str> = in_sweeps().map(|metric| metric.key).collect();
        assert_eq!(listed, SWEEP_ORDER);
        let mut known: Vec<&str> = METRICS.iter().filter(|metric| metric.in_sweeps).map(|metric| metric.key).collect();
        let mut sorted = listed;
        known.sort_unstable();
        sorted.sort_unstable();
        assert_eq!(known, sorted);
    }
}
