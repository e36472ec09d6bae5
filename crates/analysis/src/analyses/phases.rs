//! The `phases` analysis: time and energy of prefill and decode, by time stamps and by regression.
//!
//! By time stamps: prefill lasts from sending to the first token, decode from the first token to the end; values per token
//! are ratios of sums. By regression: `cost = constant + b input tokens + c output tokens` over all queries, which separates
//! the cost of one more token from the fixed cost of a query. The analysis also reports whether the two methods differ by
//! more than their intervals: by time stamps, the fixed cost counts as prefill.

use ergometer_charts::{Cell, Table, Tone};
use ergometer_statistics::{Coefficient, NoFit, Plane, Resampling};
use serde::Serialize;
use serde_json::Value;

use super::cell::{self, Unit};
use super::cost_model;
use super::energy_per_token::Ratio;
use super::order::in_sending_order;
use super::{Analysis, Findings, Options, shared_warnings, to_value};
use crate::AnalysisError;
use ergometer_runs::saved::{Query, Run};

/// The `phases` analysis.
pub(super) struct PhaseCosts;

impl Analysis for PhaseCosts {
    fn id(&self) -> &'static str {
        "phases"
    }

    fn about(&self) -> &'static str {
        "time and energy of prefill and decode, by request and by regression on input and output tokens"
    }

    fn run(&self, run: &Run, options: &Options) -> Result<Findings, AnalysisError> {
        shared_warnings::check_queries(run)?;
        let queries = in_sending_order(run.completed());
        let resampling = Resampling { block: run.block(), seed: options.seed, ..Resampling::default() };
        let parts = PhasesByClock::from_queries(&queries, resampling);
        let costs = costs(run, &queries);
        let comparisons = comparisons(&parts, &costs);
        let mut findings = Findings::default();
        findings.summary.insert(String::from("queries"), queries.len().into());
        findings.summary.insert(String::from("prefill_time_share"), parts.prefill.time.share.into());
        findings.summary.insert(String::from("prefill_energy_share"), parts.prefill.energy.share.into());
        findings.data.insert(String::from("energy_source"), run.energy.map(ergometer_runs::EnergySource::name).into());
        findings.data.insert(String::from("by_clock"), to_value(&parts));
        let regressions = costs.iter().map(|cost| (cost.name.to_owned(), to_value(cost)));
        findings.data.insert(String::from("by_regression"), Value::Object(regressions.collect()));
        findings.data.insert(String::from("comparisons"), to_value(&comparisons));
        findings.warnings.extend(shared_warnings::failed_left_out(run));
        findings.warnings.extend(shared_warnings::not_finite(run));
        findings.warnings.extend(shared_warnings::modelled(run));
        findings.tables.push(parts.table());
        findings.tables.push(table(run, &costs));
        findings.tables.extend(comparison_table(&comparisons));
        Ok(findings)
    }
}

