//! `ergo analyze`: saved runs go in; tables, `analysis/*.json` and warnings come out.
//!
//! Everything is found out before anything is written or printed, so a run that cannot be read leaves nothing behind. A
//! folder that cannot be written to costs the files, not the answer.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ergometer_analysis::AnalysisError;
use ergometer_analysis::analyses::{self, Analysis, Artifact, Findings, Options};
use ergometer_analysis::curve::Curve;
use ergometer_analysis::saved::{Run, Sweep};
use ergometer_charts::{Cell, Table as Findable};
use serde::Serialize;

use crate::arguments::{AnalyzeArguments, Format};
use crate::bridge::diagnosed;
use crate::csv;
use crate::exit::{Exit, Failure};
use crate::report::to_json;
use crate::screen::{Align, Screen, Table, Tone, print, visible};

pub(crate) fn run(arguments: &AnalyzeArguments, screen: Screen) -> Result<ExitCode, Failure> {
    let options = Options { skip_zeroes: arguments.skip_zeroes, limits: arguments.slo, seed: arguments.seed };
    let wanted = wanted(&arguments.analysis);
    let mut analysed: Vec<Analysed> = Vec::new();
    for folder in &arguments.runs {
        if !Sweep::is_in(folder) {
            analysed.push(Analysed::of(folder, &wanted, &options).map_err(|error| Failure::failed(diagnosed!(error)))?);
            continue;
        }
        let sweep = Sweep::open(folder).map_err(|error| Failure::failed(diagnosed!(error)))?;
        let runs: Vec<&PathBuf> = sweep.points.iter().flat_map(|point| &point.runs).collect();
        if runs.is_empty() {
            return Err(Failure::failed(diagnosed!(AnalysisError::NoQueries { path: folder.clone() })));
        }
        if arguments.analysis.is_empty() {
            analysed.push(Analysed::of_sweep(&sweep).map_err(|error| Failure::failed(diagnosed!(error)))?);
        }
        for run in runs {
            analysed.push(Analysed::of(run, &wanted, &options).map_err(|error| Failure::failed(diagnosed!(error)))?);
        }
    }
    if !arguments.no_save {
        analysed.iter_mut().for_each(Analysed::save);
    }
    let text = match arguments.format {
        Format::Table => analysed.iter().map(|analysed| analysed.tables(screen)).collect(),
        Format::Json => to_json(&analysed.iter().map(Analysed::report).collect::<Vec<_>>())?,
        Format::Csv => lines(&analysed),
    };
    print(&text)?;
    let is_one = analysed.len() == 1;
    for analysed in &analysed {
        analysed.tell(screen, is_one);
    }
    Ok(Exit::Done.into())
}

/// The analyses that are asked for, in their own order, each once.
fn wanted(ids: &[String]) -> Vec<&'static dyn Analysis> {
    let is_wanted = |analysis: &&&dyn Analysis| ids.is_empty() || ids.iter().any(|id| id == analysis.id());
    analyses::ALL.iter().filter(is_wanted).copied().collect()
}

/// What was found out about a run, and where it was written.
struct Analysed {
    folder: PathBuf,
    name: String,
    findings: Vec<(&'static str, Findings)>,
    saved: Vec<PathBuf>,
    /// Why a file could not be written.
    not_saved: Option<String>,
}

/// As programs read it.
#[derive(Serialize)]
struct Report<'a> {
    run: String,
    findings: Vec<Artifact<'a>>,
}

impl Analysed {
    fn of(folder: &Path, wanted: &[&dyn Analysis], options: &Options) -> Result<Self, AnalysisError> {
        let run = Run::open(folder)?;
        let findings: Vec<(&'static str, Findings)> = wanted
            .iter()
            .map(|analysis| Ok((analysis.id(), analysis.run(&run, options)?)))
            .collect::<Result<_, AnalysisError>>()?;
        Ok(Self::new(folder, run.name(), findings))
    }

    /// What the points of a sweep come to together.
    fn of_sweep(sweep: &Sweep) -> Result<Self, AnalysisError> {
        let name = sweep.folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        Ok(Self::new(&sweep.folder, name, vec![("curve", Curve::of(sweep)?.findings())]))
    }

    fn new(folder: &Path, name: String, findings: Vec<(&'static str, Findings)>) -> Self {
        Self { folder: folder.to_path_buf(), name, findings, saved: Vec::new(), not_saved: None }
    }

    /// Writes what was found out. A folder that cannot be written to costs the files, not the answer.
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

    /// Its tables under its name.
    fn tables(&self, screen: Screen) -> String {
        let tables = self.findings.iter().flat_map(|(_, findings)| &findings.tables);
        let tables = tables.filter(|table| !table.rows.is_empty()).map(|table| shown(table, screen));
        let name = screen.paint(Tone::Strong, &visible(&self.name));
        format!("{name}\n\n{}", tables.collect::<String>())
    }

    /// Says what to know, each once, and where the files are.
    fn tell(&self, screen: Screen, is_only: bool) {
        let mut told: Vec<&str> = Vec::new();
        for warning in self.findings.iter().flat_map(|(_, findings)| &findings.warnings) {
            if !told.contains(&warning.as_str()) {
                told.push(warning);
                let of_run = if is_only { String::new() } else { format!("{}: ", self.name) };
                screen.warning(&format!("{of_run}{warning}"));
            }
        }
        if let Some(why) = &self.not_saved {
            screen.warning(&format!("not saved: {why}"));
        }
        if let Some(folder) = self.saved.first().and_then(|path| path.parent()) {
            screen.note(&format!("saved {}", folder.join("*.json").display()));
        }
    }
}

/// A table as people read it.
fn shown(table: &Findable, screen: Screen) -> String {
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

/// One long table: a line for each cell, its row by what stands first in it.
fn lines(analysed: &[Analysed]) -> String {
    let mut text = csv::line(["run", "analysis", "table", "row", "column", "value", "low", "high"]);
    for analysed in analysed {
        let run = analysed.folder.display().to_string();
        for (id, findings) in &analysed.findings {
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

/// A cell with all its digits, and the ends of its interval.
fn values(cell: &Cell) -> [String; 3] {
    match cell {
        Cell::Absent => [String::new(), String::new(), String::new()],
        Cell::Number { value, .. } => [value.to_string(), String::new(), String::new()],
        Cell::Estimate { value, low, high, .. } => [value, low, high].map(ToString::to_string),
        other => [other.shown(), String::new(), String::new()],
    }
}
