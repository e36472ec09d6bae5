//! `phases`: what prefill and decode cost, in time and energy, told in two ways.
//!
//! By the clock: prefill is sending to first token, decode is first token to end, as the records have them; per token they
//! are ratios of sums. By regression: `cost = constant + b input tokens + c output tokens` over all queries, which tells what a
//! further token adds, and what a query costs whatever its length. Where the two differ by more than their intervals, that
//! is said: the clock puts the constant into prefill, and a decode step into whichever side of the first token it falls.

use ergometer_charts::{Cell, Table, Tone};
use ergometer_statistics::{Coefficient, NoFit, Plane, Resampling};
use serde::Serialize;
use serde_json::Value;

use super::cell::{self, Unit};
use super::energy_per_token::Ratio;
use super::order::in_order_of_sending;
use super::{Analysis, Findings, Options, caution, to_value};
use crate::AnalysisError;
use ergometer_runs::saved::{Query, Run};

/// See the module.
pub(super) struct PhaseCosts;

impl Analysis for PhaseCosts {
    fn id(&self) -> &'static str {
        "phases"
    }

    fn about(&self) -> &'static str {
        "what prefill and decode cost, by the clock and by regression on input and output tokens"
    }

    fn run(&self, run: &Run, options: &Options) -> Result<Findings, AnalysisError> {
        caution::check_queries(run)?;
        let queries = in_order_of_sending(run.completed());
        let resampling = Resampling { block: run.block(), seed: options.seed, ..Resampling::default() };
        let parts = Parts::of(&queries, resampling);
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
        findings.warnings.extend(caution::failed_left_out(run));
        findings.warnings.extend(caution::not_finite(run));
        findings.warnings.extend(caution::modelled(run));
        findings.tables.push(parts.table());
        findings.tables.push(table(run, &costs));
        findings.tables.extend(comparison_table(&comparisons));
        Ok(findings)
    }
}

/// What a phase took of one thing.
#[derive(Debug, Clone, Copy, Serialize)]
struct Part {
    queries: usize,
    sum: Option<f64>,
    mean: Option<f64>,
    /// Of both phases, over queries that have both.
    share: Option<f64>,
    per_token: Option<Ratio>,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Phase {
    #[serde(rename = "time_s")]
    time: Part,
    #[serde(rename = "energy_j")]
    energy: Part,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Parts {
    prefill: Phase,
    decode: Phase,
}

impl Parts {
    fn of(queries: &[&Query], resampling: Resampling) -> Self {
        type Of = fn(&Query) -> Option<f64>;
        let input: Of = |query| query.input_tokens.map(|tokens| tokens as f64);
        let output: Of = |query| query.output_tokens.map(|tokens| tokens as f64);
        let part = |value: Of, other: Of, tokens: Of| {
            let values: Vec<f64> = queries.iter().filter_map(|query| value(query)).collect();
            let sum = (!values.is_empty()).then(|| values.iter().sum::<f64>());
            let both = queries.iter().filter_map(|query| value(query).zip(other(query)));
            let both = both.fold((0.0, 0.0), |sum, (value, other)| (sum.0 + value, sum.1 + value + other));
            let pairs: Vec<Option<(f64, f64)>> = queries.iter().map(|query| value(query).zip(tokens(query))).collect();
            Part {
                queries: values.len(),
                sum,
                mean: sum.map(|sum| sum / values.len() as f64),
                share: (both.1 > 0.0).then(|| both.0 / both.1),
                per_token: Ratio::of(&pairs, resampling),
            }
        };
        let [prefill_s, decode_s, prefill_j, decode_j]: [Of; 4] = [
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
            ("in all", "sum"),
            ("per query", "mean"),
            ("share", "share"),
            ("per token", "per_token"),
        ];
        let mut table = Table::new("phases", "Prefill and decode by the clock", &columns);
        for (label, part, unit) in [
            ("prefill time, s", self.prefill.time, Unit::SECONDS),
            ("decode time, s", self.decode.time, Unit::SECONDS),
            ("prefill energy, J", self.prefill.energy, Unit::JOULES),
            ("decode energy, J", self.decode.energy, Unit::JOULES),
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
            "prefill: sending to first token, per input token; decode: first token to end, per output token",
        ));
        table
    }
}

/// What a query costs of one thing, by its tokens.
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
    plane: Option<Named>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// A plane by what its regressors are.
#[derive(Debug, Clone, Copy, Serialize)]
struct Named {
    count: usize,
    constant: Coefficient,
    per_input_token: Coefficient,
    per_output_token: Coefficient,
    r2: f64,
    residual_std: Option<f64>,
    variance_inflation: f64,
}

impl From<Plane> for Named {
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
        let reason = plane.as_ref().err().map(reason);
        Cost { name, words, unit, plane: plane.ok().map(Named::from), reason }
    };
    let mut costs = vec![cost("time_s", "time, s", Unit::SECONDS, &|query| query.total_s)];
    if run.energy.is_some() {
        costs.push(cost("gross_energy_j", "gross energy, J", Unit::JOULES, &|query| Some(query.energy?.gross)));
        costs.push(cost("net_energy_j", "net energy, J", Unit::JOULES, &|query| query.energy?.net));
    }
    costs
}

