//! The `accuracy` analysis: accuracy by subject and by answer length, and whether the differences are significant.
//!
//! A failed request counts as a wrong answer. An answer that could not be graded is left out.

use ergometer_charts::{Cell, Table};
use ergometer_diagnostics::{Message, hint, option};
use ergometer_statistics::{Homogeneity, homogeneity, percentile, proportion_interval};
use serde_json::{Value, json};

use super::cell::{self, count_cell, share_cell};
use super::entries;
use super::{Analysis, Findings, Options};
use crate::AnalysisError;
use ergometer_runs::saved::{Query, Run};
use ergometer_statistics::Estimate;

/// The significance level: differences with a smaller p-value are reported.
const SIGNIFICANT: f64 = 0.05;

/// Subjects with fewer graded answers get a warning, because their intervals are wide.
const FEW: u64 = 30;

/// The `accuracy` analysis.
pub(super) struct Accuracy;

/// Counts of graded, failed and ungraded answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct GradeCounts {
    right: u64,
    graded: u64,
    failed: u64,
    ungraded: u64,
}

impl GradeCounts {
    fn add(&mut self, query: &Query) {
        self.failed += u64::from(!query.is_completed());
        match query.correct {
            Some(is_right) => {
                self.graded += 1;
                self.right += u64::from(is_right);
            }
            None => self.ungraded += 1,
        }
    }

    fn from_queries<'a>(queries: impl Iterator<Item = &'a Query>) -> Self {
        let mut counted = Self::default();
        queries.for_each(|query| counted.add(query));
        counted
    }

    fn share(&self) -> Option<Estimate> {
        (self.graded > 0).then(|| {
            entries::with(self.right as f64 / self.graded as f64, proportion_interval(self.right, self.graded))
        })
    }

    fn json(&self) -> Value {
        json!({"right": self.right, "graded": self.graded, "failed": self.failed, "ungraded": self.ungraded,
            "accuracy": entries::estimate(self.share())})
    }

    fn cells(&self) -> [Cell; 5] {
        [
            share_cell(self.share()),
            count_cell(self.right),
            count_cell(self.graded),
            count_cell(self.failed),
            count_cell(self.ungraded),
        ]
    }
}

const COLUMNS: [(&str, &str); 5] = [
    ("accuracy", "accuracy"),
    ("correct", "right"),
    ("graded", "graded"),
    ("failed", "failed"),
    ("not graded", "ungraded"),
];

fn columns(first: (&'static str, &'static str)) -> Vec<(&'static str, &'static str)> {
    std::iter::once(first).chain(COLUMNS).collect()
}

impl Analysis for Accuracy {
    fn id(&self) -> &'static str {
        "accuracy"
    }

    fn about(&self) -> &'static str {
        "accuracy by subject and answer length, with intervals, and whether subjects differ"
    }

    fn run(&self, run: &Run, options: &Options) -> Result<Findings, AnalysisError> {
        let whole = GradeCounts::from_queries(run.queries.iter());
        let mut findings = Findings::default();
        let subjects = by_subject(run);
        let groups: Vec<(u64, u64)> = subjects.iter().map(|(_, found)| (found.right, found.graded)).collect();
        let differ = homogeneity(&groups, options.seed);
        let lengths = by_length(run);
        let groups: Vec<(u64, u64)> =
            lengths.iter().map(|tercile| (tercile.found.right, tercile.found.graded)).collect();
        let lengths_differ = homogeneity(&groups, options.seed);
        warn(&whole, &subjects, &mut findings.warnings);

        // If all subjects have the same accuracy, none is the worst.
        let worst = subjects.first().filter(|_| differ.is_some());
        findings.summary = entries::map(json!({
            "right": whole.right, "graded": whole.graded, "failed": whole.failed, "ungraded": whole.ungraded,
            "accuracy": entries::estimate(whole.share()),
            "subjects": subjects.len(),
            "worst_subject": worst.map(|(subject, _)| subject),
            "subjects_differ_p": entries::number(differ.map(|found| found.p_value)),
        }));
        findings.data = entries::map(json!({
            "grader": run.summary.accuracy.as_ref().map(|accuracy| &accuracy.grader),
            "whole": whole.json(),
            "by_subject": subjects.iter().map(|(subject, found)| named("subject", subject, found)).collect::<Vec<_>>(),
            "subjects_differ": entries::test(differ.as_ref()),
            "by_output_tokens": lengths.iter().map(Tercile::json).collect::<Vec<_>>(),
            "lengths_differ": entries::test(lengths_differ.as_ref()),
        }));
        if whole.graded > 0 {
            findings.tables.push(subject_table(&subjects, &whole, differ.as_ref()));
            // The table of lengths is shown only if the difference is significant.
            if let Some(found) = lengths_differ.filter(|found| found.p_value < SIGNIFICANT) {
                findings.tables.push(length_table(&lengths, &found));
            }
        }
        Ok(findings)
    }
}

