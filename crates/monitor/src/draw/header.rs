//! Draws the first line with the totals of the machine, and the last lines with messages and keys.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use ergometer_units::format::quantity;

use super::theme::Tone;
use super::{Frame, Scene};
use crate::ui::{Motion, Order, Processes};
use ergometer_units::format::digits;
use ergometer_units::text::{fitted, visible};

/// A piece of the first line. If there is too little room, pieces of the highest rank are left out first; rank 0 stays.
struct Piece {
    rank: u8,
    gap: usize,
    span: Span<'static>,
}

pub(super) fn draw(buffer: &mut Buffer, area: Rect, scene: &Scene<'_>) {
    let right = Line::from(state(scene, usize::from(area.width / 5)));
    let room = usize::from(area.width).saturating_sub(right.width() + 1);
    let host = fitted(&visible(&scene.picture.host), 24).into_owned();
    let mut pieces = vec![
        Piece { rank: 5, gap: 1, span: scene.span(Tone::Strong, "Ergometer") },
        Piece { rank: 3, gap: 2, span: scene.span(Tone::Plain, host) },
        Piece { rank: 2, gap: 2, span: scene.span(Tone::Faint, time(scene)) },
    ];
    // Power is most important, measured before modelled; energy is also shown for each device.
    pieces.extend(ranked_total(scene).into_iter().map(|(rank, span)| Piece { rank, gap: 3, span }));
    let width = |pieces: &[Piece]| pieces.iter().map(|piece| piece.gap + piece.span.width()).sum::<usize>();
    while width(&pieces) > room {
        let worst = pieces.iter().map(|piece| piece.rank).max().filter(|&rank| rank > 0);
        let Some(place) = worst.and_then(|rank| pieces.iter().rposition(|piece| piece.rank == rank)) else { break };
        pieces.remove(place);
    }
    if let Some(first) = pieces.first_mut() {
        first.gap = 1;
    }
    let left = pieces.into_iter().flat_map(|piece| [Span::raw(" ".repeat(piece.gap)), piece.span]);
    buffer.set_line(area.x, area.y, &Line::from(left.collect::<Vec<_>>()), area.width);
    let x = area.right().saturating_sub(u16::try_from(right.width()).unwrap_or(area.width));
    buffer.set_line(x.max(area.x), area.y, &right, area.width);
}

/// The elapsed time or, for a recording, its speed and position.
fn time(scene: &Scene<'_>) -> String {
    let picture = scene.picture;
    let Some(playback) = picture.playback else { return clock(picture.elapsed) };
    let speed = match playback.speed() {
        Some(speed) if (speed - 1.0).abs() > 1e-9 => format!(" ×{speed}"),
        _ => String::new(),
    };
    format!("replay{speed}  {} of {}", short_clock(picture.elapsed), short_clock(playback.length))
}

