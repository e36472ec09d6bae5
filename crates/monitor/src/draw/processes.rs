//! Draws the sorted list of processes.

use std::cmp::Ordering;

use ergometer_diagnostics::{CommandLine, Diagnostic};
use ergometer_sensors::processes::{Process, ProcessTable};
use ergometer_units::{Bytes, Seconds};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::theme::Tone;
use super::{Frame, Scene};
use crate::tick::{cpu_percent, gibibytes};
use crate::ui::{Focus, Order, Sort};
use ergometer_units::text::visible;

/// The width that a command needs.
const COMMAND_ROOM: usize = 18;

/// The label of energy that no listed process has: of the idle CPU, and of processes that ended or are not listed.
const REST: &str = "idle CPU, other processes";

/// One column. If there is too little room, columns of the highest rank are left out first; rank 0 stays.
struct Column {
    head: &'static str,
    width: usize,
    align: Align,
    rank: u8,
    sort: Option<Sort>,
    cell: fn(&Process, &ProcessTable, &Scene<'_>) -> Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

impl Column {
    fn padded(&self, text: &str) -> String {
        let width = self.width;
        match self.align {
            Align::Left => format!("{text:<width$} "),
            Align::Right => format!("{text:>width$} "),
        }
    }
}

/// The number of lines of the processes, including the heading.
pub(super) fn wanted_lines(scene: &Scene<'_>) -> u16 {
    let Some(table) = &scene.picture.processes else { return 0 };
    let rest = usize::from(scene.picture.split.is_some());
    let lines = table.processes.len().max(1) + table.notes.len().min(1) + rest + 1;
    u16::try_from(lines).unwrap_or(u16::MAX)
}

pub(super) fn draw(buffer: &mut Buffer, area: Rect, scene: &Scene<'_>) {
    let Some(table) = &scene.picture.processes else { return };
    let width = usize::from(area.width.saturating_sub(2));
    let columns = columns(scene, width);
    draw_heading(buffer, Rect { x: area.x + 1, height: 1, ..area }, scene, &columns);
    let mut room = Rect { y: area.y + 1, height: area.height - 1, ..area };
    if let Some(note) = table.notes.first().filter(|_| room.height > 1) {
        let y = room.bottom() - 1;
        buffer.set_stringn(area.x + 1, y, visible(&note.one_line(&CommandLine)), width, scene.style(Tone::Faint));
        room.height -= 1;
    }
    if table.processes.is_empty() {
        let text = "no processes are visible";
        if room.height > 0 {
            buffer.set_stringn(area.x + 1, room.y, text, width, scene.style(Tone::Faint));
        }
        return;
    }
    if let Some(split) = scene.picture.split.as_ref().filter(|_| room.height > 1) {
        let y = room.bottom() - 1;
        let rest = split.rest(table);
        // The label is left of the figure if there is room, else right of it.
        let joules = columns.last().map_or(0, |column| column.width);
        let left = columns.iter().map(|column| column.width + 1).sum::<usize>().saturating_sub(joules + 1);
        let text = if left > REST.len() {
            format!("{REST:>0$} {rest:>joules$}", left - 1)
        } else {
            format!("{:>left$}{rest:>joules$} {REST}", "")
        };
        buffer.set_stringn(area.x + 1, y, text, width, scene.style(Tone::Faint));
        room.height -= 1;
    }
    let sorted = sorted(table, scene.ui.sort, scene.ui.order);
    let most = table.processes.len().saturating_sub(usize::from(room.height));
    let first = scene.ui.process.min(most);
    for (y, process) in (room.y..room.bottom()).zip(sorted.into_iter().skip(first)) {
        let dash = || String::from("-");
        let cell = |column: &Column| column.padded(&(column.cell)(process, table, scene).unwrap_or_else(dash));
        let command = process.command.as_deref().or(process.name.as_deref());
        let command = command.map_or_else(dash, |name| visible(name).into_owned());
        let text = columns.iter().map(cell).collect::<String>() + &command;
        buffer.set_stringn(area.x + 1, y, text, width, scene.style(Tone::Plain));
    }
}

/// Draws the headings; the sort column is emphasized.
fn draw_heading(buffer: &mut Buffer, area: Rect, scene: &Scene<'_>, columns: &[Column]) {
    let has_focus = scene.frame == Frame::Live && scene.ui.focus == Focus::Processes;
    let tone = if has_focus { Tone::Selected } else { Tone::Faint };
    let head = |column: &Column| {
        let is_sorted = scene.frame == Frame::Live && column.sort == Some(scene.ui.sort);
        scene.span(if is_sorted { Tone::Strong } else { tone }, column.padded(column.head))
    };
    let mut spans: Vec<_> = columns.iter().map(head).collect();
    spans.push(scene.span(tone, "command"));
    buffer.set_line(area.x, area.y, &Line::from(spans), area.width.saturating_sub(2));
}

/// The columns that apply to this machine and leave room for the command.
fn columns(scene: &Scene<'_>, width: usize) -> Vec<Column> {
    use Align::{Left, Right};
    let column = |head, width, align, rank| Column { head, width, align, rank, sort: None, cell: |_, _, _| None };
    let mut columns = vec![
        Column { sort: Some(Sort::Pid), cell: |it, _, _| Some(it.id.to_string()), ..column("pid", 7, Right, 0) },
        Column {
            cell: |it, _, _| it.user.as_deref().map(|user| visible(user).chars().take(8).collect()),
            ..column("user", 8, Left, 5)
        },
    ];
    if scene.picture.has_gpus() {
        columns.extend([
            Column { cell: |it, _, _| gpus(it), ..column("GPU", 3, Left, 3) },
            Column {
                sort: Some(Sort::GpuMemory),
                cell: |it, _, _| gpu_memory(it).map(size),
                ..column("GPU mem", 7, Right, 2)
            },
            Column { sort: Some(Sort::Gpu), cell: |it, _, _| whole(gpu_share(it)), ..column("GPU%", 4, Right, 1) },
        ]);
    }
    columns.extend([
        Column {
            sort: Some(Sort::Cpu),
            cell: |it, table, _| whole(cpu_percent(it, table)),
            ..column("CPU%", 5, Right, 0)
        },
        Column { cell: |it, _, _| it.cpu_total.map(cpu_time), ..column("CPU", 7, Right, 6) },
        Column { sort: Some(Sort::Memory), cell: |it, _, _| it.memory.map(size), ..column("memory", 7, Right, 4) },
    ]);
    if scene.picture.split.is_some() {
        let cell: fn(&Process, &ProcessTable, &Scene<'_>) -> Option<String> =
            |it, _, scene| scene.picture.split.as_ref()?.share(it.id);
        columns.push(Column { cell, ..column("~J", 9, Right, 0) });
    }
    let used = |columns: &[Column]| columns.iter().map(|column| column.width + 1).sum::<usize>();
    while used(&columns) + COMMAND_ROOM > width {
        let worst = columns.iter().map(|column| column.rank).max().filter(|&rank| rank > 0);
        let Some(place) = worst.and_then(|rank| columns.iter().position(|column| column.rank == rank)) else { break };
        columns.remove(place);
    }
    columns
}

fn whole(value: Option<f64>) -> Option<String> {
    value.map(|value| format!("{value:.0}"))
}

fn gpus(process: &Process) -> Option<String> {
    let mut gpus: Vec<String> = process.gpus.iter().map(|gpu| gpu.device.index.to_string()).collect();
    gpus.dedup();
    (!gpus.is_empty()).then(|| gpus.join(",").chars().take(5).collect())
}

fn gpu_memory(process: &Process) -> Option<Bytes> {
    process.gpus.iter().filter_map(|gpu| gpu.memory).reduce(|one, other| one + other)
}

fn gpu_share(process: &Process) -> Option<f64> {
    process.gpus.iter().filter_map(|gpu| gpu.utilization_pct).reduce(|one, other| one + other)
}

/// `812 MiB`, `17.3 GiB`.
fn size(bytes: Bytes) -> String {
    let gibibytes = gibibytes(bytes.get());
    if gibibytes >= 1.0 { format!("{gibibytes:.1} G") } else { format!("{:.0} M", gibibytes * 1024.0) }
}

/// `8.3 s`, `12:03`, `7:12 h`.
fn cpu_time(time: Seconds) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds saturate at the ends")]
    let whole = time.get().max(0.0) as u64;
    match whole {
        0..60 => format!("{:.1} s", time.get()),
        60..3600 => format!("{}:{:02}", whole / 60, whole % 60),
        _ => format!("{}:{:02} h", whole / 3600, whole / 60 % 60),
    }
}

/// Sorts largest first, but process ids ascending. Unknown values come last in either order.
fn sorted(table: &ProcessTable, sort: Sort, order: Order) -> Vec<&Process> {
    let key = |process: &Process| match sort {
        Sort::GpuMemory => gpu_memory(process).map(|bytes| bytes.get() as f64),
        Sort::Gpu => gpu_share(process),
        Sort::Cpu => cpu_percent(process, table),
        Sort::Memory => process.memory.map(|bytes| bytes.get() as f64),
        Sort::Pid => Some(-f64::from(process.id)),
    };
    let mut processes: Vec<&Process> = table.processes.iter().collect();
    let busy = |process: &Process| cpu_percent(process, table).unwrap_or(0.0);
    processes.sort_by(|one, other| {
        let by_key = match (key(one), key(other)) {
            (Some(one), Some(other)) if order == Order::Usual => other.total_cmp(&one),
            (Some(one), Some(other)) => one.total_cmp(&other),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => Ordering::Equal,
        };
        by_key.then_with(|| busy(other).total_cmp(&busy(one))).then(one.id.cmp(&other.id))
    });
    processes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(id: u32, memory: Option<u64>, cpu: Option<f64>) -> Process {
        Process { id, memory: memory.map(Bytes::new), cpu: cpu.map(Seconds::new), ..Process::default() }
    }

    #[test]
    fn unknown_values_come_last() {
        let processes = vec![process(1, None, Some(0.5)), process(2, Some(7), None), process(3, Some(9), Some(0.1))];
        let table = ProcessTable { since_last: Seconds::new(1.0), processes, ..ProcessTable::default() };
        let ids = |sort, order| sorted(&table, sort, order).iter().map(|process| process.id).collect::<Vec<_>>();
        assert_eq!(ids(Sort::Memory, Order::Usual), [3, 2, 1]);
        assert_eq!(ids(Sort::Memory, Order::Reversed), [2, 3, 1]);
        assert_eq!(ids(Sort::Cpu, Order::Usual), [1, 3, 2]);
        assert_eq!(ids(Sort::Pid, Order::Usual), [1, 2, 3]);
        assert_eq!(ids(Sort::GpuMemory, Order::Usual), [1, 3, 2], "no process has a value: the busiest first");
    }

    #[test]
    fn sizes_and_times_are_short() {
        assert_eq!([512 << 20, 18_572_000_000].map(|bytes| size(Bytes::new(bytes))), ["512 M", "17.3 G"]);
        assert_eq!([8.26, 723.0, 25_920.0].map(|time| cpu_time(Seconds::new(time))), ["8.3 s", "12:03", "7:12 h"]);
    }
}
