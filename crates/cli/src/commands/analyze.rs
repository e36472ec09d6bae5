//! `ergo analyze`: prints analyses of saved runs and writes them to `analysis/*.json`.
//!
//! All runs are analyzed before anything is written or printed, so an unreadable run leaves nothing behind. If a folder
//! is not writable, the analyses are still printed.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ergometer_analysis::AnalysisError;
use ergometer_analysis::analyses::{self, Analysis, Artifact, Findings, Options};
use ergometer_analysis::curve::Curve;
use ergometer_charts::{Cell, Table as FindingsTable};
use ergometer_diagnostics::{Message, hint, option};
use ergometer_runs::Sweep;
use ergometer_runs::saved::{Run, SavedSweep};
use serde::Serialize;

use crate::arguments::{AnalyzeArguments, Format};
use crate::csv;
use crate::exit::{Exit, Failure};
use crate::report::to_json;
use crate::screen::{Align, Screen, Table, Tone, print, visible};

/// The analysis of `--predict`.
const PREDICTING: &str = "cost_model";

pub(crate) fn run(arguments: &AnalyzeArguments, screen: Screen) -> Result<ExitCode, Failure> {
    let requested = requested(&arguments.analysis);
    if !arguments.predict.is_empty() && !requested.iter().any(|analysis| analysis.id() == PREDICTING) {
        return Err(Failure::usage("--predict needs the analysis cost_model, which --analysis leaves out")
            .hint(hint!("add ", option("analysis").value(PREDICTING))));
    }
    let options = Options {
        skip_zeroes: arguments.skip_zeroes,
        limits: arguments.slo,
        seed: arguments.seed,
        predict: arguments.predict.clone(),
    };
    let mut analyzed: Vec<RunAnalysis> = Vec::new();
    for folder in &arguments.runs {
        if !Sweep::is_in(folder) {
            analyzed.push(RunAnalysis::from_run(folder, &requested, &options).map_err(Failure::failed)?);
            continue;
        }
        let sweep = SavedSweep::open(folder).map_err(Failure::failed)?;
        let runs: Vec<PathBuf> = sweep.sweep.points.iter().flat_map(|point| sweep.folders(point)).collect();
        if runs.is_empty() {
            return Err(Failure::failed(AnalysisError::no_queries(folder)));
        }
        if arguments.analysis.is_empty() {
            analyzed.push(RunAnalysis::from_sweep(&sweep));
        }
        for run in &runs {
            analyzed.push(RunAnalysis::from_run(run, &requested, &options).map_err(Failure::failed)?);
        }
    }
    if !arguments.no_save {
        analyzed.iter_mut().for_each(RunAnalysis::save);
    }
    let text = match arguments.format {
        Format::Table => analyzed.iter().map(|analyzed| analyzed.tables(screen)).collect(),
        Format::Json => to_json(&analyzed.iter().map(RunAnalysis::report).collect::<Vec<_>>())?,
        Format::Csv => lines(&analyzed),
    };
    print(&text)?;
    let is_one = analyzed.len() == 1;
    for analyzed in &analyzed {
        analyzed.print_warnings(screen, is_one);
    }
    Ok(Exit::Done.into())
}

/// The requested analyses, in their default order, each once.
fn requested(ids: &[String]) -> Vec<&'static dyn Analysis> {
    let is_requested = |analysis: &&&dyn Analysis| ids.is_empty() || ids.iter().any(|id| id == analysis.id());
    analyses::ALL.iter().filter(is_requested).copied().collect()
}

/// The findings of a run or sweep, and where they were written.
struct RunAnalysis {
    folder: PathBuf,
    name: String,
    findings: Vec<(&'static str, Findings)>,
    saved: Vec<PathBuf>,
    /// Why a file could not be written.
    not_saved: Option<String>,
}

/// The JSON output.
#[derive(Serialize)]
struct Report<'a> {
    run: String,
    findings: Vec<Artifact<'a>>,
}

