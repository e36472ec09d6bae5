//! Collects the warnings of the runs of a sweep: each once, with its points and repeats.

use std::collections::BTreeSet;

use ergometer::close::ClosedRun;
use ergometer_diagnostics::{Diagnostic, Hint, Message};
use ergometer_runs::Summary;
use ergometer_runs::config::Axis;
use ergometer_runs::sweep::{Point, Sweep};

/// The warnings of the runs of a sweep.
#[derive(Debug, Default)]
pub(super) struct Warnings(Vec<Warning>);

#[derive(Debug)]
struct Warning {
    text: String,
    hint: Option<Hint>,
    /// The runs that have it: the index of the point, and of the run in the point.
    runs: BTreeSet<(usize, usize)>,
}

impl Warnings {
    /// Adds the warnings of a run that just ended.
    pub(super) fn closed(&mut self, run: (usize, usize), closed: &ClosedRun) {
        for warning in &closed.warnings {
            let Message { text, hint } = warning.to_message();
            self.add(run, text, hint);
        }
    }

    /// Adds the warnings of an earlier run from its summary, which has no hints.
    pub(super) fn stored(&mut self, run: (usize, usize), summary: &Summary) {
        for text in &summary.warnings {
            self.add(run, text.clone(), None);
        }
    }

    fn add(&mut self, run: (usize, usize), text: String, hint: Option<Hint>) {
        match self.0.iter_mut().find(|known| known.text == text) {
            Some(known) => {
                known.runs.insert(run);
                known.hint = known.hint.take().or(hint);
            }
            None => self.0.push(Warning { text, hint, runs: BTreeSet::from([run]) }),
        }
    }

    /// One message for each warning, with the points and repeats that have it.
    pub(super) fn messages(&self, sweep: &Sweep) -> Vec<Message> {
        let message = |warning: &Warning| {
            let of = warning.subject(sweep).map_or_else(String::new, |subject| format!("{subject}: "));
            Message { text: format!("{of}{}", warning.text), hint: warning.hint.clone() }
        };
        self.0.iter().map(message).collect()
    }
}

impl Warning {
    /// The runs that have it: `concurrency 4, 16`, or with repeats `concurrency 4 (repeat 1), 16 (all repeats)`.
    /// `None` if all runs have it.
    fn subject(&self, sweep: &Sweep) -> Option<String> {
        let made = |point: &Point| point.runs.iter().filter(|run| run.figures.is_some()).count();
        if self.runs.len() >= sweep.points.iter().map(made).sum::<usize>() {
            return None;
        }
        let count = |place: usize| self.runs.iter().filter(|run| run.0 == place).count();
        let is_partial = |(place, point): (usize, &Point)| (1..made(point)).contains(&count(place));
        let all = if sweep.points.iter().enumerate().any(is_partial) { " (all repeats)" } else { "" };
        let points = sweep.points.iter().enumerate().filter_map(|(place, point)| {
            let of_point = self.runs.iter().filter(|run| run.0 == place);
            let repeats: Vec<String> = of_point.map(|run| (run.1 + 1).to_string()).collect();
            let value = Axis::value(&point.schedule);
            match repeats.len() {
                0 => None,
                many if many >= made(point) => Some(format!("{value}{all}")),
                _ => Some(format!("{value} (repeat {})", repeats.join(", "))),
            }
        });
        Some(format!("{} {}", sweep.axis, points.collect::<Vec<_>>().join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use ergometer_diagnostics::{CommandLine, Diagnostic as _, command, hint};

    use super::super::show::tests::{repeated_sweep, sweep};
    use super::*;

    #[test]
    fn each_warning_has_its_points() {
        let mut warnings = Warnings::default();
        for point in 0..3 {
            warnings.stored(
                (point, 0),
                &ergometer_runs::testing::summary(serde_json::json!({"warnings": ["energy is modelled"]})),
            );
        }
        warnings.add((0, 0), String::from("energy is modelled"), Some(hint!("run ", command("doctor"))));
        warnings.add((1, 0), String::from("3 requests failed"), None);
        warnings.add((2, 0), String::from("3 requests failed"), Some(Hint::text("see requests.parquet")));
        assert_eq!(
            warnings.messages(&sweep()).iter().map(|message| message.one_line(&CommandLine)).collect::<Vec<_>>(),
            [
                "energy is modelled. hint: run `ergo doctor`",
                "concurrency 4, 16: 3 requests failed. hint: see requests.parquet",
            ]
        );
    }

    #[test]
    fn a_warning_names_its_repeats() {
        let mut warnings = Warnings::default();
        warnings.add((0, 0), String::from("2 requests failed"), None);
        warnings.add((0, 2), String::from("2 requests failed"), None);
        warnings.add((1, 0), String::from("2 requests failed"), None);
        let messages = warnings.messages(&repeated_sweep());
        assert_eq!(messages[0].text, "concurrency 1 (repeat 1, 3), 4 (all repeats): 2 requests failed");
    }
}
