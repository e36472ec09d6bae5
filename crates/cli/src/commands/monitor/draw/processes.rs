//! The processes: who uses the machine, sorted as the user likes.

use std::cmp::Ordering;

use ergometer_telemetry::processes::{Process, ProcessTable};
use ergometer_units::shown::quantity;
use ergometer_units::{Bytes, Seconds};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::super::tick::{cpu_percent, gibibytes};
use super::super::ui::{Focus, Order, Sort};
use super::theme::Tone;
use super::{Frame, Scene};
use crate::screen::visible;

/// How many lines the processes would fill, their heading included.
pub(super) fn wanted_lines(scene: &Scene<'_>) -> u16 {
    let Some(table) = &scene.picture.processes else { return 0 };
    let lines = table.processes.len().max(1) + table.notes.len().min(1) + 1;
    u16::try_from(lines).unwrap_or(u16::MAX)
}

pub(super) fn draw(buffer: &mut Buffer, area: Rect, scene: &Scene<'_>) {
    let Some(table) = &scene.picture.processes else { return };
    let has_focus = scene.frame == Frame::Live && scene.ui.focus == Focus::Processes;
    let tone = if has_focus { Tone::Chosen } else { Tone::Faint };
    let width = usize::from(area.width.saturating_sub(2));
    buffer.set_stringn(area.x + 1, area.y, heading(scene), width, scene.style(tone));
    let mut room = Rect { y: area.y + 1, height: area.height - 1, ..area };
    if let Some(note) = table.notes.first().filter(|_| room.height > 1) {
        let y = room.bottom() - 1;
        buffer.set_stringn(area.x + 1, y, visible(note), width, scene.style(Tone::Faint));
        room.height -= 1;
    }
    if table.processes.is_empty() {
        let text = "no processes are visible from here";
        if room.height > 0 {
            buffer.set_stringn(area.x + 1, room.y, text, width, scene.style(Tone::Faint));
        }
        return;
    }
    let sorted = sorted(table, scene.ui.sort, scene.ui.order);
    let most = table.processes.len().saturating_sub(usize::from(room.height));
    let first = scene.ui.process.min(most);
    for (y, process) in (room.y..room.bottom()).zip(sorted.into_iter().skip(first)) {
        buffer.set_stringn(area.x + 1, y, line(process, table, scene), width, scene.style(Tone::Plain));
    }
}

fn heading(scene: &Scene<'_>) -> String {
    let split = if scene.picture.split.is_some() { format!("{:>9} ", "~J") } else { String::new() };
    format!(
        "{:>7} {:<8} {:<3} {:>7} {:>4} {:>5} {:>7} {:>7} {split}command",
        "pid", "user", "GPU", "GPU mem", "GPU%", "CPU%", "CPU", "memory"
    )
}

fn line(process: &Process, table: &ProcessTable, scene: &Scene<'_>) -> String {
    let dash = || String::from("-");
    let percent = |value: Option<f64>| value.map_or_else(dash, |percent| format!("{percent:.0}"));
    let user = process.user.as_deref().map_or_else(dash, |user| visible(user).chars().take(8).collect());
    let mut gpus: Vec<String> = process.gpus.iter().map(|gpu| gpu.device.index.to_string()).collect();
    gpus.dedup();
    let gpus = if gpus.is_empty() { dash() } else { gpus.join(",").chars().take(5).collect() };
    let split = scene.picture.split.as_ref().map_or_else(String::new, |split| {
        let joules = split.get(&process.id).map_or_else(dash, |&joules| quantity(joules, "J"));
        format!("{joules:>9} ")
    });
    let command =
        process.command.as_deref().or(process.name.as_deref()).map_or_else(dash, |name| visible(name).into_owned());
    format!(
        "{:>7} {user:<8} {gpus:<3} {:>7} {:>4} {:>5} {:>7} {:>7} {split}{command}",
        process.id,
        gpu_memory(process).map_or_else(dash, size),
        percent(gpu_share(process)),
        percent(cpu_percent(process, table)),
        process.cpu_total.map_or_else(dash, cpu_time),
        process.memory.map_or_else(dash, size),
    )
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

/// Largest first, but process ids as they count; what is not known comes last, whatever the order.
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
    fn what_is_not_known_comes_last() {
        let processes = vec![process(1, None, Some(0.5)), process(2, Some(7), None), process(3, Some(9), Some(0.1))];
        let table = ProcessTable { since_last: Seconds::new(1.0), processes, ..ProcessTable::default() };
        let ids = |sort, order| sorted(&table, sort, order).iter().map(|process| process.id).collect::<Vec<_>>();
        assert_eq!(ids(Sort::Memory, Order::Usual), [3, 2, 1]);
        assert_eq!(ids(Sort::Memory, Order::Reversed), [2, 3, 1]);
        assert_eq!(ids(Sort::Cpu, Order::Usual), [1, 3, 2]);
        assert_eq!(ids(Sort::Pid, Order::Usual), [1, 2, 3]);
        assert_eq!(ids(Sort::GpuMemory, Order::Usual), [1, 3, 2], "none has any: the busiest first");
    }

    #[test]
    fn sizes_and_times_are_short() {
        assert_eq!([512 << 20, 18_572_000_000].map(|bytes| size(Bytes::new(bytes))), ["512 M", "17.3 G"]);
        assert_eq!([8.26, 723.0, 25_920.0].map(|time| cpu_time(Seconds::new(time))), ["8.3 s", "12:03", "7:12 h"]);
    }
}
