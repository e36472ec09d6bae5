//! `ergo compare`: prints what changed between runs, and checks limits for the exit code.

mod sides;
mod table;

use std::process::ExitCode;

use ergometer_analysis::compare::{Comparison, Front, Group, Judgement, Options, Warning, compare_groups, front_of};
use ergometer_analysis::curve::Curve;
use ergometer_diagnostics::{Message, flag, hint};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::arguments::{CompareArguments, Format, Limits};
use crate::csv;
use crate::exit::{Exit, Failure};
use crate::screen::{Screen, print, visible};
use sides::Sides;

/// From this many runs on, the Pareto front is printed by default.
const FRONT_FROM: usize = 3;

/// Everything to print.
struct Results {
    comparison: Comparison,
    front: Option<Front>,
    curve: Option<Curve>,
    judged: Vec<LimitOutcome>,
}

/// The outcome of a limit for one candidate.
#[derive(Debug, Serialize)]
struct LimitOutcome {
    limit: String,
    candidate: String,
    outcome: Outcome,
    message: Option<String>,
}

/// The outcome of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Kept,
    Broken,
    Unsure,
    Absent,
}

pub(crate) fn run(arguments: &CompareArguments, screen: Screen) -> Result<ExitCode, Failure> {
    let sides = Sides::open(&arguments.runs)?;
    let groups = sides.groups();
    let options = Options { seed: arguments.seed, least_effect: arguments.min_effect, ..Options::default() };
    let comparison = compare_groups(&groups, &options).map_err(Failure::failed)?;
    let with_front = arguments.pareto || groups.len() >= FRONT_FROM;
    let results = Results {
        front: with_front.then(|| front_of(&groups, &options, &comparison.candidates)),
        judged: judge(&comparison, &arguments.fail_if),
        comparison,
        curve: sides.curve,
    };
    match arguments.format {
        Format::Table => print(&table::render(&results, screen))?,
        Format::Json => print(&json(&results)?)?,
        Format::Csv => print(&rows(&results.comparison))?,
    }
    warn(&results, screen);
    Ok(verdict(&results.judged, arguments.strict, screen))
}

fn judge(comparison: &Comparison, limits: &[Limits]) -> Vec<LimitOutcome> {
    let limits = limits.iter().flat_map(|limits| &limits.0);
    let pairs = limits.flat_map(|limit| comparison.candidates.iter().map(move |candidate| (limit, candidate)));
    let judged = pairs.map(|(limit, candidate)| {
        let (outcome, message) = match limit.judge(candidate.row(limit.metric.name)) {
            Judgement::Kept => (Outcome::Kept, None),
            Judgement::Broken(message) => (Outcome::Broken, Some(message)),
            Judgement::Unsure(message) => (Outcome::Unsure, Some(message)),
            Judgement::Absent(message) => (Outcome::Absent, Some(message)),
        };
        LimitOutcome { limit: limit.text.clone(), candidate: candidate.side.label.clone(), outcome, message }
    });
    judged.collect()
}

/// Prints warnings about the comparison, each once.
fn warn(results: &Results, screen: Screen) {
    let several = results.comparison.candidates.len() > 1;
    let mut printed: Vec<String> = Vec::new();
    for candidate in &results.comparison.candidates {
        for warning in candidate.comparability.all_warnings() {
            let line = match warning {
                Warning::Differs(text) if several => format!("run `{}`: {text}", candidate.side.label),
                // A condition names its side; a condition of the baseline appears for every candidate.
                Warning::Differs(text) | Warning::Condition(text) => text,
            };
            if !printed.contains(&line) {
                screen.warning(&line);
                printed.push(line);
            }
        }
    }
    for warning in results.curve.iter().flat_map(|curve| &curve.warnings) {
        screen.warning(warning);
    }
}

fn verdict(judged: &[LimitOutcome], strict: bool, screen: Screen) -> ExitCode {
    let mut fails = false;
    for LimitOutcome { candidate, outcome, message, .. } in judged {
        let Some(message) = message else { continue };
        let line = format!("run `{candidate}`: {message}");
        if *outcome == Outcome::Unsure && !strict {
            screen.warning(&Message::new(line).with_hint(hint!(
                "run more queries or repeats for a clear result; ",
                flag("strict"),
                " makes this a failure"
            )));
        } else {
            fails = true;
            screen.error(&line);
        }
    }
    if fails { Exit::Failed.into() } else { Exit::Done.into() }
}

fn json(results: &Results) -> Result<String, Failure> {
    let mut whole = match serde_json::to_value(&results.comparison)? {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    if let Some(front) = &results.front {
        whole.insert(String::from("front"), serde_json::to_value(front)?);
    }
    if let Some(curve) = &results.curve {
        let findings = curve.findings();
        let mut curve = findings.summary;
        curve.extend(findings.data);
        whole.insert(String::from("curve"), Value::Object(curve));
    }
    whole.insert(String::from("limits"), serde_json::to_value(&results.judged)?);
    let text = serde_json::to_string_pretty(&Value::Object(whole))?;
    Ok(format!("{text}\n"))
}

/// One CSV line per metric and candidate.
fn rows(comparison: &Comparison) -> String {
    let heads = [
        "baseline",
        "candidate",
        "metric",
        "unit",
        "baseline_value",
        "candidate_value",
        "change_kind",
        "change",
        "change_low",
        "change_high",
        "verdict",
        "reason",
    ];
    let mut text = csv::line(heads);
    for candidate in &comparison.candidates {
        for row in &candidate.rows {
            let ends = row.change.and_then(|change| change.interval);
            let kind = row.change.map_or("", |change| if change.none() == 0.0 { "difference" } else { "ratio" });
            text += &csv::line([
                visible(&comparison.baseline.label).into_owned(),
                visible(&candidate.side.label).into_owned(),
                row.metric.name.to_owned(),
                row.unit.name().to_owned(),
                csv::number(row.baseline),
                csv::number(row.candidate),
                kind.to_owned(),
                csv::number(row.change.map(|change| change.value)),
                csv::number(ends.map(|ends| ends.low)),
                csv::number(ends.map(|ends| ends.high)),
                row.verdict.name().to_owned(),
                row.reason.clone().unwrap_or_default(),
            ]);
        }
    }
    text
}

impl Sides {
    fn groups(&self) -> Vec<Group<'_>> {
        self.groups.iter().map(|(label, range)| Group { label, runs: &self.runs[range.clone()] }).collect()
    }
}
