//! The report: saved runs and what was found out about them go in; a page comes out.
//!
//! What matters first comes first: a verdict and the numbers, what to know about them, the run as it went, then the rest.

mod comparison;
mod configuration;
mod headline;
mod queries;

use ergometer_charts::{Block, Cell, Chart, Notice, Page, Section, Table};

use crate::AnalysisError;
use crate::analyses::{self, Findings, Options};
use crate::plots::{self, Shown};
use ergometer_runs::saved::Run;

/// What is known of one run.
struct Studied<'a> {
    run: &'a Run,
    label: &'a str,
    findings: Vec<(&'static str, Findings)>,
}

/// With more runs than this, what can only be told of each by itself is left to reports of their own.
const MOST_IN_DETAIL: usize = 4;

/// Makes the page of some runs; the first of several is what the others are compared with.
pub fn report(shown: &Shown, options: &Options) -> Result<Page, AnalysisError> {
    if let Some(run) = shown.runs.iter().find(|run| run.queries.is_empty()) {
        return Err(AnalysisError::no_queries(&run.folder));
    }
    let in_detail = shown.runs.len() <= MOST_IN_DETAIL;
    let studied: Vec<Studied> = shown
        .runs
        .iter()
        .zip(&shown.labels)
        .map(|(run, label)| {
            let wanted = analyses::ALL.iter().filter(|_| in_detail);
            let findings: Result<Vec<_>, AnalysisError> =
                wanted.map(|analysis| Ok((analysis.id(), analysis.run(run, options)?))).collect();
            Ok(Studied { run, label, findings: findings? })
        })
        .collect::<Result<_, AnalysisError>>()?;
    let mut charts = Charts::draw(shown, in_detail)?;
    let mut sections = vec![overview(&studied, shown, options)?];
    sections.push(section("notices", "What to know", notices(&studied)));
    let mut parts: [(&str, &str, &[&str], &[&str]); 6] = [
        ("under_load", "Under load", &["sweep"], &["goodput"]),
        ("as_it_went", "As it went", &["power_timeline"], &["drift"]),
        ("latencies", "Latency", &["latency_cdf"], &["percentiles"]),
        ("joules", "Energy", &["energy_per_token"], &["efficiency", "energy_per_token", "phases"]),
        ("right_answers", "Accuracy", &["accuracy_per_joule", "pareto"], &["accuracy"]),
        ("lengths", "What length costs", &["regression", "output_kde"], &["regression"]),
    ];
    // What a load does is the point of a sweep; of a run it comes after how it went and how long things took.
    if shown.sweeps.is_empty() {
        parts[..3].rotate_left(1);
    }
    for (id, title, plots, analyses) in parts {
        let mut blocks: Vec<Block> = plots.iter().flat_map(|plot| charts.take(plot)).map(chart).collect();
        blocks.extend(analyses.iter().flat_map(|analysis| tables(&studied, analysis)).map(Block::Table));
        sections.push(section(id, title, blocks));
    }
    sections.push(section("outliers", "Out of the ordinary", tables(&studied, "outliers").map(Block::Table).collect()));
    for study in studied.iter().filter(|_| in_detail) {
        let (id, title) = (suffixed("queries", study, &studied), titled("Queries", study, &studied));
        let leads = if std::ptr::eq(study.run, studied[0].run) { Leads::ToTimeline } else { Leads::Nowhere };
        sections.push(section(&id, &title, queries::blocks(study.run, leads)?));
    }
    for study in studied.iter().take(if in_detail { MOST_IN_DETAIL } else { 1 }) {
        let (id, title) = (suffixed("configuration", study, &studied), titled("Configuration", study, &studied));
        sections.push(section(&id, &title, configuration::blocks(study.run)));
    }
    let (title, subtitle) = headline::title(&studied, &shown.sweeps);
    sections.retain(|section| !section.blocks.is_empty());
    Ok(Page { title, subtitle, sections, made_by: format!("Ergometer {}", env!("CARGO_PKG_VERSION")) })
}

fn section(id: &str, title: &str, blocks: Vec<Block>) -> Section {
    Section { id: id.to_owned(), title: title.to_owned(), blocks }
}

