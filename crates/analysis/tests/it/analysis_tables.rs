//! Snapshots of the warnings and tables of analyses.

use ergometer_analysis::analyses::{Options, find};
use ergometer_charts::{Cell, Table};
use ergometer_diagnostics::{CommandLine, Diagnostic as _};
use ergometer_runs::saved::Run;
use std::fmt::Write as _;
use std::path::Path;

/// Warnings and tables of an analysis of a run of `fixtures/runs`.
fn analysis_text(run: &str, id: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs").join(run);
    let found = find(id).unwrap().run(&Run::open(&folder).unwrap(), &Options::default()).unwrap();
    let mut text = String::new();
    for warning in &found.warnings {
        writeln!(text, "warning: {}", warning.one_line(&CommandLine)).unwrap();
    }
    for table in &found.tables {
        assert!(table.rows.iter().all(|row| row.len() == table.columns.len()), "{id} {}", table.id);
        write_table(&mut text, table);
    }
    text
}

fn write_table(text: &mut String, table: &Table) {
    let heads = table.columns.iter().map(|column| column.head.clone()).collect();
    let rows = table.rows.iter().map(|row| row.iter().map(Cell::shown).collect());
    let lines: Vec<Vec<String>> = std::iter::once(heads).chain(rows).collect();
    writeln!(text, "\n# {}", table.title).unwrap();
    for line in &lines {
        let cells = line.iter().enumerate().map(|(place, cell)| {
            let width = lines.iter().map(|line| line[place].chars().count()).max().unwrap_or(0);
            format!("{cell:width$}")
        });
        writeln!(text, "{}", cells.collect::<Vec<String>>().join("  ").trim_end()).unwrap();
    }
    for note in &table.notes {
        writeln!(text, "  {note}").unwrap();
    }
}

#[test]
fn accuracy_reads_well() {
    insta::assert_snapshot!(analysis_text("mock_limits", "accuracy"));
}

#[test]
fn efficiency_reads_well() {
    insta::assert_snapshot!(analysis_text("h200_graded", "efficiency"));
}

#[test]
fn goodput_reads_well() {
    insta::assert_snapshot!(analysis_text("mock_limits", "goodput"));
}

#[test]
fn drift_reads_well() {
    insta::assert_snapshot!(analysis_text("h200_sixteen", "drift"));
    let without_reasons = analysis_text("h200_graded", "drift");
    assert!(without_reasons.contains("no drop below 1980 MHz"), "{without_reasons}");
    assert!(without_reasons.contains("If the driver reports no throttle reasons, drops of the core clock are shown"));
}

#[test]
fn outliers_read_well() {
    insta::assert_snapshot!(analysis_text("mock_limits", "outliers"));
}
