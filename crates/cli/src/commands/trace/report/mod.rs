//! `ergo trace report`: writes the devices, modules, ops, kernels, gaps and executions of a trace to one HTML file.

mod charts;
mod tables;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use ergometer_charts::{Block, Figure, Notice, Page, Section, Tone};
use ergometer_diagnostics::Message;
use ergometer_trace::accounting::{By, Execution, Filter, Gap, Module, PlaneSummary, Row, WorkSummary};
use ergometer_trace::accounting::{executions, gaps, modules, rows, summary};
use ergometer_trace::{Platform, Trace};
use ergometer_units::Picos;
use ergometer_units::format::{percent, quantity, thousands};

use super::open::{Needs, OpenTrace, open};
use super::summary::notes;
use crate::arguments::PageArguments;
use crate::commands::report::write_page;
use crate::exit::{Exit, Failure};
use crate::phrasing::Options;
use crate::screen::Screen;

/// The number of steps in the chart of a device over time.
const PARTS: usize = 1_000;

pub(super) fn run(arguments: &PageArguments, screen: Screen) -> Result<ExitCode, Failure> {
    let opened = open(&arguments.files, Needs::Everything, screen)?;
    let path = arguments.output.clone().unwrap_or_else(|| PathBuf::from("trace_report.html"));
    write_page(&page(&opened), &path)?;
    Ok(Exit::Done.into())
}

/// The accounts that the report shows.
struct Accounts<'a> {
    trace: &'a Trace,
    planes: Vec<PlaneSummary>,
    modules: Vec<Module>,
    executions: Vec<Execution>,
    /// The kernels of GPUs, the longest first.
    kernels: Vec<Row>,
    ops: Vec<Row>,
    gaps: Vec<Gap>,
}

impl<'a> Accounts<'a> {
    fn new(trace: &'a Trace) -> Self {
        let all = Filter::default();
        let by_self = |mut found: Vec<Row>| {
            found.sort_by_key(|row| std::cmp::Reverse(row.account.self_time));
            found
        };
        let is_gpu =
            |row: &Row| trace.planes().get(row.device.plane).is_some_and(|plane| plane.platform == Platform::Gpu);
        let mut gaps = gaps(trace, &all);
        gaps.sort_by_key(|gap| std::cmp::Reverse(gap.span.length()));
        Self {
            planes: summary(trace, PARTS),
            modules: modules(trace, &all),
            executions: executions(trace, &all),
            kernels: by_self(rows(trace, By::Kernel, &all).into_iter().filter(is_gpu).collect()),
            ops: by_self(rows(trace, By::Op, &all)),
            gaps,
            trace,
        }
    }

    /// The devices with events.
    fn working(&self) -> impl Iterator<Item = &WorkSummary> {
        self.planes.iter().flat_map(|plane| &plane.work)
    }

    fn name(&self, text: Option<ergometer_trace::Text>) -> String {
        text.map_or_else(|| String::from("(no name)"), |text| self.trace.text(text).to_owned())
    }
}