fn chart(chart: Chart) -> Block {
    Block::Chart(Box::new(chart))
}

/// A name that is still one of its own where there are several runs.
fn suffixed(id: &str, study: &Studied, all: &[Studied]) -> String {
    let place = all.iter().position(|other| std::ptr::eq(other.run, study.run)).unwrap_or(0);
    if all.len() > 1 { format!("{id}_{}", place + 1) } else { id.to_owned() }
}

fn titled(title: &str, study: &Studied, all: &[Studied]) -> String {
    if all.len() > 1 { format!("{title}: {}", study.label) } else { title.to_owned() }
}

fn overview(studied: &[Studied], shown: &Shown, options: &Options) -> Result<Section, AnalysisError> {
    let mut blocks = Vec::new();
    if let [study] = studied {
        blocks.push(headline::verdict(study.run));
        blocks.push(Block::Figures(headline::figures(study.run)));
    } else {
        blocks.extend(comparison::blocks(shown, options)?);
        blocks.push(Block::Table(headline::side_by_side(studied)));
    }
    Ok(section("overview", "Overview", blocks))
}

/// The warnings of the runs and of what was found out, each once, with what to do about it.
fn notices(studied: &[Studied]) -> Vec<Block> {
    let mut notices: Vec<Notice> = Vec::new();
    for study in studied {
        let of_run = study.run.summary.warnings().map(|(text, remedy)| (text, remedy.unwrap_or_default()));
        // Other analyses say what they left out, which their tables say too.
        let telling = study.findings.iter().filter(|(id, _)| ["efficiency", "drift", "outliers"].contains(id));
        let found = telling.flat_map(|(_, findings)| &findings.warnings);
        let found = found.map(|warning| warning.split_once("hint:").unwrap_or((warning, "")));
        for (text, remedy) in of_run.chain(found) {
            let text = text.trim().trim_end_matches('.');
            let named = if studied.len() > 1 { format!("{}: {text}", study.label) } else { text.to_owned() };
            let notice = Notice { text: named, remedy: remedy.trim().to_owned() };
            if !notices.contains(&notice) {
                notices.push(notice);
            }
        }
    }
    if notices.is_empty() { Vec::new() } else { vec![Block::Notices(notices)] }
}

/// The tables of an analysis, of each run.
fn tables<'a>(studied: &'a [Studied], analysis: &'a str) -> impl Iterator<Item = Table> + use<'a> {
    studied.iter().flat_map(move |study| {
        let found = study.findings.iter().filter(move |(id, _)| *id == analysis);
        found.flat_map(|(_, findings)| &findings.tables).filter(|table| !table.rows.is_empty()).cloned().map(
            move |mut table| {
                if studied.len() > 1 {
                    table.title = format!("{}: {}", table.title, study.label);
                }
                if !std::ptr::eq(study.run, studied[0].run) {
                    table.rows.iter_mut().flatten().for_each(unlink);
                }
                table
            },
        )
    })
}

/// Where the number of a request leads. Numbers are those of a run, and addresses on the page those of the first run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leads {
    ToTimeline,
    Nowhere,
}

/// The number of a request as a mere number.
fn unlink(cell: &mut Cell) {
    if let Cell::Request { request } = *cell {
        *cell = Cell::Number { value: request as f64, shown: request.to_string() };
    }
}

/// The charts of each plot, until they have their place.
struct Charts(Vec<(&'static str, Vec<Chart>)>);

impl Charts {
    fn draw(shown: &Shown, in_detail: bool) -> Result<Self, AnalysisError> {
        // A timeline of each of many runs is most of a page.
        let wanted = plots::ALL.iter().filter(|plot| in_detail || plot.id() != "power_timeline");
        let charts: Result<Vec<_>, AnalysisError> = wanted.map(|plot| Ok((plot.id(), plot.draw(shown)?))).collect();
        charts.map(Self)
    }

    fn take(&mut self, plot: &str) -> Vec<Chart> {
        let found = self.0.iter_mut().find(|(id, _)| *id == plot);
        found.map(|(_, charts)| std::mem::take(charts)).unwrap_or_default()
    }
}
