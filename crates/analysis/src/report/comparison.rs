//! The overview of several runs: the load curve of a sweep, or a comparison with the first run.

use ergometer_charts::{Block, Tone};

use crate::AnalysisError;
use crate::analyses;
use crate::compare::{self, Candidate, Comparability, Verdict, compare, front};
use crate::curve::Curve;
use crate::plots::PlotInput;

pub(super) fn blocks(input: &PlotInput, options: &analyses::Options) -> Result<Vec<Block>, AnalysisError> {
    let mut blocks = Vec::new();
    for sweep in &input.sweeps {
        let curve = Curve::from_sweep(&sweep.sweep);
        blocks.push(verdict_of(&curve));
        blocks.extend(curve.findings().tables.into_iter().map(Block::Table));
    }
    let of_sweeps: usize = input.sweeps.iter().map(|sweep| sweep.labels().len()).sum();
    if of_sweeps > 0 {
        if input.runs.len() > of_sweeps {
            blocks.push(Block::Text(String::from(
                "Runs that are not part of the sweep are drawn with its points but not compared.",
            )));
        }
        return Ok(blocks);
    }
    let comparison = compare(&input.runs, &compare::Options { seed: options.seed, ..compare::Options::default() })?;
    for candidate in &comparison.candidates {
        let tone = if candidate.comparability.is_comparable { Tone::Plain } else { Tone::Warning };
        blocks.push(Block::Verdict { text: sentence(&comparison.baseline.label, candidate), tone });
    }
    blocks.extend(comparison.tables().into_iter().map(Block::Table));
    if input.runs.len() > 2 {
        blocks.extend(front(&input.runs).table().map(Block::Table));
    }
    Ok(blocks)
}

/// A sentence about the knee and the best loads.
fn verdict_of(curve: &Curve) -> Block {
    let at = |place: usize| format!("{} {}", curve.axis, curve.points[place].load);
    let knee = match &curve.knee {
        Ok(place) => format!("The knee is at {}.", at(*place)),
        Err(why) => format!("No knee: {why}."),
    };
    let least = curve.least_joules.map(|place| format!(" Energy per output token is lowest at {}.", at(place)));
    let within = curve.most_tokens_within_limits.map(|place| {
        format!(" Of the loads with 99 % of requests within the limits, throughput is highest at {}.", at(place))
    });
    let text = [Some(knee), least, within].into_iter().flatten().collect();
    Block::Verdict { text, tone: Tone::Plain }
}

/// A sentence about the metrics in which a run is better or worse.
fn sentence(baseline: &str, candidate: &Candidate) -> String {
    let of = |verdict: Verdict| {
        let rows = candidate.rows.iter().filter(|row| row.verdict == verdict);
        rows.map(|row| row.metric.label).collect::<Vec<&str>>().join(", ")
    };
    let (better, worse) = (of(Verdict::Better), of(Verdict::Worse));
    let found = match (better.is_empty(), worse.is_empty()) {
        (true, true) => String::from("no significant difference"),
        (false, true) => format!("better in {better}"),
        (true, false) => format!("worse in {worse}"),
        (false, false) => format!("better in {better}; worse in {worse}"),
    };
    let Comparability { verdict, is_comparable, .. } = &candidate.comparability;
    let verdict = capitalized(verdict);
    if *is_comparable {
        format!("{} compared with {baseline}: {found}. {verdict}.", candidate.side.label)
    } else {
        format!("{verdict}. {} compared with {baseline}: {found}.", candidate.side.label)
    }
}

/// The text with a capital first letter.
fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(char::to_uppercase).into_iter().flatten().chain(letters).collect()
}
