//! The `efficiency` analysis: energy per correct answer, query and token, and the energy balance of the run.
//!
//! Values of the whole run come from `summary.json`. Intervals that the summary lacks, and values by subject, are computed
//! here. Measured and modelled energy are never mixed.

mod balance;
mod subjects;

use ergometer_charts::{Cell, Table};
use ergometer_diagnostics::{Message, command, hint};
use ergometer_statistics::{Interval, Resampling, ratio_interval};
use ergometer_units::format;
use serde_json::{Map, Value, json};

use super::cell::estimate_cell;
use super::entries;
use super::order::in_sending_order;
use super::{Analysis, Findings, Options};
use crate::AnalysisError;
use balance::{Balance, balance};
use ergometer_runs::EnergySource;
use ergometer_runs::metrics::{Metric, named};
use ergometer_runs::saved::{Query, Run};
use ergometer_runs::summary::EnergyTotals;
use ergometer_statistics::Estimate;
use subjects::{Subject, by_subject, subject_table};

/// Joules in a kilowatt-hour.
const JOULES_PER_KWH: f64 = 3.6e6;

/// The `efficiency` analysis.
pub(super) struct Efficiency;

impl Analysis for Efficiency {
    fn id(&self) -> &'static str {
        "efficiency"
    }

    fn about(&self) -> &'static str {
        "correct answers per joule, accuracy per watt, joules per query, token and subject, and the energy used \
         with requests in flight, with none in flight, and while sensors had no readings"
    }

    fn run(&self, run: &Run, options: &Options) -> Result<Findings, AnalysisError> {
        let mut findings = Findings::default();
        let Some(source) = run.energy else {
            findings.warnings.push(Message::new("the run has no energy values").with_hint(hint!(
                "run ",
                command("doctor"),
                " to see which sensors are available; measure a remote server on its own machine"
            )));
            findings.summary = entries::map(json!({"energy": null}));
            let cost = cost(run);
            findings.data = entries::map(json!({"energy": null, "cost": cost}));
            return Ok(findings);
        };
        warn(run, source, &mut findings.warnings);
        let figures = figures(run, options.seed);
        let subjects = by_subject(run, options.seed);
        let balance = balance(run, &mut findings.warnings);
        let take = |name: &str| figures.iter().find(|figure| figure.name == name).map(Figure::json);
        let wanted = [
            "per_joule",
            "per_joule_with_meter",
            "per_watt",
            "j_per_query",
            "j_per_output_token",
            "kwh_per_1000_queries",
        ];
        findings.summary.insert(String::from("energy"), json!(source.name()));
        findings.summary.extend(wanted.into_iter().filter_map(|name| Some((name.to_owned(), take(name)?))));
        let all: Map<String, Value> = figures.iter().map(|figure| (figure.name.to_owned(), figure.json())).collect();
        findings.data = entries::map(json!({
            "energy": source.name(),
            "figures": all,
            "balance": balance.as_ref().map(Balance::json),
            "by_subject": subjects.iter().map(Subject::json).collect::<Vec<_>>(),
            "cost": cost(run),
        }));
        findings.tables.push(figure_table(run, &figures, source));
        findings.tables.extend(balance.as_ref().map(Balance::table));
        if subjects.len() > 1 {
            findings.tables.push(subject_table(&subjects, source));
        }
        Ok(findings)
    }
}

fn warn(run: &Run, source: EnergySource, warnings: &mut Vec<Message>) {
    if source == EnergySource::Modelled {
        warnings.push(Message::new("energy is modelled from CPU utilization, not measured"));
    }
    let without = run.queries.iter().filter(|query| query.energy.is_none()).count();
    if without > 0 {
        warnings.push(Message::new(format!(
            "{without} of {} queries have no energy values and are left out",
            run.queries.len()
        )));
    }
    if run.summary.intelligence.is_none() {
        warnings.push(Message::new("no answers are graded, so correct answers per joule are unknown"));
    }
}

