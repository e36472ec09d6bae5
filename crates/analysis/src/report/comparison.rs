//! What several runs come to beside each other: a sweep is a curve, other runs are compared with the first.

use ergometer_charts::{Block, Tone};

use crate::AnalysisError;
use crate::analyses;
use crate::compare::{self, Candidate, Comparability, Verdict, compare, front};
use crate::curve::Curve;
use crate::plots::Shown;

pub(super) fn blocks(shown: &Shown, options: &analyses::Options) -> Result<Vec<Block>, AnalysisError> {
    let mut blocks = Vec::new();
    for sweep in &shown.sweeps {
        let curve = Curve::from_sweep(&sweep.sweep);
        blocks.push(verdict_of(&curve));
        blocks.extend(curve.findings().tables.into_iter().map(Block::Table));
    }
    let of_sweeps: usize = shown.sweeps.iter().map(|sweep| sweep.labels().len()).sum();
    if of_sweeps > 0 {
        if shown.runs.len() > of_sweeps {
            blocks.push(Block::Text(String::from(
                "Runs beside a sweep are drawn with its points, and not compared one by one: `ergo compare` does.",
            )));
        }
        return Ok(blocks);
    }
    let comparison = compare(&shown.runs, &compare::Options { seed: options.seed, ..compare::Options::default() })?;
    for candidate in &comparison.candidates {
        let tone = if candidate.comparability.is_comparable { Tone::Plain } else { Tone::Warning };
        blocks.push(Block::Verdict { text: sentence(&comparison.baseline.label, candidate), tone });
    }
    blocks.extend(comparison.tables().into_iter().map(Block::Table));
    if shown.runs.len() > 2 {
        blocks.extend(front(&shown.runs).table().map(Block::Table));
    }
    Ok(blocks)
}

/// Where the knee is, or why there is none.
fn verdict_of(curve: &Curve) -> Block {
    let at = |place: usize| format!("{} {}", curve.axis, curve.points[place].load);
    let knee = match &curve.knee {
        Ok(place) => format!("The knee is at {}.", at(*place)),
        Err(why) => format!("No knee: {why}."),
    };
    let least = curve.least_joules.map(|place| format!(" The least energy per token is at {}.", at(place)));
    let within = curve
        .most_tokens_within_limits
        .map(|place| format!(" The most tokens within the limits come at {}.", at(place)));
    let text = [Some(knee), least, within].into_iter().flatten().collect();
    Block::Verdict { text, tone: Tone::Plain }
}

/// In what a run is better and worse, and whether that can be believed.
fn sentence(baseline: &str, candidate: &Candidate) -> String {
    let of = |verdict: Verdict| {
        let rows = candidate.rows.iter().filter(|row| row.verdict == verdict);
        rows.map(|row| row.metric.label).collect::<Vec<&str>>().join(", ")
    };
    let (better, worse) = (of(Verdict::Better), of(Verdict::Worse));
    let found = match (better.is_empty(), worse.is_empty()) {
        (true, true) => String::from("no difference that can be told from chance"),
        (false, true) => format!("better in {better}"),
        (true, false) => format!("worse in {worse}"),
        (false, false) => format!("better in {better}; worse in {worse}"),
    };
    let Comparability { verdict, is_comparable, .. } = &candidate.comparability;
    if *is_comparable {
        format!("{} beside {baseline}: {found}. {verdict}.", candidate.side.label)
    } else {
        format!("Mind what else differs ({verdict}). {} beside {baseline}: {found}.", candidate.side.label)
    }
}
