//! The summary as text: each device with its activity bar, modules and kernels; then hosts; then notes.

use std::borrow::Cow;
use std::fmt::Write as _;

use ergometer_trace::Platform;
use ergometer_trace::accounting::{Class, Module, Row, WorkSummary};

use super::super::cell::Cell;
use super::super::listing::{Column, Listing, cut, notes, width};
use super::super::open::{device_label, plane_label};
use super::super::rows::is_ambiguous;
use super::super::spread::Spread;
use super::picture::picture;
use super::{ROWS, Runs, Summary, device_name};
use crate::figures::{digits, percent, thousands, time_ps, time_unit};
use crate::screen::{Screen, Tone, visible};

const MODULE_COLUMNS: [Column; 6] = [
    Column::name("", "module").only_table(),
    Column::figure("", "program").only_table().rank(3),
    Column::figure("", "executions").only_table(),
    Column::figure("", "busy/execution").only_table(),
    Column::figure("", "span/execution").only_table().rank(1),
    Column::figure("", "share").only_table(),
];

impl Summary<'_> {
    pub(super) fn as_table(&self, screen: Screen) -> String {
        let mut text = String::new();
        for plane in &self.planes {
            for work in &plane.work {
                self.device(&mut text, work, screen);
                text.push('\n');
            }
        }
        for plane in self.planes.iter().filter(|plane| plane.work.is_empty()) {
            let span =
                plane.span.map_or_else(String::new, |span| format!(" over {}", time_ps(span.length().get() as f64)));
            let line = format!(
                "{}  {} on {}{span}",
                plane_label(&self.opened.trace, plane.plane),
                counted(plane.events, "event", "events"),
                counted(plane.lines.len() as u64, "line", "lines")
            );
            let _ = writeln!(text, "  {}", screen.paint(Tone::Faint, &visible(&line)));
        }
        text + &notes(&self.notes, screen)
    }

    fn device(&self, text: &mut String, work: &WorkSummary, screen: Screen) {
        let trace = &self.opened.trace;
        let top = self.top.unwrap_or(ROWS);
        let mut modules: Vec<&Module> = self.modules.iter().filter(|module| module.device == work.device).collect();
        self.headline(text, work, screen);
        let _ = writeln!(text, "  {}", picture(&work.timeline));
        let is_ambiguous = is_ambiguous(modules.iter().map(|module| (module.module, module.program)));
        let more = cut(&mut modules, top);
        let cells = |module: &&Module| {
            vec![
                Cell::text(Some(module.module.map_or("(no module)", |module| trace.text(module)))),
                Cell::program(module.program.filter(|_| is_ambiguous)),
                Cell::count(module.executions),
                Cell::spread(Spread::from_times(&module.busy)),
                Spread::from_times(&module.spans).map_or(Cell::Absent, |spread| Cell::Between(spread.mean)),
                Cell::share(module.share),
            ]
        };
        let listing = Listing { columns: &MODULE_COLUMNS, rows: modules, more, cells, notes: Vec::new() };
        text.push_str(&listing.table(screen, width()));
        let mut kernels: Vec<&Row> = self.kernels.iter().filter(|row| row.device == work.device).collect();
        let more = cut(&mut kernels, top);
        let cells = |row: &&Row| {
            vec![
                Cell::text(row.label.name.map(|name| trace.text(name))),
                Cell::text(row.label.module.map(|module| trace.text(module))),
                Cell::Count(row.account.events),
                Cell::Time(row.account.self_time),
                Cell::share(row.share),
            ]
        };
        let is_gpu = trace.planes()[work.device.plane].platform == Platform::Gpu;
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

    /// The heading of a device: name, busy time and counts, wrapped at the width of the terminal.
    fn headline(&self, text: &mut String, work: &WorkSummary, screen: Screen) {
        let trace = &self.opened.trace;
        let is_gpu = trace.planes()[work.device.plane].platform == Platform::Gpu;
        let (span, busy) = (work.span.length().get() as f64, work.busy.get() as f64);
        let (factor, unit) = time_unit(span);
        let mut pieces = vec![device_label(trace, work.device)];
        pieces.extend(device_name(trace, work.device.plane));
        pieces.push(if span > 0.0 {
            format!("busy {} of {} {unit} ({})", digits(busy / factor), digits(span / factor), percent(busy / span))
        } else {
            String::from("busy 0 ps")
        });
        let computing = work.classes.iter().filter(|class| class.class != Class::Memcpy);
        let events: u64 = computing.map(|class| class.events).sum();
        let [one, many] = if is_gpu { ["kernel", "kernels"] } else { ["op", "ops"] };
        pieces.push(counted(events, one, many));
        let none = Runs::default();
        let Runs { modules, executions } = self.runs.get(&work.device).unwrap_or(&none);
        let executions = *executions;
        match modules.as_slice() {
            [] => {}
            [only] => {
                let name = only.map_or("", |module| trace.text(module));
                pieces.push(format!("{} of {name}", counted(executions, "execution", "executions")));
            }
            several => pieces.push(format!(
                "{} of {} modules",
                counted(executions, "execution", "executions"),
                thousands(several.len() as f64)
            )),
        }
        let pieces: Vec<Cow<'_, str>> = pieces.iter().map(|piece| visible(piece)).collect();
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

/// The time of classes other than compute.
fn classes(work: &WorkSummary) -> Option<String> {
    let others = work.classes.iter().filter(|class| class.class != Class::Compute);
    let lines: Vec<String> = others
        .map(|class| {
            let [busy, exposed] = [class.busy, class.exposed].map(|time| time_ps(time.get() as f64));
            let count = counted(class.events, "event", "events");
            let times = format!("{}  {count}, busy {busy},", class.class.label());
            let alone = format!("{exposed} of it while nothing was computed");
            let is_too_wide = width().is_some_and(|limit| times.len() + alone.len() + 3 > limit);
            format!("{times}{}{alone}", if is_too_wide { "\n    " } else { " " })
        })
        .collect();
    (!lines.is_empty()).then(|| lines.join("\n  "))
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