const PER_JOULE: &Metric = named("intelligence_per_joule");
const PER_WATT: &Metric = named("intelligence_per_watt");
const MEAN_POWER: &Metric = named("mean_power_w");

/// A value of the whole run.
struct Figure {
    name: &'static str,
    /// The label in tables.
    head: &'static str,
    unit: &'static str,
    found: Option<Estimate>,
}

impl Figure {
    fn json(&self) -> Value {
        entries::estimate(self.found)
    }
}

fn figures(run: &Run, seed: u64) -> Vec<Figure> {
    let intelligence = run.summary.intelligence.as_ref();
    let totals = run.energy_totals();
    let exact = |field: fn(&EnergyTotals) -> Option<f64>| totals.and_then(field).map(Estimate::exact);
    let per_joule = intelligence.map(|found| found.per_joule);
    let inverse = |found: Estimate| (found.value > 0.0).then(|| scaled(found, |value| 1.0 / value));
    // The summary has no interval for energy per token, so the queries are resampled.
    let by_token = |value: Option<f64>, pair: fn(&Query) -> Option<(f64, f64)>| {
        let value = value?;
        let pairs: Vec<(f64, f64)> = in_sending_order(run.queries.iter()).into_iter().filter_map(pair).collect();
        let resampling = Resampling { block: run.block(), seed, ..Resampling::default() };
        let (top, bottom) = pairs.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
        // The summary's value may include energy of queries without a token count, so the interval is scaled to it.
        let scale = Some(value * bottom / top).filter(|scale| scale.is_finite() && *scale > 0.0);
        let interval = ratio_interval(&pairs, resampling).zip(scale);
        let interval = interval.map(|(found, scale)| Interval { low: found.low * scale, high: found.high * scale });
        Some(entries::with(value, interval))
    };
    let gross = |query: &Query| Some((query.energy?.gross, query.output_tokens? as f64));
    let net = |query: &Query| Some((query.energy?.net?, query.output_tokens? as f64));
    let per_query = totals.map(|totals| totals.gross_j_per_query);
    let figure = |name, head, unit, found| Figure { name, head, unit, found };
    let metric = |name, metric: &Metric, found| figure(name, metric.label, metric.unit.name(), found);
    vec![
        metric("per_joule", PER_JOULE, per_joule),
        figure(
            "per_joule_with_meter",
            "… including error of the energy values",
            "/J",
            intelligence.and_then(|found| found.per_joule_with_meter),
        ),
        metric("per_watt", PER_WATT, intelligence.and_then(|found| found.per_watt)),
        figure(
            "per_watt_with_meter",
            "… including error of the energy values",
            "/W",
            intelligence.and_then(|found| found.per_watt_with_meter),
        ),
        figure("j_per_right_answer", "energy per correct answer", "J", per_joule.and_then(inverse)),
        figure("j_per_query", "energy per query, gross", "J", per_query),
        figure("net_j_per_query", "energy per query, net", "J", totals.and_then(|totals| totals.net_j_per_query)),
        figure(
            "j_per_output_token",
            "energy per output token, gross",
            "J",
            by_token(totals.and_then(|totals| totals.gross_j_per_output_token), gross),
        ),
        figure(
            "net_j_per_output_token",
            "energy per output token, net",
            "J",
            by_token(totals.and_then(|totals| totals.net_j_per_output_token), net),
        ),
        figure(
            "j_per_token",
            "energy per token (input and output), gross",
            "J",
            exact(|totals| totals.gross_j_per_token),
        ),
        figure(
            "net_j_per_token",
            "energy per token (input and output), net",
            "J",
            exact(|totals| totals.net_j_per_token),
        ),
        metric(MEAN_POWER.key, MEAN_POWER, exact(|totals| Some(totals.mean_power_w))),
        figure(
            "kwh_per_1000_queries",
            "energy per 1,000 queries",
            "kWh",
            per_query.map(|found| scaled(found, |joules| joules * 1e3 / JOULES_PER_KWH)),
        ),
    ]
}

