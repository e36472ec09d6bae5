//! The first line, what the machine draws in all; and the last ones, what happened and which keys there are.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use ergometer_units::shown::quantity;

use super::super::ui::{Motion, Order, Processes};
use super::theme::Tone;
use super::{Frame, Scene};
use crate::figures::{digits, fitted};
use crate::screen::visible;

pub(super) fn draw(buffer: &mut Buffer, area: Rect, scene: &Scene<'_>) {
    let right = Line::from(state(scene, usize::from(area.width / 5)));
    let room = usize::from(area.width).saturating_sub(right.width() + 1);
    let mut left = vec![
        scene.span(Tone::Strong, " Ergometer"),
        scene.span(Tone::Plain, format!("  {}", fitted(&visible(&scene.picture.host), 24))),
        scene.span(Tone::Faint, format!("  {}", clock(scene.picture.elapsed))),
    ];
    // Power is what matters: the names before it go rather than it; the rest goes from the end.
    let totals = total(scene);
    while left.len() > 1 && left.iter().chain(totals.first()).map(Span::width).sum::<usize>() + 3 > room {
        left.pop();
    }
    for span in totals {
        if left.iter().map(Span::width).sum::<usize>() + span.width() + 3 > room {
            break;
        }
        left.push(Span::raw("   "));
        left.push(span);
    }
    buffer.set_line(area.x, area.y, &Line::from(left), area.width);
    let x = area.right().saturating_sub(u16::try_from(right.width()).unwrap_or(area.width));
    buffer.set_line(x.max(area.x), area.y, &right, area.width);
}

/// Power and energy in all, the most important first.
pub(super) fn total(scene: &Scene<'_>) -> Vec<Span<'static>> {
    let total = &scene.picture.total;
    let mut spans = Vec::new();
    match total.measured_power_w {
        Some(watts) => spans.push(scene.span(Tone::Strong, format!("{} W measured", digits(watts)))),
        None => spans.push(scene.span(Tone::Warning, "nothing measured")),
    }
    if let Some(joules) = total.measured_energy_j {
        spans.push(scene.span(Tone::Plain, quantity(joules, "J")));
    }
    if let Some(watts) = total.modelled_power_w {
        spans.push(scene.span(Tone::Modelled, format!("~{} W modelled", digits(watts))));
    }
    spans
}

fn state(scene: &Scene<'_>, name_width: usize) -> Vec<Span<'static>> {
    let mut spans = Vec::new();
    if let Some(file) = &scene.ui.recording {
        spans.push(scene.span(Tone::Bad, format!("● rec {} ", fitted(&visible(file), name_width))));
    }
    match scene.ui.motion {
        Motion::Going => {}
        Motion::Paused => spans.push(scene.span(Tone::Badge, " paused ")),
        Motion::Ended => spans.push(scene.span(Tone::Badge, " end of the recording ")),
    }
    spans
}

/// What just happened, and what happened to the sensors and was not seen yet. Both stay until a key is pressed.
pub(super) fn messages(scene: &Scene<'_>) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let unseen = scene.picture.events.get(scene.ui.events_seen..).unwrap_or_default();
    if let Some(event) = unseen.first() {
        let more = match unseen.len() {
            1 => String::from("e: seen"),
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
        lines.push(Line::from(
            scene.span(Tone::Faint, "~J  CPU energy split by CPU time: a convention, not a measurement"),
        ));
    }
    if let Some(message) = &scene.ui.message {
        lines.push(Line::from(scene.span(Tone::Strong, visible(message))));
    }
    lines
}

pub(super) fn draw_keys(buffer: &mut Buffer, area: Rect, scene: &Scene<'_>) {
    let arrow = if scene.ui.order == Order::Usual { "" } else { ", reversed" };
    let sort = format!("sort: {}{arrow}", scene.ui.sort.name());
    let pause = if scene.ui.motion == Motion::Paused { "go on" } else { "pause" };
    let record = if scene.ui.recording.is_some() { "stop recording" } else { "record" };
    let span = format!("{} shown", short_time(scene.picture.span));
    let keys = [
        ("q", "quit"),
        ("?", "help"),
        ("space", pause),
        ("d", "detail"),
        ("r", record),
        ("+-", &span),
        ("s", &sort),
        ("p", "processes"),
        ("c", "count from here"),
    ];
    let mut spans = vec![Span::raw(" ")];
    for (key, what) in keys {
        let next = [scene.span(Tone::Chosen, key), scene.span(Tone::Faint, format!(" {what}  "))];
        let width: usize = spans.iter().chain(&next).map(Span::width).sum();
        if width <= usize::from(area.width) {
            spans.extend(next);
        }
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
        let spans = [10, 60, 120, 3600].map(|seconds| short_time(Duration::from_secs(seconds)));
        assert_eq!(spans, ["10 s", "60 s", "2 min", "1 h"]);
    }
}
