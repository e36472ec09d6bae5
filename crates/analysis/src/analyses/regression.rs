//! The `regression` analysis: linear fits of time, energy and power by tokens.
//!
//! `data.regressions` has the format of intelligence-per-watt and follows its definitions: all records are samples, including
//! failed ones; zero power is left out; a fit with fewer than two samples or a single x is null. `data.fits` has the same
//! pairs, and pairs with the energy of the run, with intervals and two robust fits.

use ergometer_charts::{Cell, Table, Tone};
use ergometer_diagnostics::Message;
use ergometer_statistics::{Huber, LeastSquares, NoFit, TheilSen, mean};
use ergometer_units::format;
use serde::Serialize;
use serde_json::{Map, Value};

use super::cell::{self, Unit};
use super::cost_model;
use super::{Analysis, Findings, Options, shared_warnings};
use crate::AnalysisError;
use ergometer_runs::saved::{Query, Run};

/// Smaller values count as zero, as in intelligence-per-watt.
const ZERO: f64 = 1e-12;

/// A fit with a smaller r² is negligible, even if its slope is significant.
const LITTLE: f64 = 0.01;

/// The `regression` analysis.
pub(super) struct Regression;

impl Analysis for Regression {
    fn id(&self) -> &'static str {
        "regression"
    }

    fn about(&self) -> &'static str {
        "linear fits of TTFT, latency, energy and power against token counts, with intervals"
    }

    fn run(&self, run: &Run, options: &Options) -> Result<Findings, AnalysisError> {
        shared_warnings::check_queries(run)?;
        let fits: Vec<Fit> = pairs(run).iter().map(Fit::from_pair).collect();
        let is_kept = |fit: &&Fit| !options.skip_zeroes || fit.least_squares.is_some();
        let zeros: Vec<ZeroWarning> = zeros(run).collect();
        let mut findings = Findings { warnings: warnings(run, &zeros), ..Findings::default() };
        findings.file_texts = zeros.into_iter().map(|zero| (zero.text, zero.in_file)).collect();
        findings.summary.insert(String::from("total_samples"), run.queries.len().into());
        let regressions = fits.iter().filter(is_kept).filter(|fit| fit.is_compatible);
        let regressions: Map<String, Value> =
            regressions.map(|fit| (fit.name.to_owned(), super::to_value(&fit.compatible()))).collect();
        findings.data.insert(String::from("regressions"), Value::Object(regressions));
        let ours = fits.iter().filter(is_kept).map(|fit| (fit.name.to_owned(), super::to_value(fit)));
        findings.data.insert(String::from("fits"), Value::Object(ours.collect()));
        findings.tables.push(table(run, fits.iter().filter(is_kept)));
        Ok(findings)
    }
}

/// A value of a query.
type QueryValue = fn(&Query) -> Option<f64>;

/// Samples of two values of queries.
struct Pair {
    name: &'static str,
    words: &'static str,
    unit: Unit,
    slope_unit: String,
    is_compatible: bool,
    energy_source: Option<&'static str>,
    samples: Vec<(f64, f64)>,
    mean_y: Option<f64>,
}

fn tokens(count: Option<u64>) -> Option<f64> {
    count.map(|count| count as f64)
}

fn pairs(run: &Run) -> Vec<Pair> {
    let sampled = |x: QueryValue, y: QueryValue| -> Vec<(f64, f64)> {
        run.queries.iter().filter_map(|query| x(query).zip(y(query))).collect()
    };
    let all: QueryValue = |query| tokens(query.all_tokens());
    let compatible_pair = |name, words, unit: Unit, samples: Vec<(f64, f64)>| Pair {
        name,
        words,
        unit,
        slope_unit: format!("{}/token", unit.of),
        is_compatible: true,
        energy_source: None,
        mean_y: mean(samples.iter().map(|sample| sample.1)),
        samples,
    };
    let power = sampled(all, |query| query.gpu_watts.filter(|watts| watts.abs() >= ZERO));
    let on_logarithms: Vec<(f64, f64)> = power.iter().filter(|(x, _)| *x > 0.0).map(|&(x, y)| (x.ln(), y)).collect();
    let mut pairs = vec![
        compatible_pair(
            "input_tokens_vs_ttft",
            "TTFT by input tokens",
            Unit::SECONDS,
            sampled(|query| tokens(query.input_tokens), |query| query.ttft_s),
        ),
        compatible_pair(
            "total_tokens_vs_energy",
            "GPU energy by total tokens",
            Unit::JOULES,
            sampled(all, |query| query.gpu_joules),
        ),
        compatible_pair(
            "total_tokens_vs_latency",
            "E2E latency by total tokens",
            Unit::SECONDS,
            sampled(all, |query| query.total_s),
        ),
        compatible_pair("total_tokens_vs_power", "GPU power by total tokens", Unit::WATTS, power.clone()),
        Pair {
            slope_unit: String::from("W per e-fold of tokens"),
            mean_y: mean(power.iter().map(|sample| sample.1)),
            ..compatible_pair("total_tokens_vs_power_log", "GPU power by ln(total tokens)", Unit::WATTS, on_logarithms)
        },
    ];
    if let Some(source) = run.energy {
        let energies: [(_, _, QueryValue); 2] = [
            ("total_tokens_vs_gross_energy", "gross energy by total tokens", |query| Some(query.energy?.gross)),
            ("total_tokens_vs_net_energy", "net energy by total tokens", |query| query.energy?.net),
        ];
        pairs.extend(energies.map(|(name, words, energy)| Pair {
            is_compatible: false,
            energy_source: Some(source.name()),
            ..compatible_pair(name, words, Unit::JOULES, sampled(all, energy))
        }));
    }
    pairs
}

