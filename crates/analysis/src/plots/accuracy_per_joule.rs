//! Bar charts of accuracy and correct answers per joule: by run, or by subject for a single run.

use ergometer_charts::{Axis, Chart, Mark, Panel, Points};
use ergometer_statistics::{Interval, Resampling, proportion_interval, ratio_interval};

use super::{Plot, PlotInput};
use crate::AnalysisError;
use ergometer_runs::saved::{Query, Run};

pub(super) struct AccuracyPerJoule;

/// Maximum number of bars.
const MOST: usize = 40;

/// One bar.
struct Bar {
    name: String,
    value: f64,
    interval: Option<Interval>,
}

impl Plot for AccuracyPerJoule {
    fn id(&self) -> &'static str {
        "accuracy_per_joule"
    }

    fn about(&self) -> &'static str {
        "correct answers per joule, and accuracy, by run or by subject"
    }

    fn needs(&self) -> &'static str {
        "graded answers of several subjects or several runs"
    }

    fn draw(&self, input: &PlotInput) -> Result<Vec<Chart>, AnalysisError> {
        let (accuracies, efficiencies) = match &input.runs[..] {
            [run] => by_subject(run),
            _ => by_run(input),
        };
        let of = if input.runs.len() > 1 { "run" } else { "subject" };
        let accuracy = Axis::from_zero("correct answers", "%").within(0.0, 100.0);
        let efficiency = Axis::from_zero("correct answers per gross joule", "");
        let charts = [
            bars(input, "accuracy", &format!("Accuracy by {of}"), accuracy, accuracies),
            bars(input, "accuracy_per_joule", &format!("Correct answers per joule by {of}"), efficiency, efficiencies),
        ];
        Ok(charts.into_iter().flatten().collect())
    }
}

fn bars(input: &PlotInput, id: &str, title: &str, x: Axis, mut bars: Vec<Bar>) -> Option<Chart> {
    if bars.is_empty() || bars.iter().all(|bar| bar.value == 0.0) && id != "accuracy" {
        return None;
    }
    let mut notes = if id == "accuracy" { Vec::new() } else { input.energy_note() };
    if input.runs.len() == 1 {
        bars.sort_by(|one, other| other.value.total_cmp(&one.value));
    }
    if bars.len() > MOST {
        notes.push(format!("Only the {} best and the {} worst of {} are drawn.", MOST / 2, MOST / 2, bars.len()));
        bars.drain(MOST / 2..bars.len() - MOST / 2);
    }
    let has_intervals = bars.iter().any(|bar| bar.interval.is_some());
    notes.push(String::from(match (id, has_intervals) {
        ("accuracy", _) => "Whiskers are 95 % intervals (Wilson).",
        (_, true) => "Whiskers are 95 % intervals (bootstrap over queries).",
        (_, false) => "No intervals: too few queries. An interval needs at least 10, and more if requests overlap.",
    }));
    let names = bars.iter().map(|bar| bar.name.clone()).collect();
    let mut points = Points::default();
    for (place, bar) in bars.into_iter().enumerate() {
        let (low, high) = bar.interval.map_or((f64::NAN, f64::NAN), |interval| (interval.low, interval.high));
        points.x.push(bar.value);
        points.y.push(place as f64);
        points.low.push(low);
        points.high.push(high);
    }
    Some(Chart {
        id: id.to_owned(),
        title: title.to_owned(),
        subtitle: input.subtitle(),
        notes,
        x,
        panels: vec![Panel { y: Axis::names("", names), marks: vec![Mark::Bars(points)], share: 1.0 }],
    })
}

fn by_subject(run: &Run) -> (Vec<Bar>, Vec<Bar>) {
    let mut of_subject: Vec<Vec<&Query>> = vec![Vec::new(); run.subjects.len()];
    for query in &run.queries {
        if let Some(queries) = of_subject.get_mut(query.subject as usize) {
            queries.push(query);
        }
    }
    let mut accuracies = Vec::new();
    let mut efficiencies = Vec::new();
    for (subject, queries) in run.subjects.iter().zip(&mut of_subject).filter(|(subject, _)| !subject.is_empty()) {
        queries.sort_by_key(|query| (query.session, query.sent));
        // Only some of the concurrent queries belong to the subject.
        let share = queries.len() as f64 / run.queries.len().max(1) as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most the block")]
        let block = (run.block() as f64 * share).ceil().max(1.0) as usize;
        accuracies.extend(accuracy(subject, queries));
        efficiencies.extend(efficiency(subject, queries, block));
    }
    (accuracies, efficiencies)
}

fn by_run(input: &PlotInput) -> (Vec<Bar>, Vec<Bar>) {
    let mut accuracies = Vec::new();
    let mut efficiencies = Vec::new();
    for (run, label, _) in input.each() {
        let queries: Vec<&Query> = run.queries.iter().collect();
        accuracies.extend(accuracy(label, &queries));
        // The value of the run also includes energy between its requests. Runs with another energy source have no bar.
        let is_alike = run.energy == input.runs[0].energy;
        let figure = run.summary.intelligence.as_ref().map(|found| found.per_joule).filter(|_| is_alike);
        efficiencies.extend(figure.map(|figure| Bar {
            name: label.to_owned(),
            value: figure.value,
            interval: figure.interval(),
        }));
    }
    (accuracies, efficiencies)
}

fn accuracy(name: &str, queries: &[&Query]) -> Option<Bar> {
    let graded: Vec<bool> = queries.iter().filter_map(|query| query.correct).collect();
    let right = graded.iter().filter(|correct| **correct).count();
    let interval = proportion_interval(right as u64, graded.len() as u64)?;
    let value = 100.0 * right as f64 / graded.len() as f64;
    let interval = Some(Interval { low: 100.0 * interval.low, high: 100.0 * interval.high });
    Some(Bar { name: name.to_owned(), value, interval })
}

fn efficiency(name: &str, queries: &[&Query], block: usize) -> Option<Bar> {
    let pairs: Vec<(f64, f64)> =
        queries.iter().filter_map(|query| Some((f64::from(u8::from(query.correct?)), query.energy?.gross))).collect();
    let (right, joules) = pairs.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
    let interval = ratio_interval(&pairs, Resampling { draws: 1_000, block, ..Resampling::default() });
    (joules > 0.0).then(|| Bar { name: name.to_owned(), value: right / joules, interval })
}
