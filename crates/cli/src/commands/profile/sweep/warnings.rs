//! Collects the warnings of the runs of a sweep: each once, with its points.

use std::collections::BTreeSet;

use ergometer::close::Closed;
use ergometer_diagnostics::{Diagnostic, Hint, Message};
use ergometer_runs::Summary;
use ergometer_runs::config::Axis;
use ergometer_runs::sweep::Sweep;

/// The warnings of the runs of a sweep.
#[derive(Debug, Default)]
pub(super) struct Warnings(Vec<Warning>);

#[derive(Debug)]
struct Warning {
    text: String,
    hint: Option<Hint>,
    points: BTreeSet<usize>,
}

impl Warnings {
    /// Adds the warnings of a run that just ended.
    pub(super) fn closed(&mut self, point: usize, closed: &Closed) {
        for warning in &closed.warnings {
            let Message { text, hint } = warning.to_message();
            self.add(point, text, hint);
        }
    }

    /// Adds the warnings of an earlier run from its summary, which has no hints.
    pub(super) fn stored(&mut self, point: usize, summary: &Summary) {
        for text in &summary.warnings {
            self.add(point, text.clone(), None);
        }
    }

    fn add(&mut self, point: usize, text: String, hint: Option<Hint>) {
        let points = BTreeSet::from([point]);
        match self.0.iter_mut().find(|known| known.text == text) {
            Some(known) => {
                known.points.extend(points);
                known.hint = known.hint.take().or(hint);
            }
            None => self.0.push(Warning { text, hint, points }),
        }
    }

    /// One message for each warning, with the points it concerns.
    pub(super) fn messages(&self, sweep: &Sweep) -> Vec<Message> {
        let message = |warning: &Warning| {
            let values = warning.points.iter().map(|&point| Axis::value(&sweep.points[point].schedule).to_string());
            let values: Vec<String> = values.collect();
            let of = match values.len() {
                all if all == sweep.points.len() => String::new(),
                _ => format!("{} {}: ", sweep.axis, values.join(", ")),
            };
            Message { text: format!("{of}{}", warning.text), hint: warning.hint.clone() }
        };
        self.0.iter().map(message).collect()
    }
}

#[cfg(test)]
mod tests {
    use ergometer_diagnostics::{CommandLine, Diagnostic as _, command, hint};

    use super::super::show::tests::sweep;
    use super::*;

    #[test]
    fn each_warning_has_its_points() {
        let mut warnings = Warnings::default();
        for point in 0..3 {
            warnings.stored(
                point,
                &ergometer_runs::testing::summary(serde_json::json!({"warnings": ["energy is modelled"]})),
            );
        }
        warnings.add(0, String::from("energy is modelled"), Some(hint!("run ", command("doctor"))));
        warnings.add(1, String::from("3 requests failed"), None);
        warnings.add(2, String::from("3 requests failed"), Some(Hint::text("see requests.parquet")));
        assert_eq!(
            warnings.messages(&sweep()).iter().map(|message| message.one_line(&CommandLine)).collect::<Vec<_>>(),
            [
                "energy is modelled. hint: run `ergo doctor`",
                "concurrency 4, 16: 3 requests failed. hint: see requests.parquet",
            ]
        );
    }
}
