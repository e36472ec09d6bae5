//! `regression`: what tokens cost, as lines. Tokens against time, energy and power of every query go in; slope, intercept
//! and r² come out.
//!
//! `data.regressions` is what intelligence-per-watt writes, by its definitions: all records are samples, failed ones too;
//! power counts where it is not zero; a fit below two samples or with one x only is null. `data.fits` has the same pairs,
//! and those on the energy that counts for the run, with intervals and two fits that outliers move less.

use ergometer_charts::{Cell, Table, Tone};
use ergometer_statistics::{Huber, LeastSquares, NoFit, TheilSen};
use ergometer_units::format;
use serde::Serialize;
use serde_json::{Map, Value};

use super::cell::{self, Unit};
use super::{Analysis, Findings, Options, caution};
use crate::AnalysisError;
use ergometer_runs::saved::{Query, Run};

/// Below this a value is zero, as intelligence-per-watt has it.
const ZERO: f64 = 1e-12;

/// A line that explains less than this part of the variation explains nothing, however sure its slope is.
const LITTLE: f64 = 0.01;

/// See the module.
pub(super) struct Regression;

impl Analysis for Regression {
    fn id(&self) -> &'static str {
        "regression"
    }

    fn about(&self) -> &'static str {
        "what tokens cost, as lines: TTFT, latency, energy and power by tokens, with intervals"
    }

    fn run(&self, run: &Run, options: &Options) -> Result<Findings, AnalysisError> {
        caution::check_queries(run)?;
        let fits: Vec<Fit> = pairs(run).iter().map(Fit::of).collect();
        let is_kept = |fit: &&Fit| !options.skip_zeroes || fit.least_squares.is_some();
        let mut findings = Findings { warnings: warnings(run), ..Findings::default() };
        findings.summary.insert(String::from("total_samples"), run.queries.len().into());
        let regressions = fits.iter().filter(is_kept).filter(|fit| fit.is_theirs);
        let regressions: Map<String, Value> =
            regressions.map(|fit| (fit.name.to_owned(), super::to_value(&fit.theirs()))).collect();
        findings.data.insert(String::from("regressions"), Value::Object(regressions));
        let ours = fits.iter().filter(is_kept).map(|fit| (fit.name.to_owned(), super::to_value(fit)));
        findings.data.insert(String::from("fits"), Value::Object(ours.collect()));
        findings.tables.push(table(run, fits.iter().filter(is_kept)));
        Ok(findings)
    }
}

/// A figure of a query.
type OfQuery = fn(&Query) -> Option<f64>;

/// Samples of two things about queries.
struct Pair {
    name: &'static str,
    words: &'static str,
    unit: Unit,
    slope_unit: String,
    is_theirs: bool,
    energy_source: Option<&'static str>,
    samples: Vec<(f64, f64)>,
    mean_y: Option<f64>,
}

fn tokens(count: Option<u64>) -> Option<f64> {
    count.map(|count| count as f64)
}