fn warn(whole: &GradeCounts, subjects: &[(String, GradeCounts)], warnings: &mut Vec<Message>) {
    if whole.graded == 0 {
        warnings.push(Message::new("no answer is graded, so the accuracy is unknown").with_hint(hint!(
            "profile with ",
            option("grader").value("NAME"),
            " to grade answers that have a reference, or with ",
            option("judge").value("URL"),
            " to let a model grade them"
        )));
        return;
    }
    if whole.ungraded > 0 {
        warnings.push(Message::new(match whole.ungraded {
            1 => String::from("1 answer could not be graded and is left out"),
            many => format!("{many} answers could not be graded and are left out"),
        }));
    }
    if whole.failed > 0 {
        warnings.push(Message::new(match whole.failed {
            1 => String::from("1 request failed and counts as a wrong answer"),
            many => format!("{many} requests failed and count as wrong answers"),
        }));
    }
    let few = subjects.iter().filter(|(_, found)| (1..FEW).contains(&found.graded)).count();
    if few > 0 && subjects.len() > 1 {
        warnings.push(Message::new(format!(
            "{few} of {} subjects have fewer than {FEW} graded answers, so their accuracy is uncertain",
            subjects.len()
        )));
    }
}

fn named(what: &str, name: &str, found: &GradeCounts) -> Value {
    let mut entry = entries::map(json!({ what: name }));
    entry.extend(entries::map(found.json()));
    Value::Object(entry)
}

/// Counts by subject, worst subject first and ungraded subjects last.
fn by_subject(run: &Run) -> Vec<(String, GradeCounts)> {
    let mut found = vec![GradeCounts::default(); run.subjects.len()];
    for query in &run.queries {
        if let Some(counted) = found.get_mut(query.subject as usize) {
            counted.add(query);
        }
    }
    let mut subjects: Vec<(String, GradeCounts)> = run.subjects.iter().cloned().zip(found).collect();
    let share = |found: &GradeCounts| found.share().map_or(f64::INFINITY, |share| share.value);
    subjects.sort_by(|one, other| share(&one.1).total_cmp(&share(&other.1)).then_with(|| one.0.cmp(&other.0)));
    subjects
}

/// A third of the answers by length.
#[derive(Debug)]
struct Tercile {
    shortest: u64,
    longest: u64,
    found: GradeCounts,
}

impl Tercile {
    fn json(&self) -> Value {
        let mut entry = entries::map(json!({"shortest": self.shortest, "longest": self.longest}));
        entry.extend(entries::map(self.found.json()));
        Value::Object(entry)
    }
}

/// Splits graded, completed answers into thirds by output tokens; fewer groups if many have the same length.
fn by_length(run: &Run) -> Vec<Tercile> {
    let graded = run.completed().filter(|query| query.correct.is_some());
    let mut answers: Vec<(u64, &Query)> = graded.filter_map(|query| Some((query.output_tokens?, query))).collect();
    answers.sort_by_key(|&(tokens, _)| tokens);
    let lengths: Vec<f64> = answers.iter().map(|&(tokens, _)| tokens as f64).collect();
    let cuts = [100.0 / 3.0, 200.0 / 3.0].map(|percent| percentile(&lengths, percent).unwrap_or(0.0));
    let third = |tokens: u64| cuts.iter().filter(|&&cut| tokens as f64 > cut).count();
    answers
        .chunk_by(|one, other| third(one.0) == third(other.0))
        .map(|part| Tercile {
            shortest: part.first().map_or(0, |answer| answer.0),
            longest: part.last().map_or(0, |answer| answer.0),
            found: GradeCounts::from_queries(part.iter().map(|answer| answer.1)),
        })
        .collect()
}

fn subject_table(subjects: &[(String, GradeCounts)], whole: &GradeCounts, differ: Option<&Homogeneity>) -> Table {
    let mut table =
        Table::new("accuracy_by_subject", "Accuracy by subject, worst first", &columns(("subject", "subject")));
    let row = |name: Cell, found: &GradeCounts| std::iter::once(name).chain(found.cells()).collect();
    table.rows = subjects.iter().map(|(name, found)| row(Cell::text(cell::outside(name)), found)).collect();
    if subjects.len() > 1 {
        table.rows.push(row(Cell::text("all"), whole));
    }
    table
        .notes
        .push(String::from("In parentheses: Wilson's 95 % interval. A failed request counts as a wrong answer."));
    if let Some(found) = differ {
        let verdict = if found.p_value < SIGNIFICANT {
            "Accuracy differs between subjects"
        } else {
            "No evidence that accuracy differs between subjects"
        };
        table.notes.push(format!("{verdict}: {} (chi-square permutation test).", cell::p_value(found.p_value)));
    }
    table
}