fn reason(why: &NoFit) -> String {
    match why {
        NoFit::TooFew { count, needed } => {
            format!("{count} queries have tokens and this figure, and it takes {needed}")
        }
        NoFit::Constant { regressor: 0 } => {
            String::from("all queries have as many input tokens, so what one adds cannot be told")
        }
        NoFit::Constant { .. } => {
            String::from("all queries have as many output tokens, so what one adds cannot be told")
        }
        NoFit::Collinear { .. } => {
            String::from("input and output tokens rise and fall together, so what belongs to which cannot be told")
        }
        other => other.to_string(),
    }
}

fn table(run: &Run, costs: &[Cost]) -> Table {
    let columns = [
        ("cost", "cost"),
        ("queries", "count"),
        ("a query", "constant"),
        ("an input token", "per_input_token"),
        ("an output token", "per_output_token"),
        ("r²", "r2"),
        ("what it says", "verdict"),
    ];
    let mut table = Table::new("phase_regression", "What a query, an input token and an output token add", &columns);
    for cost in costs {
        let label = Cell::text(cost.words);
        let Some(plane) = &cost.plane else {
            let text = format!("no fit: {}", cost.reason.as_deref().unwrap_or("not known why"));
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
    table
        .notes
        .push(String::from("least squares on input and output tokens together; ± is a 95 % interval by Student's t"));
    if run.block() > 1 {
        table.notes.push(String::from(
            "requests ran together: what one costs depends on the others, and intervals are too narrow",
        ));
    }
    table
}

fn verdict(plane: &Named) -> (String, Tone) {
    let is_unknown = |coefficient: &Coefficient| coefficient.interval.is_none_or(|interval| interval.contains(0.0));
    let text = match (is_unknown(&plane.per_input_token), is_unknown(&plane.per_output_token)) {
        (true, true) => "no evidence that either kind of token adds anything",
        (true, false) => "no evidence that input tokens add anything",
        (false, true) => "no evidence that output tokens add anything",
        (false, false) => return (String::from("both add"), Tone::Plain),
    };
    (text.to_owned(), Tone::Warning)
}

/// The same by the clock and by regression.
#[derive(Debug, Serialize)]
struct Comparison {
    what: &'static str,
    #[serde(skip)]
    unit: Unit,
    by_clock: Ratio,
    by_regression: Coefficient,
    /// Whether the intervals have nothing in common; absent where one has none.
    differ: Option<bool>,
    verdict: String,
}

fn comparisons(parts: &Parts, costs: &[Cost]) -> Vec<Comparison> {
    let plane = |name: &str| costs.iter().find(|cost| cost.name == name).and_then(|cost| cost.plane);
    let per = |what, unit, part: Part, by_regression: Option<Coefficient>| {
        let (by_clock, by_regression) = (part.per_token?, by_regression?);
        let intervals = by_clock.interval.zip(by_regression.interval);
        let differ = intervals.map(|(one, other)| one.high < other.low || other.high < one.low);
        let verdict = match differ {
            None => "one of them has no interval",
            Some(false) if by_regression.interval.is_some_and(|interval| interval.contains(0.0)) => {
                "regression cannot tell: its interval contains zero"
            }
            Some(false) => "they agree",
            Some(true) if by_clock.value > by_regression.value => {
                "they differ: the phase also has what a query costs whatever its length"
            }
            Some(true) => "they differ: a token adds more than its phase has; the other phase has the rest",
        };
        Some(Comparison { what, unit, by_clock, by_regression, differ, verdict: verdict.to_owned() })
    };
    let (time, energy) = (plane("time_s"), plane("gross_energy_j"));
    let (prefill, decode) = (&parts.prefill, &parts.decode);
    let found = [
        per("seconds per input token", Unit::SECONDS, prefill.time, time.map(|plane| plane.per_input_token)),
        per("seconds per output token", Unit::SECONDS, decode.time, time.map(|plane| plane.per_output_token)),
        per("joules per input token", Unit::JOULES, prefill.energy, energy.map(|plane| plane.per_input_token)),
        per("joules per output token", Unit::JOULES, decode.energy, energy.map(|plane| plane.per_output_token)),
    ];
    found.into_iter().flatten().collect()
}

fn comparison_table(comparisons: &[Comparison]) -> Option<Table> {
    let columns =
        [("", "what"), ("by the clock", "by_clock"), ("by regression", "by_regression"), ("what it says", "verdict")];
    let mut table = Table::new("phase_comparison", "The two beside each other", &columns);
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