/// The fits of a pair.
#[derive(Debug, Serialize)]
struct Fit {
    #[serde(skip)]
    name: &'static str,
    #[serde(skip)]
    words: &'static str,
    #[serde(skip)]
    unit: Unit,
    #[serde(skip)]
    is_compatible: bool,
    #[serde(skip)]
    mean_y: Option<f64>,
    count: usize,
    slope_unit: String,
    /// Whether the energy of the run is `measured` or `modelled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    energy_source: Option<&'static str>,
    least_squares: Option<LeastSquares>,
    theil_sen: Option<TheilSen>,
    huber: Option<Huber>,
    is_evidence: bool,
    verdict: String,
}

/// A fit in the format of intelligence-per-watt.
#[derive(Debug, Serialize)]
struct CompatibleFit {
    count: usize,
    slope: Option<f64>,
    intercept: Option<f64>,
    r2: Option<f64>,
    avg_y: Option<f64>,
}

impl Fit {
    fn from_pair(pair: &Pair) -> Self {
        let least_squares = LeastSquares::fit(&pair.samples);
        let theil_sen = TheilSen::fit(&pair.samples).ok();
        let (is_evidence, verdict) = verdict(least_squares.as_ref(), theil_sen.as_ref(), pair.unit);
        Self {
            name: pair.name,
            words: pair.words,
            unit: pair.unit,
            is_compatible: pair.is_compatible,
            mean_y: pair.mean_y,
            count: pair.samples.len(),
            slope_unit: pair.slope_unit.clone(),
            energy_source: pair.energy_source,
            least_squares: least_squares.ok(),
            theil_sen,
            huber: Huber::fit(&pair.samples).ok(),
            is_evidence,
            verdict,
        }
    }

    fn compatible(&self) -> CompatibleFit {
        let line = self.least_squares.as_ref();
        CompatibleFit {
            count: self.count,
            slope: line.map(|line| line.slope.value),
            intercept: line.map(|line| line.intercept.value),
            r2: line.map(|line| line.r2),
            avg_y: self.mean_y,
        }
    }
}

/// Whether there is evidence of a slope, and a description.
fn verdict(line: Result<&LeastSquares, &NoFit>, medians: Option<&TheilSen>, unit: Unit) -> (bool, String) {
    let line = match line {
        Ok(line) => line,
        Err(NoFit::TooFew { count: 0, .. }) => return (false, String::from("no fit: no query has both values")),
        Err(NoFit::TooFew { .. }) => return (false, String::from("no fit: only one query has both values")),
        Err(NoFit::Constant { .. }) => {
            return (false, String::from("no fit: all queries have the same number of tokens"));
        }
        Err(other) => return (false, format!("no fit: {other}")),
    };
    let Some(interval) = line.slope.interval else {
        return (false, String::from("no evidence of a slope: only two queries"));
    };
    if interval.contains(0.0) {
        return (false, String::from("no evidence of a slope: its interval contains zero"));
    }
    if line.r2 < LITTLE {
        return (false, format!("negligible slope: explains {} of the variation", format::percent(line.r2)));
    }
    let is_pulled = |medians: &&TheilSen| {
        !interval.contains(medians.slope)
            && medians.interval.is_some_and(|of_median| !of_median.contains(line.slope.value))
    };
    match medians.filter(is_pulled) {
        Some(medians) => {
            let robust = unit.show(medians.slope);
            (
                true,
                format!(
                    "there is a slope, but the relation is not linear or has outliers; the Theil-Sen slope is {robust}"
                ),
            )
        }
        None => (true, format!("explains {} of the variation", format::percent(line.r2))),
    }
}

