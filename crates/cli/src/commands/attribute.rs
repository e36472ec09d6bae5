//! `ergo attribute`: fits one cost model to several runs, and attributes their energy to requests again.

use std::path::Path;
use std::process::ExitCode;

use ergometer::close::ClosedRun;
use ergometer::journal::JournalFolder;
use ergometer::run::recover;
use ergometer::sweep::{FittedRuns, SweepError, attribute};
use ergometer_diagnostics::{Diagnostic, Message, command, hint};
use ergometer_runs::Sweep;
use ergometer_runs::summary::{AttributionSummary, Warning};
use serde::Serialize;

use super::profile::attribution::words;
use super::profile::failure;
use crate::arguments::{AttributeArguments, Format};
use crate::csv;
use crate::exit::{Exit, Failure};
use crate::figures::{digits, or_dash};
use crate::report::to_json;
use crate::screen::{Align, Screen, Table, Tone, print};

pub(crate) fn run(arguments: &AttributeArguments, screen: Screen) -> Result<ExitCode, Failure> {
    for path in &arguments.runs {
        recover(path).map_err(failure)?;
        if !Sweep::is_in(path) {
            // A folder that is not a run gets an error, and no lock file.
            JournalFolder::of_run(path).manifest().map_err(|error| failure(error.into()))?;
        }
    }
    let FittedRuns { runs, left_out } =
        attribute(&arguments.runs, arguments.engine_log.as_deref()).map_err(|error| match error {
            SweepError::Run(error) => failure(error),
            error => Failure::failed(error),
        })?;
    let rows: Vec<Row> = runs.iter().map(Row::new).collect();
    print(&match arguments.format {
        Format::Table => as_table(&rows, screen),
        Format::Json => to_json(&rows)?,
        Format::Csv => as_csv(&rows),
    })?;
    for run in &left_out {
        let message = Message::new(format!("{} is left out: none of its requests has ended", name(run)));
        screen.warning(&message.with_hint(hint!("resume the sweep with ", command("profile --resume SWEEP"))));
    }
    for run in &runs {
        for warning in warnings(run, runs.len() > 1) {
            screen.warning(&warning);
        }
        screen.note(&format!("saved    {}", run.folder.display()));
    }
    let is_any = rows.iter().any(|row| row.attribution.is_some());
    Ok(if is_any { Exit::Done.into() } else { Exit::Failed.into() })
}

/// One run in the output.
#[derive(Debug, Serialize)]
struct Row<'a> {
    run: String,
    /// `None` without net energy.
    attribution: Option<&'a AttributionSummary>,
}

impl<'a> Row<'a> {
    fn new(run: &'a ClosedRun) -> Self {
        Self { run: name(&run.folder), attribution: run.summary.attribution.as_ref() }
    }
}

fn name(folder: &Path) -> String {
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf());
    absolute.file_name().map_or_else(|| folder.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// The warnings about a run, with its name if there are several. Without net energy, the first says why.
fn warnings(run: &ClosedRun, is_one_of_several: bool) -> Vec<Message> {
    let mut messages = Vec::new();
    let mut others: Vec<&Warning> = run.warnings.iter().collect();
    if run.summary.attribution.is_none() {
        let is_reason = |warning: &&Warning| {
            matches!(
                warning,
                Warning::NoIdle
                    | Warning::NoEnergy
                    | Warning::ZeroEnergy
                    | Warning::UnknownEnergy { .. }
                    | Warning::WithoutEnergy { .. }
            )
        };
        let reason = others.iter().position(is_reason).map(|place| others.remove(place).to_message());
        let reason = reason.unwrap_or_else(|| Message::new("the energy above idle power is unknown"));
        let text = format!("no energy was attributed to requests: {}", reason.text);
        messages.push(Message { text, hint: reason.hint });
    }
    messages.extend(others.into_iter().map(Diagnostic::to_message));
    if is_one_of_several {
        for message in &mut messages {
            message.text = format!("{}: {}", name(&run.folder), message.text);
        }
    }
    messages
}

fn as_table(rows: &[Row], screen: Screen) -> String {
    let numbers = [Align::Right; 4];
    let mut table = Table::new([&[Align::Left, Align::Left], &numbers[..]].concat());
    table.head(["run", "method", "net", "prefill", "decode", "if one at a time"]);
    for Row { run, attribution } in rows {
        let joules = |value: fn(&AttributionSummary) -> Option<f64>| {
            or_dash(attribution.and_then(value).map(|value| format!("{} J", digits(value))))
        };
        table.row(vec![
            (Tone::Plain, run.clone()),
            (Tone::Plain, or_dash(attribution.map(|found| words(&found.method).to_owned()))),
            (Tone::Plain, joules(|found| Some(found.share))),
            (Tone::Plain, joules(|found| found.prefill_j)),
            (Tone::Plain, joules(|found| found.decode_j)),
            (Tone::Faint, joules(|found| found.alone)),
        ]);
    }
    let note = "net: energy above idle power; if one at a time: net energy if each request had been the only one on the \
                server, summed over requests";
    format!("{}{}\n", table.render(screen), screen.paint(Tone::Faint, &format!("  {note}")))
}

fn as_csv(rows: &[Row]) -> String {
    let mut text = csv::line(["run", "method", "share", "low", "high", "prefill_j", "decode_j", "marginal", "alone"]);
    for Row { run, attribution } in rows {
        let figures: [fn(&AttributionSummary) -> Option<f64>; 7] = [
            |found| Some(found.share),
            |found| Some(found.low),
            |found| Some(found.high),
            |found| found.prefill_j,
            |found| found.decode_j,
            |found| found.marginal,
            |found| found.alone,
        ];
        let figures = figures.map(|figure| csv::number(attribution.and_then(figure)));
        let method = attribution.map_or_else(String::new, |found| found.method.clone());
        text.push_str(&csv::line([run.clone(), method].into_iter().chain(figures)));
    }
    text
}