fn pairs(run: &Run) -> Vec<Pair> {
    let sampled = |x: OfQuery, y: OfQuery| -> Vec<(f64, f64)> {
        run.queries.iter().filter_map(|query| x(query).zip(y(query))).collect()
    };
    let all: OfQuery = |query| tokens(query.all_tokens());
    let theirs = |name, words, unit: Unit, samples: Vec<(f64, f64)>| Pair {
        name,
        words,
        unit,
        slope_unit: format!("{}/token", unit.of),
        is_theirs: true,
        energy_source: None,
        mean_y: mean(&samples),
        samples,
    };
    let power = sampled(all, |query| query.gpu_watts.filter(|watts| watts.abs() >= ZERO));
    let on_logarithms: Vec<(f64, f64)> = power.iter().filter(|(x, _)| *x > 0.0).map(|&(x, y)| (x.ln(), y)).collect();
    let mut pairs = vec![
        theirs(
            "input_tokens_vs_ttft",
            "TTFT by input tokens",
            Unit::SECONDS,
            sampled(|query| tokens(query.input_tokens), |query| query.ttft_s),
        ),
        theirs(
            "total_tokens_vs_energy",
            "GPU energy by all tokens",
            Unit::JOULES,
            sampled(all, |query| query.gpu_joules),
        ),
        theirs("total_tokens_vs_latency", "latency by all tokens", Unit::SECONDS, sampled(all, |query| query.total_s)),
        theirs("total_tokens_vs_power", "GPU power by all tokens", Unit::WATTS, power.clone()),
        Pair {
            slope_unit: String::from("W per e-fold of tokens"),
            mean_y: mean(&power),
            ..theirs("total_tokens_vs_power_log", "GPU power by ln(all tokens)", Unit::WATTS, on_logarithms)
        },
    ];
    if let Some(source) = run.energy {
        let energies: [(_, _, OfQuery); 2] = [
            ("total_tokens_vs_gross_energy", "gross energy by all tokens", |query| Some(query.energy?.gross)),
            ("total_tokens_vs_net_energy", "net energy by all tokens", |query| query.energy?.net),
        ];
        pairs.extend(energies.map(|(name, words, energy)| Pair {
            is_theirs: false,
            energy_source: Some(source.name()),
            ..theirs(name, words, Unit::JOULES, sampled(all, energy))
        }));
    }
    pairs
}

fn mean(samples: &[(f64, f64)]) -> Option<f64> {
    (!samples.is_empty()).then(|| samples.iter().map(|sample| sample.1).sum::<f64>() / samples.len() as f64)
}

/// The lines of a pair.
#[derive(Debug, Serialize)]
struct Fit {
    #[serde(skip)]
    name: &'static str,
    #[serde(skip)]
    words: &'static str,
    #[serde(skip)]
    unit: Unit,
    #[serde(skip)]
    is_theirs: bool,
    #[serde(skip)]
    mean_y: Option<f64>,
    count: usize,
    slope_unit: String,
    /// `measured` or `modelled`, of the energy that counts for the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    energy_source: Option<&'static str>,
    least_squares: Option<LeastSquares>,
    theil_sen: Option<TheilSen>,
    huber: Option<Huber>,
    is_evidence: bool,
    verdict: String,
}

/// What intelligence-per-watt writes.
#[derive(Debug, Serialize)]
struct Theirs {
    count: usize,
    slope: Option<f64>,
    intercept: Option<f64>,
    r2: Option<f64>,
    avg_y: Option<f64>,
}

