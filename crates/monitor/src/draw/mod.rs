//! Draws a picture into a buffer. Drawing has no other inputs and no state, so frames can be snapshot-tested.

mod card;
mod graph;
mod header;
mod overlay;
mod plan;
mod processes;
mod rows;
mod theme;

use ratatui::buffer::Buffer;
use ratatui::layout::{Alignment, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Widget, Wrap};

use crate::picture::Picture;
use crate::ui::{Detail, Focus, Overlay, Processes, Ui};
use theme::Tone;
pub use theme::{Colors, Signs, Theme};

/// The smallest size that is drawn.
const SMALLEST: (u16, u16) = (40, 10);

/// Where a frame is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frame {
    /// The full screen.
    Live,
    /// Text for a file or a pipe, without keys and selection.
    Once,
}

/// The inputs of drawing.
struct Scene<'a> {
    picture: &'a Picture,
    ui: &'a Ui,
    theme: Theme,
    frame: Frame,
}

impl Scene<'_> {
    fn style(&self, tone: Tone) -> Style {
        self.theme.style(tone)
    }

    fn span(&self, tone: Tone, text: impl Into<String>) -> Span<'static> {
        Span::styled(text.into(), self.theme.style(tone))
    }

    fn is_selected(&self, device: usize) -> bool {
        self.frame == Frame::Live && self.ui.focus == Focus::Devices && self.ui.device == device
    }
}

/// Draws a whole frame.
pub(crate) fn draw(buffer: &mut Buffer, picture: &Picture, ui: &Ui, theme: Theme, frame: Frame) {
    let area = *buffer.area();
    let scene = Scene { picture, ui, theme, frame };
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        too_small(buffer, area, &scene);
    } else {
        draw_frame(buffer, area, &scene);
    }
    theme.finish(buffer);
}

fn draw_frame(buffer: &mut Buffer, area: Rect, scene: &Scene<'_>) {
    header::draw(buffer, Rect { height: 1, ..area }, scene);
    let mut bottom = area.bottom();
    if scene.frame == Frame::Live {
        bottom -= 1;
        header::draw_keys(buffer, Rect { y: bottom, height: 1, ..area }, scene);
    }
    for line in header::messages(scene) {
        bottom -= 1;
        buffer.set_line(area.x + 1, bottom, &line, area.width.saturating_sub(2));
    }
    let body = Rect { y: area.y + 1, height: bottom - area.y - 1, ..area };
    if scene.picture.devices.is_empty() {
        no_sensors(buffer, body, scene);
    } else {
        devices(buffer, body, scene);
    }
    match scene.ui.overlay {
        Overlay::Nothing => {}
        Overlay::Help => overlay::help(buffer, area, scene),
        Overlay::Events => overlay::events(buffer, area, scene),
    }
}

fn devices(buffer: &mut Buffer, body: Rect, scene: &Scene<'_>) {
    let is_shown = scene.ui.processes == Processes::Shown && scene.ui.detail == Detail::All;
    let wanted = if is_shown { processes::wanted_lines(scene) } else { 0 };
    let plan = match scene.ui.detail {
        Detail::One => plan::alone(scene.ui.device, body),
        Detail::All => plan::plan(&scene.picture.devices, scene.ui.device, body, wanted),
    };
    for &(device, area) in &plan.cards {
        if let Some(view) = scene.picture.devices.get(device) {
            card::draw(buffer, area, scene, (device, view));
        }
    }
    if let Some((area, places)) = &plan.rows {
        rows::draw(buffer, *area, scene, places);
    }
    if let Some(area) = plan.processes {
        processes::draw(buffer, area, scene);
    }
}

fn too_small(buffer: &mut Buffer, area: Rect, scene: &Scene<'_>) {
    let power = header::total(scene);
    let size = format!("{}x{} is too small: at least {}x{}", area.width, area.height, SMALLEST.0, SMALLEST.1);
    let lines: Vec<Line<'_>> =
        [Some(scene.span(Tone::Strong, "Ergometer")), power, Some(scene.span(Tone::Warning, size))]
            .into_iter()
            .flatten()
            .map(Line::from)
            .collect();
    Paragraph::new(lines).wrap(Wrap { trim: true }).render(area, buffer);
}

fn no_sensors(buffer: &mut Buffer, area: Rect, scene: &Scene<'_>) {
    let lines = vec![
        Line::from(scene.span(Tone::Strong, "no sensors found")),
        Line::from(""),
        Line::from("run `ergo doctor` to see which sensors this machine could have"),
        Line::from("and the command that enables each of them"),
    ];
    let y = area.y + area.height.saturating_sub(4) / 2;
    let area = Rect { y, height: area.bottom() - y, ..area };
    Paragraph::new(lines).alignment(Alignment::Center).render(area, buffer);
}
