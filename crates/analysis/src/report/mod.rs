//! Builds the report page of saved runs.
//!
//! The most important comes first: verdict and main figures, warnings, timeline, then the details.

mod comparison;
mod configuration;
mod headline;
mod queries;

use ergometer_charts::{Block, Cell, Chart, Notice, Page, Section, Table};

use crate::AnalysisError;
use crate::analyses::{self, Findings, Options};
use crate::plots::{self, PlotInput};
use ergometer_runs::saved::Run;

/// A run with the findings of all analyses.
struct AnalyzedRun<'a> {
    run: &'a Run,
    label: &'a str,
    findings: Vec<(&'static str, Findings)>,
}

/// With more runs than this, details of single runs are left out.
const MOST_IN_DETAIL: usize = 4;

/// Builds the report page of runs. Several runs are compared with the first.
pub fn report(input: &PlotInput, options: &Options) -> Result<Page, AnalysisError> {
    if let Some(run) = input.runs.iter().find(|run| run.queries.is_empty()) {
        return Err(AnalysisError::no_queries(&run.folder));
    }
    let in_detail = input.runs.len() <= MOST_IN_DETAIL;
    let analyzed: Vec<AnalyzedRun> = input
        .runs
        .iter()
        .zip(&input.labels)
        .map(|(run, label)| {
            let wanted = analyses::ALL.iter().filter(|_| in_detail);
            let findings: Result<Vec<_>, AnalysisError> =
                wanted.map(|analysis| Ok((analysis.id(), analysis.run(run, options)?))).collect();
            Ok(AnalyzedRun { run, label, findings: findings? })
        })
        .collect::<Result<_, AnalysisError>>()?;
    let mut charts = Charts::draw(input, in_detail)?;
    let mut sections = vec![overview(&analyzed, input, options)?];
    sections.push(section("notices", "Warnings", notices(&analyzed)));
    let mut parts: [(&str, &str, &[&str], &[&str]); 6] = [
        ("load", "Load", &["sweep"], &["goodput"]),
        ("timeline", "Timeline", &["power_timeline", "power_phases"], &["drift"]),
        ("latencies", "Latency", &["latency_cdf"], &["percentiles"]),
        ("joules", "Energy", &["energy_per_token"], &["efficiency", "energy_per_token", "phases"]),
        ("right_answers", "Accuracy", &["accuracy_per_joule", "pareto"], &["accuracy"]),
        ("lengths", "Time and energy by length", &["regression", "output_kde"], &["regression"]),
    ];
    // In the report of a sweep the load comes first; in the report of a run it comes after the timeline and the
    // latencies.
    if input.sweeps.is_empty() {
        parts[..3].rotate_left(1);
    }
    for (id, title, plots, analyses) in parts {
        let mut blocks: Vec<Block> = plots.iter().flat_map(|plot| charts.take(plot)).map(chart).collect();
        blocks.extend(analyses.iter().flat_map(|analysis| tables(&analyzed, analysis)).map(Block::Table));
        sections.push(section(id, title, blocks));
    }
    let place = sections.iter().position(|section| section.id == "right_answers").unwrap_or(sections.len());
    sections.insert(place, section("costs", "Cost model", costs(&analyzed)));
    sections.push(section("outliers", "Outliers", tables(&analyzed, "outliers").map(Block::Table).collect()));
    for one in analyzed.iter().filter(|_| in_detail) {
        let (id, title) = (suffixed("queries", one, &analyzed), titled("Queries", one, &analyzed));
        let link = if std::ptr::eq(one.run, analyzed[0].run) { RequestLink::ToTimeline } else { RequestLink::None };
        sections.push(section(&id, &title, queries::blocks(one.run, link)?));
    }
    for one in analyzed.iter().take(if in_detail { MOST_IN_DETAIL } else { 1 }) {
        let (id, title) = (suffixed("configuration", one, &analyzed), titled("Configuration", one, &analyzed));
        sections.push(section(&id, &title, configuration::blocks(one.run)));
    }
    let (title, subtitle) = headline::title(&analyzed, &input.sweeps);
    sections.retain(|section| !section.blocks.is_empty());
    Ok(Page { title, subtitle, sections, made_by: format!("Ergometer {}", env!("CARGO_PKG_VERSION")) })
}

fn section(id: &str, title: &str, blocks: Vec<Block>) -> Section {
    Section { id: id.to_owned(), title: title.to_owned(), blocks }
}

fn chart(chart: Chart) -> Block {
    Block::Chart(Box::new(chart))
}

/// An id that is unique among several runs.
fn suffixed(id: &str, one: &AnalyzedRun, all: &[AnalyzedRun]) -> String {
    let place = all.iter().position(|other| std::ptr::eq(other.run, one.run)).unwrap_or(0);
    if all.len() > 1 { format!("{id}_{}", place + 1) } else { id.to_owned() }
}