impl RunAnalysis {
    fn from_run(folder: &Path, requested: &[&dyn Analysis], options: &Options) -> Result<Self, AnalysisError> {
        let run = Run::open(folder)?;
        let findings: Vec<(&'static str, Findings)> = requested
            .iter()
            .map(|analysis| Ok((analysis.id(), analysis.run(&run, options)?)))
            .collect::<Result<_, AnalysisError>>()?;
        Ok(Self::new(folder, run.name(), findings))
    }

    /// The curve of a sweep.
    fn from_sweep(sweep: &SavedSweep) -> Self {
        let name = sweep.folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        Self::new(&sweep.folder, name, vec![("curve", Curve::from_sweep(&sweep.sweep).findings())])
    }

    fn new(folder: &Path, name: String, findings: Vec<(&'static str, Findings)>) -> Self {
        Self { folder: folder.to_path_buf(), name, findings, saved: Vec::new(), not_saved: None }
    }

    /// Writes the findings. An error is kept for a warning.
    fn save(&mut self) {
        for (id, findings) in &self.findings {
            match findings.write(&self.folder, id) {
                Ok(path) => self.saved.push(path),
                Err(error) => self.not_saved = self.not_saved.take().or(Some(error.to_string())),
            }
        }
    }

    fn report(&self) -> Report<'_> {
        Report {
            run: self.folder.display().to_string(),
            findings: self.findings.iter().map(|(id, findings)| findings.artifact(id)).collect(),
        }
    }

    /// The tables below the name of the run.
    fn tables(&self, screen: Screen) -> String {
        let tables = self.findings.iter().flat_map(|(_, findings)| &findings.tables);
        let tables = tables.filter(|table| !table.rows.is_empty()).map(|table| formatted(table, screen));
        let name = screen.paint(Tone::Strong, &visible(&self.name));
        format!("{name}\n\n{}", tables.collect::<String>())
    }

    /// Prints each warning once with the analyses that gave it, and where the files are.
    fn print_warnings(&self, screen: Screen, is_only: bool) {
        let mut warnings: Vec<(&Message, Vec<&str>)> = Vec::new();
        let all = self.findings.iter().flat_map(|(id, findings)| findings.warnings.iter().map(move |one| (*id, one)));
        for (id, warning) in all {
            match warnings.iter_mut().find(|(known, _)| *known == warning) {
                Some((_, ids)) => ids.push(id),
                None => warnings.push((warning, vec![id])),
            }
        }
        for (warning, mut ids) in warnings {
            ids.dedup();
            let named = warning.clone().at(ids.join(", "));
            screen.warning(&if is_only { named } else { named.at(&self.name) });
        }
        if let Some(why) = &self.not_saved {
            screen.warning(&format!("the analysis was not saved: {why}"));
        }
        if let Some(folder) = self.saved.first().and_then(|path| path.parent()) {
            screen.note(&format!("saved {}", folder.join("*.json").display()));
        }
    }
}

/// Formats a table.
fn formatted(table: &FindingsTable, screen: Screen) -> String {
    let is_number = |cell: &Cell| matches!(cell, Cell::Number { .. } | Cell::Estimate { .. } | Cell::Request { .. });
    let align = |column: usize| {
        let mut cells = table.rows.iter().filter_map(|row| row.get(column));
        if cells.any(is_number) { Align::Right } else { Align::Left }
    };
    let mut rendered = Table::new((0..table.columns.len()).map(align).collect::<Vec<_>>());
    let heads = table.columns.iter().map(|column| (Tone::Faint, visible(&column.head).into_owned()));
    rendered.row(heads.collect());
    for row in &table.rows {
        rendered.row(row.iter().map(|cell| (tone(cell), visible(&cell.shown()).into_owned())).collect());
    }
    let mut text = format!("{}\n{}", visible(&table.title), rendered.render(screen));
    for note in &table.notes {
        text.push_str(&screen.paint(Tone::Faint, &format!("  {}", visible(note))));
        text.push('\n');
    }
    text.push('\n');
    text
}

fn tone(cell: &Cell) -> Tone {
    match cell {
        Cell::Verdict { tone: ergometer_charts::Tone::Good, .. } => Tone::Good,
        Cell::Verdict { tone: ergometer_charts::Tone::Warning, .. } => Tone::Warning,
        Cell::Verdict { tone: ergometer_charts::Tone::Bad, .. } => Tone::Bad,
        _ => Tone::Plain,
    }
}

/// One long table: a line for each cell, with the first cell of its row.
fn lines(analyzed: &[RunAnalysis]) -> String {
    let mut text = csv::line(["run", "analysis", "table", "row", "column", "value", "low", "high"]);
    for analyzed in analyzed {
        let run = analyzed.folder.display().to_string();
        for (id, findings) in &analyzed.findings {
            for table in &findings.tables {
                for row in &table.rows {
                    let label = row.first().map_or_else(String::new, Cell::shown);
                    for (column, cell) in table.columns.iter().zip(row).skip(1) {
                        let [value, low, high] = values(cell);
                        text += &csv::line([&run, *id, &table.id, &label, &column.name, &value, &low, &high]);
                    }
                }
            }
        }
    }
    text
}

/// The value of a cell in full precision, and the ends of its interval.
fn values(cell: &Cell) -> [String; 3] {
    match cell {
        Cell::Absent => [String::new(), String::new(), String::new()],
        Cell::Number { value, .. } => [value.to_string(), String::new(), String::new()],
        Cell::Estimate { value, low, high, .. } => [value, low, high].map(ToString::to_string),
        other => [other.shown(), String::new(), String::new()],
    }
}