fn length_table(lengths: &[Tercile], differ: &Homogeneity) -> Table {
    let mut table =
        Table::new("accuracy_by_length", "Accuracy by answer length", &columns(("output tokens", "output_tokens")));
    for Tercile { shortest, longest, found } in lengths {
        let name = if shortest == longest { shortest.to_string() } else { format!("{shortest} to {longest}") };
        table.rows.push(std::iter::once(Cell::text(name)).chain(found.cells()).collect());
    }
    table.notes.push(format!(
        "Accuracy differs by answer length: {}. The reason may be that some subjects need longer answers.",
        cell::p_value(differ.p_value)
    ));
    table
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;
    use ergometer_runs::saved::Outcome;

    /// 40 of 40 `easy` answers are correct; 10 of 40 `hard` ones are, and 3 of these failed; 5 are ungraded. Wrong
    /// answers are long.
    fn graded() -> Run {
        let query = |number: u64| {
            let (subject, correct) = (u32::from(number >= 40), !(40..70).contains(&number));
            Query {
                subject,
                correct: (number < 80).then_some(correct),
                outcome: if (40..43).contains(&number) { Outcome::Failed } else { Outcome::Completed },
                output_tokens: Some(if correct { number % 10 } else { 50 }),
                ..example::query(number)
            }
        };
        example::run((0..85).map(query).collect(), &["easy", "hard\u{1b}[31m"])
    }

    #[test]
    fn the_worst_subject_comes_first_and_the_difference_is_significant() {
        let found = Accuracy.run(&graded(), &Options::default()).unwrap();
        assert_eq!((&found.summary["right"], &found.summary["graded"]), (&json!(50), &json!(80)));
        assert_eq!((&found.summary["failed"], &found.summary["ungraded"]), (&json!(3), &json!(5)));
        assert_eq!(found.summary["worst_subject"], "hard\u{1b}[31m");
        assert!(found.summary["subjects_differ_p"].as_f64().unwrap() < 0.001);
        let hard = &found.data["by_subject"][0];
        assert_eq!((&hard["right"], &hard["graded"], &hard["ungraded"]), (&json!(10), &json!(40), &json!(5)));
        assert_eq!(hard["accuracy"]["value"], 0.25);
        let rows: Vec<String> = found.tables[0].rows.iter().map(|row| row[0].shown()).collect();
        assert_eq!(rows, ["hard\u{fffd}[31m", "easy", "all"], "no escape reaches the screen");
        assert_eq!(found.tables[1].id, "accuracy_by_length");
        assert_eq!(found.warnings.len(), 2, "{:?}", found.warnings);
        assert_eq!(Accuracy.run(&graded(), &Options::default()).unwrap(), found, "the same seed");
    }

    #[test]
    fn equal_subjects_show_no_evidence_of_a_difference() {
        let query = |number: u64| Query {
            subject: u32::try_from(number % 3).unwrap(),
            correct: Some(!number.is_multiple_of(4)),
            output_tokens: Some(7),
            ..example::query(number)
        };
        let run = example::run((0..120).map(query).collect(), &["a", "b", "c"]);
        let found = Accuracy.run(&run, &Options::default()).unwrap();
        assert_eq!(found.summary["subjects_differ_p"], 1.0);
        assert!(
            found.tables[0].notes[1].starts_with("No evidence that accuracy differs between subjects"),
            "{:?}",
            found.tables[0].notes
        );
        assert_eq!(found.tables.len(), 1, "a single length gives no table");
        assert_eq!(found.data["by_output_tokens"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn without_grades_there_is_a_warning() {
        for run in [example::run(Vec::new(), &[]), example::run(vec![example::query(0)], &[""])] {
            let found = Accuracy.run(&run, &Options::default()).unwrap();
            assert_eq!((&found.summary["accuracy"], found.tables.len(), found.warnings.len()), (&Value::Null, 0, 1));
        }
    }

    #[test]
    fn a_saved_run_has_the_accuracy_of_its_summary() {
        let run = example::saved("mock_limits");
        let found = Accuracy.run(&run, &Options::default()).unwrap();
        assert_eq!(found.data["whole"]["accuracy"], json!(run.summary.accuracy.as_ref().unwrap().rate));
        assert_eq!((&found.summary["right"], &found.summary["graded"]), (&json!(0), &json!(120)));
        assert_eq!(found.summary["subjects_differ_p"], Value::Null, "all are wrong");
        assert_eq!(found.summary["worst_subject"], Value::Null, "all alike");
    }
}
