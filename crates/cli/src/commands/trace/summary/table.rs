//! A summary as people read it: each device with its picture, its modules and its kernels; then the hosts; then what to know.

use std::fmt::Write as _;

use ergometer_trace::Platform;
use ergometer_trace::accounting::{Class, Module, PlaneSummary, Row, WorkSummary};

use super::super::cell::Cell;
use super::super::listing::{Column, Listing, cut, notes, width};
use super::super::open::plane_label;
use super::super::rows::ambiguous;
use super::super::spread::Spread;
use super::picture::picture;
use super::{Summary, device_name};
use crate::arguments::Format;
use crate::figures::{digits, percent, thousands, time_ps, time_unit};
use crate::screen::{Screen, Tone};

/// How many modules and kernels of each device.
const ROWS: usize = 5;

const MODULE_COLUMNS: [Column; 6] = [
    Column::name("", "module").only_table(),
    Column::figure("", "program").only_table().rank(3),
    Column::figure("", "executions").only_table(),
    Column::figure("", "busy/execution").only_table(),
    Column::figure("", "span/execution").only_table().rank(1),
    Column::figure("", "share").only_table(),
];

impl Summary<'_> {
    pub(super) fn as_table(&self, top: Option<usize>, screen: Screen) -> String {
        let mut text = String::new();
        for plane in &self.planes {
            if let Some(work) = &plane.work {
                self.device(&mut text, plane, work, top, screen);
                text.push('\n');
            }
        }
        for plane in self.planes.iter().filter(|plane| plane.work.is_none()) {
            let span =
                plane.span.map_or_else(String::new, |span| format!(" over {}", time_ps(span.length().get() as f64)));
            let line = format!(
                "{}  {} on {}{span}",
                plane_label(&self.opened.trace, plane.plane),
                counted(plane.events, "event", "events"),
                counted(plane.lines.len() as u64, "line", "lines")
            );
            let _ = writeln!(text, "  {}", screen.paint(Tone::Faint, &line));
        }
        text + &notes(&self.notes, screen)
    }

    fn device(&self, text: &mut String, plane: &PlaneSummary, work: &WorkSummary, top: Option<usize>, screen: Screen) {
        let trace = &self.opened.trace;
        let mut modules: Vec<&Module> = self.modules.iter().filter(|module| module.plane == plane.plane).collect();
        self.headline(text, plane, work, &modules, screen);
        let _ = writeln!(text, "  {}", picture(&work.timeline));
        let ambiguous = ambiguous(modules.iter().map(|module| (module.module, module.program)));
        let more = cut(&mut modules, top, Format::Table, ROWS);
        let cells = |module: &&Module| {
            vec![
                Cell::text(Some(module.module.map_or("(no module)", |module| trace.text(module)))),
                Cell::program(module.program.filter(|_| module.module.is_some_and(|name| ambiguous.contains(&name)))),
                Cell::count(module.executions),
                Cell::spread(Spread::of(&module.busy)),
                Spread::of(&module.spans).map_or(Cell::Absent, |spread| Cell::Between(spread.mean)),
                Cell::share(module.share),
            ]
        };
        let listing = Listing { columns: &MODULE_COLUMNS, rows: modules, more, cells, notes: Vec::new() };
        text.push_str(&listing.table(screen, width()));
        let mut kernels: Vec<&Row> = self.kernels.iter().filter(|row| row.plane == plane.plane).collect();
        let more = cut(&mut kernels, top, Format::Table, ROWS);
        let cells = |row: &&Row| {
            vec![
                Cell::text(row.label.name.map(|name| trace.text(name))),
                Cell::text(row.label.module.map(|module| trace.text(module))),
                Cell::Count(row.account.events),
                Cell::Time(row.account.self_time),
                Cell::share(row.share),
            ]
        };
        let is_gpu = trace.planes()[plane.plane].platform == Platform::Gpu;
        let columns = [
            Column::name("", if is_gpu { "top kernels" } else { "top ops" }).only_table(),
            Column::distinct("", "module").only_table(),
            Column::figure("", "count").only_table(),
            Column::figure("", "self").only_table(),
            Column::figure("", "share").only_table(),
        ];
        let listing = Listing { columns: &columns, rows: kernels, more, cells, notes: Vec::new() };
        text.push_str(&listing.table(screen, width()));
        for line in [classes(work), idle(work)].into_iter().flatten() {
            let _ = writeln!(text, "  {line}");
        }
    }

    /// Which device, how busy, with how much; on as many lines as the terminal needs.
    fn headline(
        &self,
        text: &mut String,
        plane: &PlaneSummary,
        work: &WorkSummary,
        modules: &[&Module],
        screen: Screen,
    ) {
        let trace = &self.opened.trace;
        let is_gpu = trace.planes()[plane.plane].platform == Platform::Gpu;
        let (span, busy) = (work.span.length().get() as f64, work.busy.get() as f64);
        let (factor, unit) = time_unit(span);
        let mut pieces = vec![plane_label(trace, plane.plane)];
        pieces.extend(device_name(trace, plane.plane));
        let share = if span > 0.0 { busy / span } else { 1.0 };
        pieces.push(format!("busy {} of {} {unit} ({})", digits(busy / factor), digits(span / factor), percent(share)));
        let computing = work.classes.iter().filter(|class| class.class != Class::Memcpy);
        let events: u64 = computing.map(|class| class.events).sum();
        let [one, many] = if is_gpu { ["kernel", "kernels"] } else { ["op", "ops"] };
        pieces.push(counted(events, one, many));
        let named: Vec<&&Module> = modules.iter().filter(|module| module.executions.is_some()).collect();
        let executions: u64 = named.iter().filter_map(|module| module.executions).sum();
        match named.as_slice() {
            [] => {}
            [only] => {
                let name = only.module.map_or("", |module| trace.text(module));
                pieces.push(format!("{} of {name}", counted(executions, "execution", "executions")));
            }
            several => pieces.push(format!(
                "{} of {} modules",
                counted(executions, "execution", "executions"),
                thousands(several.len() as f64)
            )),
        }
        let limit = width().unwrap_or(usize::MAX);
        let mut used = 0;
        for (number, piece) in pieces.iter().enumerate() {
            let length = piece.chars().count();
            let tone = if number == 0 { Tone::Strong } else { Tone::Plain };
            if number > 0 && used + 3 + length > limit {
                text.push_str("\n    ");
                used = 4;
            } else {
                let gap = if number == 0 { "  " } else { "   " };
                text.push_str(gap);
                used += gap.len();
            }
            text.push_str(&screen.paint(tone, piece));
            used += length;
        }
        text.push('\n');
    }
}

/// What else than computing there was.
fn classes(work: &WorkSummary) -> Option<String> {
    let others = work.classes.iter().filter(|class| class.class != Class::Compute);
    let told: Vec<String> = others
        .map(|class| {
            let [busy, exposed] = [class.busy, class.exposed].map(|time| time_ps(time.get() as f64));
            let count = counted(class.events, "event", "events");
            format!("{}  {count}, busy {busy}, exposed {exposed}", class.class.name())
        })
        .collect();
    (!told.is_empty()).then(|| told.join("\n  "))
}

fn idle(work: &WorkSummary) -> Option<String> {
    (work.gaps > 0).then(|| {
        let [idle, longest] = [work.idle, work.longest_gap].map(|time| time_ps(time.get() as f64));
        format!("idle  {idle} in {}, the longest {longest}", counted(work.gaps, "gap", "gaps"))
    })
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", thousands(count as f64), if count == 1 { one } else { many })
}