fn warnings(run: &Run, zeros: &[ZeroWarning]) -> Vec<Message> {
    let mut warnings: Vec<Message> = zeros.iter().map(|zero| Message::new(zero.text.clone())).collect();
    let failed = run.queries.len() - run.completed().count();
    if failed > 0 {
        warnings.push(Message::new(format!(
            "{failed} of {} queries failed; a failed query is included in a fit if both of its values are known",
            run.queries.len()
        )));
    }
    warnings.extend(shared_warnings::not_finite(run));
    warnings.extend(shared_warnings::modelled(run));
    warnings
}

/// A warning about zeros.
struct ZeroWarning {
    /// The text for people.
    text: String,
    /// The text in the file, in the wording of intelligence-per-watt, which tools may search for.
    in_file: String,
}

fn zeros(run: &Run) -> impl Iterator<Item = ZeroWarning> {
    // What the queries have, and the name of the value in intelligence-per-watt.
    let values: [(_, _, QueryValue); 7] = [
        ("a GPU energy of 0", "per-query energy", |query| query.gpu_joules),
        ("a GPU power of 0", "per-query power", |query| query.gpu_watts),
        ("a TTFT of 0", "TTFT", |query| query.ttft_s),
        ("an E2E latency of 0", "latency", |query| query.total_s),
        ("0 output tokens", "completion-token", |query| tokens(query.output_tokens)),
        ("0 input tokens", "prompt-token", |query| tokens(query.input_tokens)),
        ("0 tokens in total", "total-token", |query| tokens(query.all_tokens())),
    ];
    let counts = values.map(|(words, name, value)| {
        let is_zero = |query: &&Query| value(query).is_some_and(|value| value.abs() < ZERO);
        (words, name, run.queries.iter().filter(is_zero).count())
    });
    counts.into_iter().filter(|(_, _, count)| *count > 0).map(|(words, name, count)| ZeroWarning {
        text: format!(
            "{} {words}; fits {}",
            if count == 1 { String::from("1 query has") } else { format!("{count} queries have") },
            // Also in intelligence-per-watt.
            if name == "per-query power" { "of power leave zeros out" } else { "include zeros" }
        ),
        in_file: format!("encountered {count} {name} samples equal to 0.0 in dataset"),
    })
}

fn table<'a>(run: &Run, fits: impl Iterator<Item = &'a Fit>) -> Table {
    let mut table = Table::new(
        "regression",
        "Linear fits against token counts",
        &[
            ("fit", "line"),
            ("queries", "count"),
            ("slope", "slope"),
            ("intercept", "intercept"),
            ("r²", "r2"),
            ("Theil-Sen slope", "theil_sen_slope"),
            ("Huber slope", "huber_slope"),
            ("verdict", "verdict"),
        ],
    );
    for fit in fits {
        let line = fit.least_squares.as_ref();
        let tone = if fit.is_evidence { Tone::Plain } else { Tone::Warning };
        table.rows.push(vec![
            Cell::text(fit.words),
            cell::count_cell(fit.count as u64),
            line.map_or(Cell::Absent, |line| cell::coefficient(&line.slope, fit.unit)),
            line.map_or(Cell::Absent, |line| cell::coefficient(&line.intercept, fit.unit)),
            Cell::number(line.map(|line| line.r2), |r2| format!("{r2:.3}")),
            cell::number(fit.theil_sen.map(|medians| medians.slope), fit.unit),
            cell::number(fit.huber.map(|huber| huber.slope), fit.unit),
            Cell::Verdict { text: fit.verdict.clone(), tone },
        ]);
    }
    table.notes.push(String::from(
        "Total tokens: input and output. 95 % intervals (Student's t): value ± half-width, or only the ends (low to high) if \
         the half-width exceeds the value. The Theil-Sen slope is robust to outliers.",
    ));
    if let Some(source) = run.energy {
        let source = source.name();
        table.notes.push(if cost_model::is_used(run) {
            format!(
                "the total energy is {source}; the cost model shares it among the queries, so fits of energy partly \
                 repeat the cost model"
            )
        } else {
            format!("gross and net energy are {source}")
        });
    }
    if run.block() > 1 {
        table.notes.push(String::from("requests overlap and are not independent, so the intervals are too narrow"));
    }
    table
}