/// Applies a monotonic function to an estimate and its interval.
fn scaled(found: Estimate, function: impl Fn(f64) -> f64) -> Estimate {
    let ends = found.ends().map(|(low, high)| (function(low), function(high)));
    let interval = ends.map(|(one, other)| (one.min(other), one.max(other)));
    let is_finite = |(low, high): &(f64, f64)| low.is_finite() && high.is_finite();
    Estimate::with_ends(function(found.value), interval.filter(is_finite))
}

/// The cost in money; null without prices.
fn cost(run: &Run) -> Value {
    let each: Vec<f64> = run.queries.iter().filter_map(|query| query.cost_usd).collect();
    let total = run.summary.cost_usd.or((!each.is_empty()).then(|| each.iter().sum()));
    let right = run.queries.iter().filter(|query| query.correct == Some(true)).count() as f64;
    total.map_or(Value::Null, |total| {
        json!({"total_usd": total,
            "usd_per_query": entries::number((!each.is_empty()).then(|| total / each.len() as f64)),
            "usd_per_right_answer": entries::number((right > 0.0).then(|| total / right))})
    })
}

fn figure_table(run: &Run, figures: &[Figure], source: EnergySource) -> Table {
    let title = format!("Energy efficiency ({} energy)", source.name());
    let mut table = Table::new("efficiency", &title, &[("figure", "figure"), ("value", "value"), ("unit", "unit")]);
    for figure in figures.iter().filter(|figure| figure.found.is_some()) {
        let value = estimate_cell(figure.found, format::significant);
        table.rows.push(vec![Cell::text(figure.head), value, Cell::text(figure.unit)]);
    }
    table.notes.push(String::from(
        "In parentheses: 95 % intervals. Those of values per joule, per watt and per output token are a bootstrap over \
         queries; those of values per query come from the error of the energy values.",
    ));
    let failed = run.queries.iter().filter(|query| !query.is_completed() && query.energy.is_some()).count();
    if failed > 0 {
        let queries = if failed == 1 { "query" } else { "queries" };
        table.notes.push(format!("Energy per query counts {failed} failed {queries} and their energy."));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;
    use ergometer_runs::saved::Energy;

    /// 60 `cheap` queries at 2 J, all correct, 60 `dear` queries at 4 J, half correct, and 40 J of idle energy.
    fn metered() -> Run {
        let query = |number: u64| {
            let is_dear = number % 2 == 1;
            let gross = if is_dear { 4.0 } else { 2.0 };
            Query {
                subject: u32::from(is_dear),
                correct: Some(!is_dear || number % 4 == 1),
                energy: Some(Energy { gross, low: gross, high: gross, net: Some(gross / 2.0) }),
                cost_usd: Some(0.001),
                ..example::query(number)
            }
        };
        let measured = json!({
            "gross_j_per_query": {"value": 3.0, "low": 2.7, "high": 3.3}, "mean_power_w": 30.0,
            "gross_j_per_output_token": 3.0 / 11.0, "net_j_per_output_token": 1.5 / 11.0,
            "balance": {"requests_j": 360.0, "idle_j": 40.0, "unattributed_j": 0.0, "meter_j": 400.0,
                "unrecorded_j": 0.0, "retried_j": 3.6}});
        let intelligence = json!({"per_joule": {"value": 0.225, "low": 0.2, "high": 0.25}, "energy": "measured"});
        let summary = json!({"energy": {"measured": measured}, "intelligence": intelligence, "cost_usd": 0.12});
        let run = example::with_summary((0..120).map(query).collect(), &["cheap", "dear"], summary);
        Run { energy: Some(EnergySource::Measured), ..run }
    }

    #[test]
    fn values_come_from_the_summary_or_are_their_inverses() {
        let found = Efficiency.run(&metered(), &Options::default()).unwrap();
        let figures = &found.data["figures"];
        assert_eq!(figures["per_joule"], json!({"value": 0.225, "low": 0.2, "high": 0.25}));
        assert_eq!(figures["j_per_right_answer"], json!({"value": 1.0 / 0.225, "low": 4.0, "high": 5.0}));
        assert_eq!(figures["per_watt"], Value::Null, "the summary has none");
        let practical = figures["kwh_per_1000_queries"]["value"].as_f64().unwrap();
        assert!((practical - 3000.0 / 3.6e6).abs() < 1e-15);
        let per_token = &figures["j_per_output_token"];
        let (low, high) = (per_token["low"].as_f64().unwrap(), per_token["high"].as_f64().unwrap());
        assert!(low < 3.0 / 11.0 && 3.0 / 11.0 < high && high - low < 0.04, "{low} {high}");
        assert_eq!(found.data["cost"]["usd_per_right_answer"], 0.12 / 90.0);
        assert!(found.warnings.is_empty(), "{:?}", found.warnings);
    }

    #[test]
    fn a_balance_that_does_not_add_up_gives_a_warning() {
        let found = Efficiency.run(&metered(), &Options::default()).unwrap();
        let balance = &found.data["balance"];
        assert_eq!((&balance["requests_pct"], &balance["idle_pct"]), (&json!(90.0), &json!(10.0)));
        assert_eq!(found.tables[1].rows.len(), 5, "three parts, the total, and retried attempts");
        let mut open = metered();
        open.summary.energy.measured.as_mut().unwrap().balance.idle_j = 41.0;
        let found = Efficiency.run(&open, &Options::default()).unwrap();
        assert!(found.warnings[0].text.contains("does not add up"), "{:?}", found.warnings);
    }

    #[test]
    fn joules_are_summed_by_subject() {
        let found = Efficiency.run(&metered(), &Options { seed: 7, ..Options::default() }).unwrap();
        let [dear, cheap] = [0, 1].map(|place| &found.data["by_subject"][place]);
        assert_eq!((&dear["subject"], &dear["right"], &dear["graded"]), (&json!("dear"), &json!(30), &json!(60)));
        assert_eq!((&dear["per_joule"]["value"], &cheap["per_joule"]["value"]), (&json!(0.125), &json!(0.5)));
        assert_eq!(cheap["per_joule"]["low"], Value::Null, "equal values have no interval");
        let (low, high) = (dear["per_joule"]["low"].as_f64().unwrap(), dear["per_joule"]["high"].as_f64().unwrap());
        // 60 answers of equal energy: the width of a binomial interval, 0.25 x 1.96 x sqrt(0.25 / 60) to each side.
        assert!((high - low - 2.0 * 0.25 * 0.1265).abs() < 0.012, "{low} {high}");
        assert_eq!(dear["cost_usd"].as_f64().map(|cost| (cost * 1e6).round()), Some(60_000.0));
    }

    #[test]
    fn without_energy_there_is_a_warning() {
        let found = Efficiency.run(&example::run(vec![example::query(0)], &[""]), &Options::default()).unwrap();
        assert_eq!((found.warnings.len(), found.tables.len()), (1, 0));
        let bare = Run { energy: Some(EnergySource::Modelled), ..example::run(Vec::new(), &[]) };
        let found = Efficiency.run(&bare, &Options::default()).unwrap();
        assert_eq!(found.warnings.len(), 2, "modelled, and nothing graded: {:?}", found.warnings);
    }

    #[test]
    fn a_saved_run_has_the_values_of_its_summary() {
        let run = example::saved("mock_limits");
        let found = Efficiency.run(&run, &Options::default()).unwrap();
        let of_summary = json!(run.summary.energy.modelled.as_ref().unwrap().gross_j_per_query);
        assert_eq!(found.data["figures"]["j_per_query"], of_summary);
        assert!(found.warnings[0].text.contains("modelled"));
        assert_eq!(found.data["by_subject"].as_array().unwrap().len(), run.subjects.len());
        let shares =
            ["requests_pct", "idle_pct", "unattributed_pct"].map(|name| found.data["balance"][name].as_f64().unwrap());
        assert!((shares.iter().sum::<f64>() - 100.0).abs() < 1e-6);
    }
}