/// The total power.
pub(super) fn total(scene: &Scene<'_>) -> Option<Span<'static>> {
    ranked_total(scene).into_iter().next().map(|(_, span)| span)
}

/// The total power and energy, the most important first, each with its rank.
fn ranked_total(scene: &Scene<'_>) -> Vec<(u8, Span<'static>)> {
    let total = &scene.picture.total;
    let mut spans = Vec::new();
    let silent = match total.silent_devices {
        0 => String::new(),
        count => format!(", {count} of {} no data", total.measured_devices),
    };
    match total.measured_power_w {
        Some(watts) => {
            let tone = if silent.is_empty() { Tone::Strong } else { Tone::Warning };
            spans.push((0, scene.span(tone, format!("{} W measured{silent}", digits(watts)))));
        }
        None => spans.push((0, scene.span(Tone::Warning, format!("nothing measured{silent}")))),
    }
    // The time of counting is shown only after a reset.
    let counted = scene.picture.counted.map_or_else(String::new, |since| format!(" in {}", short_clock(since)));
    let energy_rank = if counted.is_empty() { 4 } else { 1 };
    if let Some(joules) = total.measured_energy_j {
        spans.push((energy_rank, scene.span(Tone::Plain, quantity(joules, "J") + &counted)));
    }
    if let Some(watts) = total.modelled_power_w {
        spans.push((1, scene.span(Tone::Modelled, format!("~{} W modelled", digits(watts)))));
    }
    if let (None, Some(joules), false) = (total.measured_energy_j, total.modelled_energy_j, counted.is_empty()) {
        spans.push((energy_rank, scene.span(Tone::Modelled, format!("~{}{counted}", quantity(joules, "J")))));
    }
    spans
}

fn state(scene: &Scene<'_>, name_width: usize) -> Vec<Span<'static>> {
    let mut spans = Vec::new();
    if let Some(file) = &scene.ui.recording {
        spans.push(scene.span(Tone::Bad, format!("● rec {} ", fitted(&visible(file), name_width))));
    }
    match scene.ui.motion {
        Motion::Running => {}
        Motion::Paused => spans.push(scene.span(Tone::Badge, " paused ")),
        Motion::Ended => spans.push(scene.span(Tone::Badge, " ended ")),
    }
    spans
}

/// The message, which stays until a key is pressed, and sensor events that the user has not seen.
pub(super) fn messages(scene: &Scene<'_>) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let unseen = scene.picture.events.get(scene.ui.events_seen..).unwrap_or_default();
    if let Some(event) = unseen.first() {
        let more = match unseen.len() {
            1 => String::from("e: dismiss"),
            count => format!("e: all {count}"),
        };
        let hint = if scene.frame == Frame::Live { format!("[{more}] ") } else { String::new() };
        lines.push(Line::from(vec![
            scene.span(Tone::Warning, "warning "),
            scene.span(Tone::Faint, hint),
            scene.span(Tone::Plain, visible(&event.message)),
        ]));
    }
    if scene.picture.split.is_some() && scene.ui.processes == Processes::Shown {
        lines.push(Line::from(scene.span(Tone::Faint, "~J  CPU energy split by CPU time, not measured")));
    }
    if let Some(message) = &scene.ui.message {
        lines.push(Line::from(scene.span(Tone::Strong, visible(message))));
    }
    lines
}

/// A key of the last line, with the width of its longest label, so that keys keep their places when labels change.
struct Hint {
    key: &'static str,
    what: String,
    widest: usize,
    /// If there is too little room, keys of the highest rank are left out first.
    rank: u8,
}

pub(super) fn draw_keys(buffer: &mut Buffer, area: Rect, scene: &Scene<'_>) {
    let arrow = if scene.ui.order == Order::Usual { "" } else { ", reversed" };
    let pause = if scene.ui.motion == Motion::Paused { "play" } else { "pause" };
    let record = if scene.ui.recording.is_some() { "stop" } else { "record" };
    let key = |key, what: &str, widest, rank| Hint { key, what: what.to_owned(), widest, rank };
    let mut keys = vec![
        key("q", "quit", 4, 0),
        key("?", "help", 4, 0),
        key("space", pause, 5, 1),
        key("d", "detail", 6, 1),
        key("r", record, 6, 1),
        key("+-", &short_time(scene.picture.span), 6, 2),
        key("p", "processes", 9, 3),
        key("s", "sort", 4, 3),
        key("c", "reset energy", 12, 4),
    ];
    let width = |keys: &[Hint]| keys.iter().map(|key| key.key.len() + key.widest + 3).sum::<usize>();
    // One space before the first key; none is needed after the last.
    let room = usize::from(area.width) + 1;
    while width(&keys) > room {
        let worst = keys.iter().map(|key| key.rank).max().filter(|&rank| rank > 0);
        let Some(place) = worst.and_then(|rank| keys.iter().rposition(|key| key.rank == rank)) else { break };
        keys.remove(place);
    }
    let longest = "sort: GPU memory, reversed".len();
    if let Some(sort) = keys.iter().position(|key| key.key == "s").filter(|_| width(&keys) + longest - 4 <= room) {
        keys[sort] = key("s", &format!("sort: {}{arrow}", scene.ui.sort.name()), longest, 3);
        // The label that changes its length is last.
        let sort = keys.remove(sort);
        keys.push(sort);
    }
    let mut spans = vec![Span::raw(" ")];
    for Hint { key, what, widest, .. } in keys {
        spans.extend([scene.span(Tone::Selected, key), scene.span(Tone::Faint, format!(" {what:<widest$}  "))]);
    }
    buffer.set_line(area.x, area.y, &Line::from(spans), area.width);
}

/// `0:01:39`, `2 d 3:04:05`.
fn clock(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    let time = format!("{hours}:{minutes:02}:{:02}", seconds % 60);
    if days > 0 { format!("{days} d {time}") } else { time }
}

/// `1:39`; from an hour on `1:00:00`.
fn short_clock(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 3600 { format!("{}:{:02}", seconds / 60, seconds % 60) } else { clock(time) }
}

/// `60 s`, `5 min`, `1 h`.
pub(super) fn short_time(span: Duration) -> String {
    let seconds = span.as_secs_f64();
    if seconds >= 3600.0 {
        format!("{} h", seconds / 3600.0)
    } else if seconds > 60.0 {
        format!("{} min", seconds / 60.0)
    } else {
        format!("{seconds} s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        let clocks = [0, 99, 3600, 200_000].map(|seconds| clock(Duration::from_secs(seconds)));
        assert_eq!(clocks, ["0:00:00", "0:01:39", "1:00:00", "2 d 7:33:20"]);
        let short = [3, 99, 3600].map(|seconds| short_clock(Duration::from_secs(seconds)));
        assert_eq!(short, ["0:03", "1:39", "1:00:00"]);
        let spans = [10, 60, 120, 3600].map(|seconds| short_time(Duration::from_secs(seconds)));
        assert_eq!(spans, ["10 s", "60 s", "2 min", "1 h"]);
    }
}