/// The time or energy of a phase.
#[derive(Debug, Clone, Copy, Serialize)]
struct PhaseTotal {
    queries: usize,
    sum: Option<f64>,
    mean: Option<f64>,
    /// The share of both phases, over queries that have both.
    share: Option<f64>,
    per_token: Option<Ratio>,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Phase {
    #[serde(rename = "time_s")]
    time: PhaseTotal,
    #[serde(rename = "energy_j")]
    energy: PhaseTotal,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct PhasesByClock {
    prefill: Phase,
    decode: Phase,
}

impl PhasesByClock {
    fn from_queries(queries: &[&Query], resampling: Resampling) -> Self {
        type QueryValue = fn(&Query) -> Option<f64>;
        let input: QueryValue = |query| query.input_tokens.map(|tokens| tokens as f64);
        let output: QueryValue = |query| query.output_tokens.map(|tokens| tokens as f64);
        let part = |value: QueryValue, other: QueryValue, tokens: QueryValue| {
            let values: Vec<f64> = queries.iter().filter_map(|query| value(query)).collect();
            let sum = (!values.is_empty()).then(|| values.iter().sum::<f64>());
            let both = queries.iter().filter_map(|query| value(query).zip(other(query)));
            let both = both.fold((0.0, 0.0), |sum, (value, other)| (sum.0 + value, sum.1 + value + other));
            let pairs: Vec<Option<(f64, f64)>> = queries.iter().map(|query| value(query).zip(tokens(query))).collect();
            PhaseTotal {
                queries: values.len(),
                sum,
                mean: sum.map(|sum| sum / values.len() as f64),
                share: (both.1 > 0.0).then(|| both.0 / both.1),
                per_token: Ratio::from_pairs(&pairs, resampling),
            }
        };
        let [prefill_s, decode_s, prefill_j, decode_j]: [QueryValue; 4] = [
            |query| query.phases.prefill_s,
            |query| query.phases.decode_s,
            |query| query.phases.prefill_j,
            |query| query.phases.decode_j,
        ];
        Self {
            prefill: Phase { time: part(prefill_s, decode_s, input), energy: part(prefill_j, decode_j, input) },
            decode: Phase { time: part(decode_s, prefill_s, output), energy: part(decode_j, prefill_j, output) },
        }
    }

    fn table(&self) -> Table {
        let columns = [
            ("phase", "phase"),
            ("queries", "queries"),
            ("total", "sum"),
            ("per query", "mean"),
            ("share", "share"),
            ("per token", "per_token"),
        ];
        let mut table = Table::new("phases", "Prefill and decode", &columns);
        for (label, part, unit) in [
            ("prefill time", self.prefill.time, Unit::SECONDS),
            ("decode time", self.decode.time, Unit::SECONDS),
            ("prefill energy, gross", self.prefill.energy, Unit::JOULES),
            ("decode energy, gross", self.decode.energy, Unit::JOULES),
        ] {
            let per = part.per_token;
            table.rows.push(vec![
                Cell::text(label),
                cell::count_cell(part.queries as u64),
                cell::number(part.sum, unit),
                cell::number(part.mean, unit),
                cell::share(part.share),
                cell::estimate(per.map(|per| per.value), per.and_then(|per| per.interval), unit),
            ]);
        }
        table.notes.push(String::from(
            "prefill: from sending to the first token, per input token; decode: from the first token to the end, per output token",
        ));
        table
    }
}

/// The time or energy of a query by its tokens.
#[derive(Debug, Serialize)]
struct Cost {
    #[serde(skip)]
    name: &'static str,
    #[serde(skip)]
    words: &'static str,
    #[serde(skip)]
    unit: Unit,
    /// `first` is per input token, `second` per output token.
    #[serde(flatten)]
    plane: Option<FittedPlane>,
    /// Why there is no fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// A fitted plane with named coefficients.
#[derive(Debug, Clone, Copy, Serialize)]
struct FittedPlane {
    count: usize,
    constant: Coefficient,
    per_input_token: Coefficient,
    per_output_token: Coefficient,
    r2: f64,
    residual_std: Option<f64>,
    variance_inflation: f64,
}

impl From<Plane> for FittedPlane {
    fn from(plane: Plane) -> Self {
        Self {
            count: plane.count,
            constant: plane.constant,
            per_input_token: plane.first,
            per_output_token: plane.second,
            r2: plane.r2,
            residual_std: plane.residual_std,
            variance_inflation: plane.variance_inflation,
        }
    }
}

fn costs(run: &Run, queries: &[&Query]) -> Vec<Cost> {
    let cost = |name, words, unit, of: &dyn Fn(&Query) -> Option<f64>| {
        let triple = |query: &&Query| Some((query.input_tokens? as f64, query.output_tokens? as f64, of(query)?));
        let plane = Plane::fit(&queries.iter().filter_map(triple).collect::<Vec<_>>());
        let reason = plane.as_ref().err().map(|why| reason(why, words));
        Cost { name, words, unit, plane: plane.ok().map(FittedPlane::from), reason }
    };
    let mut costs = vec![cost("time_s", "time", Unit::SECONDS, &|query| query.total_s)];
    if run.energy.is_some() {
        costs.push(cost("gross_energy_j", "gross energy", Unit::JOULES, &|query| Some(query.energy?.gross)));
        costs.push(cost("net_energy_j", "net energy", Unit::JOULES, &|query| query.energy?.net));
        if cost_model::is_used(run) {
            // A fit would only find the cost model again, without its uncertainty.
            for cost in costs.iter_mut().filter(|cost| cost.unit == Unit::JOULES) {
                let reason = "the energy of each query comes from the cost model (see the analysis cost_model)";
                (cost.plane, cost.reason) = (None, Some(reason.to_owned()));
            }
        }
    }
    costs
}

/// Why a cost could not be fitted.
fn reason(why: &NoFit, cost: &str) -> String {
    match why {
        NoFit::TooFew { count, needed } => {
            let queries = match *count {
                0 => String::from("no query has"),
                1 => String::from("only 1 query has"),
                count => format!("only {count} queries have"),
            };
            format!("{queries} token counts and {cost}; needs at least {needed}")
        }
        NoFit::Constant { regressor: 0 } => String::from("all queries have the same number of input tokens"),
        NoFit::Constant { .. } => String::from("all queries have the same number of output tokens"),
        NoFit::Collinear { .. } => String::from("input and output tokens are too strongly correlated"),
        other => other.to_string(),
    }
}

fn table(run: &Run, costs: &[Cost]) -> Table {
    let columns = [
        ("cost", "cost"),
        ("queries", "count"),
        ("per query", "constant"),
        ("per input token", "per_input_token"),
        ("per output token", "per_output_token"),
        ("r²", "r2"),
        ("verdict", "verdict"),
    ];
    let mut table = Table::new("phase_regression", "Regression on input and output tokens", &columns);
    for cost in costs {
        let label = Cell::text(cost.words);
        let Some(plane) = &cost.plane else {
            let text = format!("no fit: {}", cost.reason.as_deref().unwrap_or("unknown reason"));
            let verdict = Cell::Verdict { text, tone: Tone::Warning };
            table.rows.push([vec![label], vec![Cell::Absent; 5], vec![verdict]].concat());
            continue;
        };
        let (text, tone) = verdict(plane);
        table.rows.push(vec![
            label,
            cell::count_cell(plane.count as u64),
            cell::coefficient(&plane.constant, cost.unit),
            cell::coefficient(&plane.per_input_token, cost.unit),
            cell::coefficient(&plane.per_output_token, cost.unit),
            Cell::number(Some(plane.r2), |r2| format!("{r2:.3}")),
            Cell::Verdict { text, tone },
        ]);
    }
    table.notes.push(String::from(
        "least squares on input and output tokens; 95 % interval (Student's t): value ± half-width, or only the ends (low \
         to high) if the half-width exceeds the value",
    ));
    if run.block() > 1 {
        table.notes.push(String::from("requests overlap and are not independent, so the intervals are too narrow"));
    }
    table
}

fn verdict(plane: &FittedPlane) -> (String, Tone) {
    let is_unknown = |coefficient: &Coefficient| coefficient.interval.is_none_or(|interval| interval.contains(0.0));
    let text = match (is_unknown(&plane.per_input_token), is_unknown(&plane.per_output_token)) {
        (true, true) => "no evidence of a cost per token",
        (true, false) => "no evidence of a cost per input token",
        (false, true) => "no evidence of a cost per output token",
        (false, false) => return (String::from("both contribute"), Tone::Plain),
    };
    (text.to_owned(), Tone::Warning)
}

/// A cost per token by time stamps and by regression.
#[derive(Debug, Serialize)]
struct Comparison {
    what: &'static str,
    #[serde(skip)]
    unit: Unit,
    by_clock: Ratio,
    by_regression: Coefficient,
    /// Whether the intervals are disjoint; absent if one has no interval.
    differ: Option<bool>,
    verdict: String,
}

fn comparisons(parts: &PhasesByClock, costs: &[Cost]) -> Vec<Comparison> {
    let plane = |name: &str| costs.iter().find(|cost| cost.name == name).and_then(|cost| cost.plane);
    let per = |what, (tokens, other), unit, part: PhaseTotal, by_regression: Option<Coefficient>| {
        let (by_clock, by_regression) = (part.per_token?, by_regression?);
        let intervals = by_clock.interval.zip(by_regression.interval);
        let differ = intervals.map(|(one, other)| one.high < other.low || other.high < one.low);
        let verdict = match differ {
            None if by_clock.interval.is_none() => String::from(
                "no verdict: the value by request has no interval (fewer than 10 independent blocks of queries)",
            ),
            None => String::from("no verdict: the regression has no interval (too few queries)"),
            Some(false) if by_regression.interval.is_some_and(|interval| interval.contains(0.0)) => {
                String::from("regression is inconclusive: its interval contains zero")
            }
            Some(false) => String::from("they agree"),
            Some(true) if by_clock.value > by_regression.value => {
                String::from("they differ: the phase includes the fixed cost of a query")
            }
            Some(true) => format!("they differ: part of the cost of {tokens} tokens is in the {other} phase"),
        };
        Some(Comparison { what, unit, by_clock, by_regression, differ, verdict })
    };
    let (input, output) = (("input", "decode"), ("output", "prefill"));
    let (time, energy) = (plane("time_s"), plane("gross_energy_j"));
    let (prefill, decode) = (&parts.prefill, &parts.decode);
    let found = [
        per("seconds per input token", input, Unit::SECONDS, prefill.time, time.map(|plane| plane.per_input_token)),
        per("seconds per output token", output, Unit::SECONDS, decode.time, time.map(|plane| plane.per_output_token)),
        per("joules per input token", input, Unit::JOULES, prefill.energy, energy.map(|plane| plane.per_input_token)),
        per("joules per output token", output, Unit::JOULES, decode.energy, energy.map(|plane| plane.per_output_token)),
    ];
    found.into_iter().flatten().collect()
}

fn comparison_table(comparisons: &[Comparison]) -> Option<Table> {
    let columns =
        [("", "what"), ("by request", "by_clock"), ("by regression", "by_regression"), ("verdict", "verdict")];
    let mut table = Table::new("phase_comparison", "Cost per token: by request and by regression", &columns);
    for comparison in comparisons {
        let Ratio { value, interval } = comparison.by_clock;
        let tone = if comparison.differ == Some(true) { Tone::Warning } else { Tone::Plain };
        table.rows.push(vec![
            Cell::text(comparison.what),
            cell::estimate(Some(value), interval, comparison.unit),
            cell::coefficient(&comparison.by_regression, comparison.unit),
            Cell::Verdict { text: comparison.verdict.clone(), tone },
        ]);
    }
    (!table.rows.is_empty()).then_some(table)
}