fn titled(title: &str, one: &AnalyzedRun, all: &[AnalyzedRun]) -> String {
    if all.len() > 1 { format!("{title}: {}", one.label) } else { title.to_owned() }
}

fn overview(analyzed: &[AnalyzedRun], input: &PlotInput, options: &Options) -> Result<Section, AnalysisError> {
    let mut blocks = Vec::new();
    if let [one] = analyzed {
        blocks.push(headline::verdict(one.run));
        blocks.push(Block::Figures(headline::figures(one.run)));
    } else {
        blocks.extend(comparison::blocks(input, options)?);
        blocks.push(Block::Table(headline::side_by_side(analyzed)));
    }
    Ok(section("overview", "Overview", blocks))
}

/// The warnings of the runs and their analyses, each once, with hints.
fn notices(analyzed: &[AnalyzedRun]) -> Vec<Block> {
    let mut notices: Vec<Notice> = Vec::new();
    for one in analyzed {
        let of_run = one.run.summary.warnings().map(|(text, remedy)| (text, remedy.unwrap_or_default().to_owned()));
        // The warnings of other analyses are about left-out data, which their tables mention too.
        let telling = one.findings.iter().filter(|(id, _)| ["efficiency", "drift", "outliers"].contains(id));
        let found = telling.flat_map(|(_, findings)| &findings.warnings);
        let found = found.map(|warning| (warning.text.as_str(), warning.command_line_hint().unwrap_or_default()));
        for (text, remedy) in of_run.chain(found) {
            let text = text.trim().trim_end_matches('.');
            let named = if analyzed.len() > 1 { format!("{}: {text}", one.label) } else { text.to_owned() };
            let notice = Notice { text: named, remedy: remedy.trim().to_owned() };
            // An analysis may repeat a warning of the run, without its hint.
            if !notices.iter().any(|known| known.text == notice.text) {
                notices.push(notice);
            }
        }
    }
    if notices.is_empty() { Vec::new() } else { vec![Block::Notices(notices)] }
}

/// The cost models, and what the data does not show about them.
fn costs(analyzed: &[AnalyzedRun]) -> Vec<Block> {
    let mut blocks: Vec<Block> = tables(analyzed, "cost_model").map(Block::Table).collect();
    let with_model = analyzed.iter().flat_map(|one| &one.findings);
    let with_model = with_model.filter(|(id, findings)| *id == "cost_model" && !findings.tables.is_empty());
    let mut notices: Vec<Notice> = Vec::new();
    for warning in with_model.flat_map(|(_, findings)| &findings.warnings) {
        let remedy = warning.command_line_hint().unwrap_or_default();
        let notice = Notice { text: warning.text.clone(), remedy };
        // Runs that were fitted together have the same model.
        if !notices.contains(&notice) {
            notices.push(notice);
        }
    }
    blocks.extend((!notices.is_empty()).then_some(Block::Notices(notices)));
    blocks
}

/// The tables of an analysis for every run.
fn tables<'a>(analyzed: &'a [AnalyzedRun], analysis: &'a str) -> impl Iterator<Item = Table> + use<'a> {
    analyzed.iter().flat_map(move |one| {
        let found = one.findings.iter().filter(move |(id, _)| *id == analysis);
        found.flat_map(|(_, findings)| &findings.tables).filter(|table| !table.rows.is_empty()).cloned().map(
            move |mut table| {
                if analyzed.len() > 1 {
                    table.title = format!("{}: {}", table.title, one.label);
                }
                if !std::ptr::eq(one.run, analyzed[0].run) {
                    table.rows.iter_mut().flatten().for_each(unlink);
                }
                table
            },
        )
    })
}

/// The link target of a request number. Only requests of the first run have an anchor on the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestLink {
    ToTimeline,
    None,
}

/// Replaces a link to a request by its number.
fn unlink(cell: &mut Cell) {
    if let Cell::Request { request } = *cell {
        *cell = Cell::Number { value: request as f64, shown: request.to_string() };
    }
}

/// The charts of each plot, until they are placed in a section.
struct Charts(Vec<(&'static str, Vec<Chart>)>);

impl Charts {
    fn draw(input: &PlotInput, in_detail: bool) -> Result<Self, AnalysisError> {
        // Timelines of many runs would fill most of the page.
        let wanted = plots::ALL.iter().filter(|plot| in_detail || !plot.id().starts_with("power_"));
        let charts: Result<Vec<_>, AnalysisError> = wanted.map(|plot| Ok((plot.id(), plot.draw(input)?))).collect();
        charts.map(Self)
    }

    fn take(&mut self, plot: &str) -> Vec<Chart> {
        let found = self.0.iter_mut().find(|(id, _)| *id == plot);
        found.map(|(_, charts)| std::mem::take(charts)).unwrap_or_default()
    }
}
