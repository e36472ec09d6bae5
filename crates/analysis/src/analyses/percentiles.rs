//! The `percentiles` analysis: distribution of latencies, tokens, joules and watts of completed queries.
//!
//! Percentiles are exact (type 7) and equal those of `summary.json`. Medians have a 95 % interval by order statistics, except
//! ITL, because the gaps of one answer are not independent.

use ergometer_charts::{Cell, Table};
use ergometer_statistics::{Distribution, Gaps, Interval};
use ergometer_units::format;
use serde_json::Value;

use super::cell;
use super::{Analysis, Findings, Options, shared_warnings, to_value};
use crate::AnalysisError;
use ergometer_runs::metrics::{Metric, named};
use ergometer_runs::saved::{Attempt, AttemptOutcome, Query, Run};

/// The `percentiles` analysis.
pub(super) struct Percentiles;

impl Analysis for Percentiles {
    fn id(&self) -> &'static str {
        "percentiles"
    }

    fn about(&self) -> &'static str {
        "distribution of latencies, tokens, joules and watts: mean, p50, p90, p95, p99"
    }

    fn run(&self, run: &Run, _: &Options) -> Result<Findings, AnalysisError> {
        shared_warnings::check_queries(run)?;
        let mut rows: Vec<Row> = MEASURES.iter().map(|&measure| Row::from_queries(measure, run.completed())).collect();
        // The other latencies follow the first three rows.
        rows.splice(3..3, [gaps(run)?, Row::from_queries(SCHEDULE_LAG, run.queries.iter())]);
        let mut findings = Findings::default();
        findings.summary.insert(String::from("completed"), run.completed().count().into());
        for name in ["ttft_ms", "tpot_ms", "e2e_ms", GROSS.distribution] {
            let row = rows.iter().find(|row| row.name == name);
            let median = row.and_then(|row| row.found).map(|found| found.p50);
            findings.summary.insert(format!("{name}_p50"), median.map_or(Value::Null, Value::from));
        }
        for row in &rows {
            findings.data.insert(row.name.to_owned(), to_value(&row.found));
        }
        findings.warnings.extend(shared_warnings::failed_left_out(run));
        findings.warnings.extend(shared_warnings::not_finite(run));
        findings.warnings.extend(shared_warnings::modelled(run));
        findings.tables.push(table(run, &rows));
        Ok(findings)
    }
}

/// The distribution of one metric.
struct Row {
    name: &'static str,
    words: &'static str,
    found: Option<Distribution>,
}

/// The name in JSON, the label, and the value of a query.
type Measure = (&'static str, &'static str, fn(&Query) -> Option<f64>);

/// The schedule lag, which includes failed queries because it does not depend on the answer.
const SCHEDULE_LAG: Measure = ("schedule_lag_ms", "schedule lag (all), ms", |query| {
    query.times().schedule_lag().map(|lag| milliseconds(lag.get()))
});

const GROSS: &Metric = named("joules_per_query");
const NET: &Metric = named("net_joules_per_query");
const GROSS_PER_TOKEN: &Metric = named("joules_per_token");

const MEASURES: [Measure; 10] = [
    ("ttft_ms", "TTFT, ms", |query| query.ttft().map(milliseconds)),
    ("tpot_ms", "TPOT, ms", |query| query.tpot().map(milliseconds)),
    ("e2e_ms", "E2E latency, ms", |query| query.e2e().map(milliseconds)),
    ("input_tokens", "input tokens", |query| Some(query.input_tokens? as f64)),
    ("output_tokens", "output tokens", |query| Some(query.output_tokens? as f64)),
    (GROSS.distribution, "gross J/query", |query| Some(query.energy?.gross)),
    (NET.distribution, NET.label, |query| query.energy?.net),
    (GROSS_PER_TOKEN.distribution, "gross J/output token", Query::joules_per_output_token),
    ("watts", "gross W attributed to query", |query| {
        Some(query.energy?.gross / query.total_s.filter(|&seconds| seconds > 0.0)?)
    }),
    ("gpu_watts", "GPU W during query", |query| query.gpu_watts),
];

fn milliseconds(seconds: f64) -> f64 {
    seconds * 1e3
}

impl Row {
    fn from_queries<'a>((name, words, value): Measure, queries: impl Iterator<Item = &'a Query>) -> Self {
        let values: Vec<f64> = queries.filter_map(value).collect();
        Self { name, words, found: Distribution::from_values(&values) }
    }
}

/// ITL: the gaps between token events, pooled over completed attempts.
fn gaps(run: &Run) -> Result<Row, AnalysisError> {
    let mut gaps = Gaps::default();
    Attempt::each(&run.folder, |attempt, found| {
        if attempt.outcome == AttemptOutcome::Completed {
            for &gap in found {
                gaps.push(u64::try_from(gap).unwrap_or(0));
            }
        }
    })?;
    Ok(Row { name: "itl_ms", words: "ITL, ms", found: Gaps::distribution(&mut [&mut gaps]) })
}

fn table(run: &Run, rows: &[Row]) -> Table {
    let columns = [
        ("", "measure"),
        ("values", "count"),
        ("mean", "mean"),
        ("std", "std"),
        ("min", "min"),
        ("p50", "p50"),
        ("p90", "p90"),
        ("p95", "p95"),
        ("p99", "p99"),
        ("max", "max"),
    ];
    let mut table = Table::new("percentiles", "Distribution over completed queries", &columns);
    for row in rows {
        let Some(distribution) = row.found else { continue };
        let number = |value: f64| Cell::number(Some(value), show);
        let absent = |value: Option<f64>| value.map_or(Cell::Absent, number);
        table.rows.push(vec![
            Cell::text(row.words),
            cell::count_cell(distribution.count as u64),
            number(distribution.mean),
            absent(distribution.std),
            number(distribution.min),
            distribution
                .p50_interval
                .map_or_else(|| number(distribution.p50), |interval| median(distribution.p50, interval)),
            number(distribution.p90),
            number(distribution.p95),
            absent(distribution.p99),
            number(distribution.max),
        ]);
    }
    table.notes.push(String::from("in parentheses: 95 % interval of the median; p99 needs at least 100 values"));
    table.notes.push(String::from(
        "gross W attributed to query: its energy / its duration; GPU W during query: mean power of the GPU while the \
         query ran, including the power of other queries",
    ));
    table.notes.push(String::from(
        "schedule lag: how late the client sent a request; (all): over all queries, including failed ones",
    ));
    if run.block() > 1 {
        table.notes.push(String::from("requests overlap and are not independent, so the intervals are too narrow"));
    }
    table
}

/// Formats a median with its interval, if the interval is not empty.
fn median(value: f64, Interval { low, high }: Interval) -> Cell {
    let shown = if low == high { show(value) } else { format!("{} ({} to {})", show(value), show(low), show(high)) };
    Cell::Estimate { value, low, high, shown }
}

/// Formats a number; tokens have no decimals.
fn show(value: f64) -> String {
    if value.fract() == 0.0 { format::thousands(value) } else { format::significant(value) }
}