impl Fit {
    fn of(pair: &Pair) -> Self {
        let least_squares = LeastSquares::fit(&pair.samples);
        let theil_sen = TheilSen::fit(&pair.samples).ok();
        let (is_evidence, verdict) = verdict(least_squares.as_ref(), theil_sen.as_ref(), pair.unit);
        Self {
            name: pair.name,
            words: pair.words,
            unit: pair.unit,
            is_theirs: pair.is_theirs,
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

    fn theirs(&self) -> Theirs {
        let line = self.least_squares.as_ref();
        Theirs {
            count: self.count,
            slope: line.map(|line| line.slope.value),
            intercept: line.map(|line| line.intercept.value),
            r2: line.map(|line| line.r2),
            avg_y: self.mean_y,
        }
    }
}

/// Whether there is a slope, in words.
fn verdict(line: Result<&LeastSquares, &NoFit>, medians: Option<&TheilSen>, unit: Unit) -> (bool, String) {
    let line = match line {
        Ok(line) => line,
        Err(NoFit::TooFew { count: 0, .. }) => return (false, String::from("no line: no query has both")),
        Err(NoFit::TooFew { .. }) => return (false, String::from("no line: one query only has both")),
        Err(NoFit::Constant { .. }) => return (false, String::from("no line: all have the same number of tokens")),
        Err(other) => return (false, format!("no line: {other}")),
    };
    let Some(interval) = line.slope.interval else {
        return (false, String::from("no evidence of a slope: two queries always have a line"));
    };
    if interval.contains(0.0) {
        return (false, String::from("no evidence of a slope: its interval contains zero"));
    }
    if line.r2 < LITTLE {
        return (
            false,
            format!("no evidence of a slope that matters: it explains {} of the variation", format::percent(line.r2)),
        );
    }
    let is_pulled = |medians: &&TheilSen| {
        !interval.contains(medians.slope)
            && medians.interval.is_some_and(|of_median| !of_median.contains(line.slope.value))
    };
    match medians.filter(is_pulled) {
        Some(medians) => {
            (true, format!("a slope, but bent or with uneven noise: by medians {}", unit.show(medians.slope)))
        }
        None => (true, format!("it explains {} of the variation", format::percent(line.r2))),
    }
}

fn warnings(run: &Run) -> Vec<String> {
    let mut warnings: Vec<String> = zeros(run).collect();
    let failed = run.queries.len() - run.completed().count();
    if failed > 0 {
        warnings.push(format!("{failed} of {} samples are failed queries", run.queries.len()));
    }
    warnings.extend(caution::not_finite(run));
    warnings.extend(caution::modelled(run));
    warnings
}

/// In the words of intelligence-per-watt, as tools may look for them.
fn zeros(run: &Run) -> impl Iterator<Item = String> {
    let values: [(_, OfQuery); 7] = [
        ("per-query energy", |query| query.gpu_joules),
        ("per-query power", |query| query.gpu_watts),
        ("TTFT", |query| query.ttft_s),
        ("latency", |query| query.total_s),
        ("completion-token", |query| tokens(query.output_tokens)),
        ("prompt-token", |query| tokens(query.input_tokens)),
        ("total-token", |query| tokens(query.all_tokens())),
    ];
    let counts = values.map(|(name, value)| {
        (name, run.queries.iter().filter(|query| value(query).is_some_and(|value| value.abs() < ZERO)).count())
    });
    let found = counts.into_iter().filter(|(_, count)| *count > 0);
    found.map(|(name, count)| format!("encountered {count} {name} samples equal to 0.0 in dataset"))
}

fn table<'a>(run: &Run, fits: impl Iterator<Item = &'a Fit>) -> Table {
    let mut table = Table::new(
        "regression",
        "What tokens cost, as lines",
        &[
            ("line, and its unit", "line"),
            ("queries", "count"),
            ("slope", "slope"),
            ("at zero", "intercept"),
            ("r²", "r2"),
            ("by medians", "theil_sen_slope"),
            ("by Huber", "huber_slope"),
            ("what it says", "verdict"),
        ],
    );
    for fit in fits {
        let line = fit.least_squares.as_ref();
        let tone = if fit.is_evidence { Tone::Plain } else { Tone::Warning };
        table.rows.push(vec![
            Cell::text(format!("{}, {}", fit.words, fit.unit.of)),
            cell::count_cell(fit.count as u64),
            line.map_or(Cell::Absent, |line| cell::coefficient(&line.slope, fit.unit)),
            line.map_or(Cell::Absent, |line| cell::coefficient(&line.intercept, fit.unit)),
            Cell::number(line.map(|line| line.r2), |r2| format!("{r2:.3}")),
            cell::number(fit.theil_sen.map(|medians| medians.slope), fit.unit),
            cell::number(fit.huber.map(|huber| huber.slope), fit.unit),
            Cell::Verdict { text: fit.verdict.clone(), tone },
        ]);
    }
    table
        .notes
        .push(String::from("± is a 95 % interval by Student's t. Medians: Theil and Sen; outliers do not move it."));
    if let Some(source) = run.energy {
        table.notes.push(format!("gross and net energy are the run's {} joules", source.name()));
    }
    if run.block() > 1 {
        table.notes.push(String::from("requests ran together and are not independent: intervals are too narrow"));
    }
    table
}
