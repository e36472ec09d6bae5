//! Formats a comparison as tables.

use std::fmt::Write as _;

use ergometer_analysis::compare::{Candidate, Comparison, Row, Verdict};
use ergometer_charts::{Cell, Table as ReportTable};
use ergometer_runs::metrics;

use super::Results;
use crate::screen::{Align, Screen, Table, Tone, visible};

/// With more candidates than this, each has a column instead of a table.
const MOST_TABLES: usize = 3;

pub(super) fn render(results: &Results, screen: Screen) -> String {
    let mut text = String::new();
    if results.comparison.candidates.len() <= MOST_TABLES {
        for (table, candidate) in results.comparison.tables().iter().zip(&results.comparison.candidates) {
            text += &one(table, candidate, screen);
            text.push('\n');
        }
    } else {
        text += &wide(&results.comparison, screen);
        text.push('\n');
    }
    let others = results.front.iter().filter_map(ergometer_analysis::compare::Front::table);
    for table in others.chain(results.curve.iter().map(ergometer_analysis::curve::Curve::table)) {
        text += &plain(&table, screen);
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Better => Tone::Good,
        Verdict::Worse => Tone::Bad,
        Verdict::CannotTell | Verdict::Same | Verdict::None => Tone::Faint,
        Verdict::Higher | Verdict::Lower => Tone::Plain,
    }
}

/// The table of one candidate, with its notes.
fn one(shown: &ReportTable, candidate: &Candidate, screen: Screen) -> String {
    let mut table = Table::new([Align::Left, Align::Right, Align::Right, Align::Left, Align::Left]);
    table.row(shown.columns.iter().map(|column| (Tone::Faint, visible(&column.head).into_owned())).collect());
    for (cells, row) in shown.rows.iter().zip(&candidate.rows) {
        let tones = [Tone::Strong, Tone::Plain, Tone::Plain, Tone::Plain, tone(row.verdict)];
        table.row(tones.into_iter().zip(cells).map(|(tone, cell)| (tone, cell_text(cell))).collect());
    }
    table.render(screen) + &notes(&shown.notes, screen)
}

/// The changes of all candidates, one per column.
fn wide(comparison: &Comparison, screen: Screen) -> String {
    let mut columns = vec![Align::Left, Align::Right];
    columns.extend(comparison.candidates.iter().map(|_| Align::Right));
    let mut table = Table::new(columns);
    let labels = comparison.candidates.iter().map(|candidate| &candidate.side.label);
    let heads = ["", &comparison.baseline.label].into_iter().chain(labels.map(String::as_str));
    table.row(heads.map(|head| (Tone::Faint, visible(head).into_owned())).collect());
    for metric in metrics::in_comparisons() {
        let rows: Vec<Option<&Row>> =
            comparison.candidates.iter().map(|candidate| candidate.row(metric.name)).collect();
        let Some(known) = rows.iter().flatten().next() else { continue };
        let baseline = known.baseline.map_or_else(|| String::from("-"), |value| metric.unit.format(value));
        let mut cells = vec![(Tone::Strong, metric.label.to_owned()), (Tone::Plain, baseline)];
        cells.extend(rows.iter().map(|row| {
            let change = row.and_then(Row::change_in_short).unwrap_or_else(|| String::from("-"));
            let verdict = row.map_or(Verdict::None, |row| row.verdict);
            let mark = match verdict {
                Verdict::CannotTell => " ?",
                Verdict::None if change != "-" => " ?",
                _ => "",
            };
            (tone(verdict), change + mark)
        }));
        table.row(cells);
    }
    let mut lines = vec![String::from(
        "changes from the baseline; ? marks changes that are not significant or have no interval. --format json prints intervals",
    )];
    let verdicts: Vec<&str> = comparison.candidates.iter().map(|other| other.comparability.verdict.as_str()).collect();
    if verdicts.windows(2).all(|pair| pair[0] == pair[1]) {
        lines.extend(verdicts.first().map(|verdict| (*verdict).to_owned()));
    }
    lines.extend(comparison.candidates.iter().find_map(|candidate| candidate.notes.last()).cloned());
    table.render(screen) + &notes(&lines, screen)
}

/// A table whose first column has the names of its rows.
fn plain(shown: &ReportTable, screen: Screen) -> String {
    let last = shown.columns.len().saturating_sub(1);
    let aligned = |place: usize| if place == 0 || place == last { Align::Left } else { Align::Right };
    let mut table = Table::new((0..shown.columns.len()).map(aligned).collect::<Vec<_>>());
    table.row(shown.columns.iter().map(|column| (Tone::Faint, visible(&column.head).into_owned())).collect());
    for row in &shown.rows {
        table.row(row.iter().map(|cell| (Tone::Plain, cell_text(cell))).collect());
    }
    table.render(screen) + &notes(&shown.notes, screen)
}

fn cell_text(cell: &Cell) -> String {
    visible(&cell.shown()).into_owned()
}

fn notes(notes: &[String], screen: Screen) -> String {
    let mut text = String::new();
    for note in notes {
        let _ = writeln!(text, "  {}", screen.paint(Tone::Faint, &visible(note)));
    }
    text
}
