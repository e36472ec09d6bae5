//! `ergo attribute`: fits one cost model to several runs, and attributes their energy to requests again.

use std::path::PathBuf;
use std::process::ExitCode;

use ergometer::close::{ClosedRun, attribute};
use ergometer::journal::JournalFolder;
use ergometer::run::RunError;
use ergometer_diagnostics::Diagnostic;
use ergometer_runs::Sweep;
use ergometer_runs::summary::AttributionSummary;

use super::profile::failure;
use crate::arguments::{AttributeArguments, Format};
use crate::csv;
use crate::exit::Failure;
use crate::figures::{digits, or_dash};
use crate::report::to_json;
use crate::screen::{Align, Screen, Table, Tone, print};

pub(crate) fn run(arguments: &AttributeArguments, screen: Screen) -> Result<ExitCode, Failure> {
    let folders = folders(&arguments.runs)?;
    for folder in &folders {
        // A folder that is not a run gets an error, and no lock file.
        JournalFolder::of_run(folder).manifest().map_err(|error| failure(error.into()))?;
    }
    let log = arguments.engine_log.as_deref();
    let closed = attribute(&folders, log).map_err(|error| failure(RunError::from(error)))?;
    print(&match arguments.format {
        Format::Table => as_table(&closed, screen),
        Format::Json => to_json(&closed.iter().map(|run| &run.summary.attribution).collect::<Vec<_>>())?,
        Format::Csv => as_csv(&closed),
    })?;
    for run in &closed {
        run.warnings.iter().for_each(|warning| screen.warning(&warning.to_message()));
        screen.note(&format!("saved    {}", run.folder.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// The run folders, with those of a sweep in its place.
fn folders(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut folders = Vec::new();
    for path in paths {
        if Sweep::is_in(path) {
            let sweep = Sweep::read(path).map_err(Failure::failed)?;
            let runs = sweep.points.iter().flat_map(|point| &point.runs);
            folders.extend(runs.map(|run| path.join(&run.folder)).filter(|folder| folder.is_dir()));
        } else {
            folders.push(path.clone());
        }
    }
    Ok(folders)
}

fn rows(closed: &[ClosedRun]) -> impl Iterator<Item = (String, &AttributionSummary)> {
    closed.iter().filter_map(|run| {
        let name = run.folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        Some((name, run.summary.attribution.as_ref()?))
    })
}

fn as_table(closed: &[ClosedRun], screen: Screen) -> String {
    let numbers = [Align::Right; 4];
    let mut table = Table::new([&[Align::Left, Align::Left], &numbers[..]].concat());
    table.head(["run", "method", "net", "prefill", "decode", "if run alone"]);
    for (name, found) in rows(closed) {
        let joules = |value: Option<f64>| or_dash(value.map(|value| format!("{} J", digits(value))));
        table.row(vec![
            (Tone::Plain, name),
            (Tone::Plain, found.method.clone()),
            (Tone::Plain, joules(Some(found.share))),
            (Tone::Plain, joules(found.prefill_j)),
            (Tone::Plain, joules(found.decode_j)),
            (Tone::Faint, joules(found.alone)),
        ]);
    }
    let note = "net: energy above idle power; if run alone: sum of what each request would use on the idle server";
    format!("{}{}\n", table.render(screen), screen.paint(Tone::Faint, &format!("  {note}")))
}

fn as_csv(closed: &[ClosedRun]) -> String {
    let mut text = csv::line(["run", "method", "share", "low", "high", "prefill_j", "decode_j", "marginal", "alone"]);
    for (name, found) in rows(closed) {
        let figures = [Some(found.share), Some(found.low), Some(found.high), found.prefill_j, found.decode_j];
        let figures = figures.into_iter().chain([found.marginal, found.alone]).map(csv::number);
        text.push_str(&csv::line([name, found.method.clone()].into_iter().chain(figures)));
    }
    text
}