fn page(opened: &OpenTrace) -> Page {
    let trace = &opened.trace;
    let account = Accounts::new(trace);
    let mut overview = vec![verdict(&account)];
    let figures = figures(&account);
    if !figures.is_empty() {
        overview.push(Block::Figures(figures));
    }
    let warning = |warning: &Message| Notice {
        text: warning.text.trim_end_matches('.').to_owned(),
        remedy: warning.hint.as_ref().map(|hint| hint.phrase(&Options)).unwrap_or_default(),
    };
    let note = |text: String| Notice { text: text.trim_end_matches('.').to_owned(), remedy: String::new() };
    let notes = notes(trace, &summary(trace, 0));
    let notices: Vec<Notice> = opened.warnings.iter().map(warning).chain(notes.into_iter().map(note)).collect();
    let files: Vec<String> = opened.files.iter().map(|file| file.display().to_string()).collect();
    let mut sections = vec![section("overview", "Overview", overview)];
    if !notices.is_empty() {
        sections.push(section("notices", "Warnings", vec![Block::Notices(notices)]));
    }
    let chart = |chart: Option<ergometer_charts::Chart>| chart.map(|chart| Block::Chart(Box::new(chart)));
    let parts = [
        ("timeline", "Timeline", vec![chart(charts::timeline(&account)), tables::devices(&account)]),
        ("modules", "Modules", vec![chart(charts::executions(&account)), tables::modules(&account)]),
        (
            "kernels",
            "Kernels",
            vec![chart(charts::top(&account, charts::BarChart::Kernels)), tables::kernels(&account)],
        ),
        ("ops", "Ops", vec![chart(charts::top(&account, charts::BarChart::Ops)), tables::ops(&account)]),
        ("gaps", "Gaps", vec![tables::gaps(&account)]),
        ("executions", "Executions", vec![tables::executions(&account)]),
    ];
    for (id, title, blocks) in parts {
        sections.push(section(id, title, blocks.into_iter().flatten().collect()));
    }
    sections.push(section("files", "Files", vec![Block::Facts(file_facts(trace, &files))]));
    sections.retain(|section| !section.blocks.is_empty());
    let title = match &files[..] {
        [file] => file.rsplit('/').next().unwrap_or(file).to_owned(),
        files => format!("{} traces", files.len()),
    };
    let devices: Vec<String> = account.working().map(|work| work.device.label(trace)).collect();
    Page {
        title, subtitle: devices.join(" · "), sections, made_by: format!("Ergometer {}", env!("CARGO_PKG_VERSION"))
    }
}

fn section(id: &str, title: &str, blocks: Vec<Block>) -> Section {
    Section { id: id.to_owned(), title: title.to_owned(), blocks }
}

fn file_facts(trace: &Trace, files: &[String]) -> Vec<(String, String)> {
    let mut facts: Vec<(String, String)> = files.iter().map(|file| (String::from("file"), file.clone())).collect();
    facts.extend(
        trace
            .zero()
            .map(|zero| (String::from("time zero"), format!("{} ns since the Unix epoch", zero.nanos_since_epoch()))),
    );
    facts
}

fn seconds(time: Picos) -> f64 {
    time.get() as f64 * 1e-12
}

fn shown(time: Picos) -> String {
    quantity(seconds(time), "s")
}

/// One sentence about the busiest device.
fn verdict(account: &Accounts) -> Block {
    let busiest = account.working().max_by_key(|work| work.busy);
    let Some(work) = busiest else {
        let text = String::from("No device has events: the trace has no ops and no kernels.");
        return Block::Verdict { text, tone: Tone::Warning };
    };
    let share = share(work.busy, work.span.length());
    let mut text = format!(
        "{} was busy {} of {}{}.",
        work.device.label(account.trace),
        shown(work.busy),
        shown(work.span.length()),
        share.map_or(String::new(), |share| format!(", {}", percent(share)))
    );
    let top = account.kernels.iter().chain(&account.ops).find(|row| row.device == work.device);
    if let Some((row, share)) = top.and_then(|row| Some((row, row.share?))) {
        let _ = write!(text, " The most self time is in {}, {}.", account.name(row.label.name), percent(share));
    }
    let tone = if share.is_some_and(|share| share < 0.8) { Tone::Warning } else { Tone::Good };
    Block::Verdict { text, tone }
}

fn share(part: Picos, whole: Picos) -> Option<f64> {
    (whole > Picos::ZERO).then(|| part.get() as f64 / whole.get() as f64)
}

fn figures(account: &Accounts) -> Vec<Figure> {
    let mut figures = Vec::new();
    for work in account.working() {
        let name = work.device.label(account.trace);
        let add = |label: String, value: String, interval: String, comment: &str| Figure {
            label,
            value,
            interval,
            comment: comment.to_owned(),
        };
        let busy = share(work.busy, work.span.length())
            .map_or_else(String::new, |share| format!("{} of the time", percent(share)));
        figures.push(add(format!("busy, {name}"), shown(work.busy), busy, "union of all events"));
        figures.push(add(
            format!("idle, {name}"),
            shown(work.idle),
            format!("longest {}", shown(work.longest_gap)),
            &format!("{} gaps", thousands(work.gaps as f64)),
        ));
        figures.push(add(
            format!("events, {name}"),
            thousands(work.events as f64),
            String::new(),
            "ops, kernels, memcpy/memset",
        ));
    }
    // A machine with many devices has them in the table.
    figures.truncate(12);
    figures
}
