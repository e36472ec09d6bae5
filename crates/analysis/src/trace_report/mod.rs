//! The report of a trace: a trace goes in; a page comes out, on which its devices, modules, ops, kernels, gaps and executions
//! can be looked at.

mod charts;
mod tables;

use std::fmt::Write as _;

use ergometer_charts::{Block, Figure, Notice, Page, Section, Tone};
use ergometer_trace::accounting::{By, Execution, Filter, Gap, Module, PlaneSummary, Row, WorkSummary};
use ergometer_trace::accounting::{executions, gaps, modules, rows, summary};
use ergometer_trace::{Platform, Trace};
use ergometer_units::Picos;
use ergometer_units::shown::{percent, quantity, thousands};

/// In how many parts the time of a device is drawn.
const PARTS: usize = 1_000;

/// What is known of a trace beside what is in it.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// Its files.
    pub files: Vec<String>,
    /// What explains its figures.
    pub notes: Vec<String>,
    /// What was found wrong with it.
    pub warnings: Vec<String>,
}

/// Everything that is shown.
struct Account<'a> {
    trace: &'a Trace,
    planes: Vec<PlaneSummary>,
    modules: Vec<Module>,
    executions: Vec<Execution>,
    /// The kernels of GPUs, the longest first.
    kernels: Vec<Row>,
    ops: Vec<Row>,
    gaps: Vec<Gap>,
}

impl<'a> Account<'a> {
    fn of(trace: &'a Trace) -> Self {
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

    /// The devices that did something.
    fn working(&self) -> impl Iterator<Item = &WorkSummary> {
        self.planes.iter().flat_map(|plane| &plane.work)
    }

    fn name(&self, text: Option<ergometer_trace::Text>) -> String {
        text.map_or_else(|| String::from("(no name)"), |text| self.trace.text(text).to_owned())
    }
}

/// Makes the page of a trace.
#[must_use]
pub fn trace_report(trace: &Trace, told: &Told) -> Page {
    let account = Account::of(trace);
    let mut overview = vec![verdict(&account)];
    let figures = figures(&account);
    if !figures.is_empty() {
        overview.push(Block::Figures(figures));
    }
    let notice = |text: &String| {
        let (text, remedy) = text.split_once("hint:").unwrap_or((text, ""));
        Notice { text: text.trim().trim_end_matches('.').to_owned(), remedy: remedy.trim().to_owned() }
    };
    let notices: Vec<Notice> = told.warnings.iter().chain(&told.notes).map(notice).collect();
    let mut sections = vec![section("overview", "Overview", overview)];
    if !notices.is_empty() {
        sections.push(section("notices", "What to know", vec![Block::Notices(notices)]));
    }
    let chart = |chart: Option<ergometer_charts::Chart>| chart.map(|chart| Block::Chart(Box::new(chart)));
    let parts = [
        ("as_it_went", "As it went", vec![chart(charts::timeline(&account)), tables::devices(&account)]),
        ("modules", "Modules", vec![chart(charts::executions(&account)), tables::modules(&account)]),
        ("kernels", "Kernels", vec![chart(charts::top(&account, charts::Of::Kernels)), tables::kernels(&account)]),
        ("ops", "Ops", vec![chart(charts::top(&account, charts::Of::Ops)), tables::ops(&account)]),
        ("gaps", "Gaps", vec![tables::gaps(&account)]),
        ("executions", "Executions", vec![tables::executions(&account)]),
    ];
    for (id, title, blocks) in parts {
        sections.push(section(id, title, blocks.into_iter().flatten().collect()));
    }
    sections.push(section("files", "Files", vec![Block::Facts(files(trace, told))]));
    sections.retain(|section| !section.blocks.is_empty());
    let title = match &told.files[..] {
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

fn files(trace: &Trace, told: &Told) -> Vec<(String, String)> {
    let mut facts: Vec<(String, String)> = told.files.iter().map(|file| (String::from("file"), file.clone())).collect();
    facts.extend(
        trace
            .zero()
            .map(|zero| (String::from("times count from"), format!("{} ns since the epoch", zero.nanos_since_epoch()))),
    );
    facts
}

fn seconds(time: Picos) -> f64 {
    time.get() as f64 * 1e-12
}

fn shown(time: Picos) -> String {
    quantity(seconds(time), "s")
}

/// What the trace comes to, in a sentence.
fn verdict(account: &Account) -> Block {
    let busiest = account.working().max_by_key(|work| work.busy);
    let Some(work) = busiest else {
        let text = String::from("Nothing ran on a device: the trace has no op and no kernel.");
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
        let _ = write!(text, " The largest part is {}, {}.", account.name(row.label.name), percent(share));
    }
    let tone = if share.is_some_and(|share| share < 0.8) { Tone::Warning } else { Tone::Good };
    Block::Verdict { text, tone }
}

fn share(part: Picos, whole: Picos) -> Option<f64> {
    (whole > Picos::ZERO).then(|| part.get() as f64 / whole.get() as f64)
}

fn figures(account: &Account) -> Vec<Figure> {
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
        figures.push(add(format!("busy, {name}"), shown(work.busy), busy, "union of its work"));
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
            "ops, kernels and copies",
        ));
    }
    // A machine with many devices has them in the table.
    figures.truncate(12);
    figures
}
