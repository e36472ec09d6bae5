//! Draws the panels over the picture: the keys and the sensor events.

use ergometer_diagnostics::{CommandLine, Diagnostic};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, BorderType, Clear, Paragraph, Widget, Wrap};

use super::Scene;
use super::theme::Tone;
use crate::keys::HELP;
use ergometer_units::text::visible;

pub(super) fn help(buffer: &mut Buffer, area: Rect, scene: &Scene<'_>) {
    let mut lines: Vec<Line<'_>> = HELP
        .iter()
        .map(|(keys, what)| {
            Line::from(vec![scene.span(Tone::Selected, format!(" {keys:<20}")), scene.span(Tone::Plain, *what)])
        })
        .collect();
    lines.push(Line::from(""));
    lines.push(Line::from(
        scene.span(Tone::Faint, " ~ modelled, not measured; energies are provisional until you quit"),
    ));
    lines.push(Line::from(scene.span(Tone::Faint, " sampled, averaged, counter: how the sensor measures power")));
    popup(buffer, area, scene, (" keys ", Text::from(lines)));
}

pub(super) fn events(buffer: &mut Buffer, area: Rect, scene: &Scene<'_>) {
    let events = &scene.picture.events;
    let room = usize::from(area.height.saturating_sub(4)).max(1);
    let mut lines: Vec<Line<'_>> = Vec::new();
    if events.is_empty() {
        lines.push(Line::from(" no sensor events"));
    }
    // The newest that fit; all are printed at the end.
    for event in events.iter().skip(events.len().saturating_sub(room)) {
        let ago_s = (scene.picture.now.at.nanos_since_epoch() - event.at_ns) as f64 / 1e9;
        lines.push(Line::from(vec![
            scene.span(Tone::Faint, format!(" {:>6.0} s ago  ", ago_s.max(0.0))),
            scene.span(Tone::Plain, visible(&event.one_line(&CommandLine))),
        ]));
    }
    popup(buffer, area, scene, (" sensor events ", Text::from(lines)));
}

fn popup(buffer: &mut Buffer, area: Rect, scene: &Scene<'_>, (title, text): (&str, Text<'_>)) {
    let width = u16::try_from(text.width() + 4).unwrap_or(u16::MAX).clamp(40, 120).min(area.width);
    let inner = usize::from(width.saturating_sub(2)).max(1);
    let lines: usize = text.lines.iter().map(|line| line.width().div_ceil(inner).max(1)).sum();
    let height = u16::try_from(lines + 2).unwrap_or(u16::MAX).min(area.height);
    let (x, y) = (area.x + (area.width - width) / 2, area.y + (area.height - height) / 2);
    let place = Rect { x, y, width, height };
    Clear.render(place, buffer);
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(scene.style(Tone::Selected))
        .title_top(Line::from(scene.span(Tone::Strong, title)))
        .title_bottom(Line::from(scene.span(Tone::Faint, " Esc: close ")));
    Paragraph::new(text).wrap(Wrap { trim: false }).block(block).render(place, buffer);
}
