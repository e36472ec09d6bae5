//! One look: sensors are read for a moment, or a recording is played to its end; one frame of plain text comes out.

use std::env;
use std::time::{Duration, Instant};

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;

use super::draw::{Frame, Theme, draw};
use super::live::{End, Live};
use super::source::Source;
use super::ui::Ui;
use super::watcher;
use crate::arguments::MonitorArguments;
use crate::exit::Failure;
use crate::screen::{Screen, print};

/// The size of a frame that goes to no terminal.
const USUAL_SIZE: (u16, u16) = (80, 24);

/// How often it is asked whether a recording was played to its end.
const ALL_PLAYED: Duration = Duration::from_millis(20);

/// When the one frame of `--once` is shown: after two intervals, since power has to have come from somewhere; where
/// energy is divided among processes, after two looks at them.
pub(super) fn one_frame_at(arguments: &MonitorArguments, started: Instant) -> Instant {
    if arguments.replay.is_some() {
        return started;
    }
    let looks =
        if arguments.split.is_some() { watcher::LOOK_EVERY * 2 + watcher::LOOK_EVERY / 5 } else { Duration::ZERO };
    started + looks.max(arguments.interval * 2)
}

/// Waits until there is power to show, or a recording was played, and prints a frame of plain text.
pub(super) fn one_frame(live: &mut Live<'_>, ui: &Ui, theme: Theme, at: Instant) -> Result<End, Failure> {
    while if live.source == Source::Machine { Instant::now() < at } else { live.sampler.running() > 0 } {
        let at = if live.source == Source::Machine { at } else { Instant::now() + ALL_PLAYED };
        if live.interrupt.sleep_until(at.min(Instant::now() + live.interval)) {
            return Ok(End::Asked);
        }
        // What it remembers from tick to tick wants to be told of each.
        let _ = live.picture(ui, USUAL_SIZE.0);
    }
    let columns = || env::var("COLUMNS").ok()?.parse().ok();
    let width = Screen::width().or_else(columns).and_then(|width| u16::try_from(width).ok()).unwrap_or(USUAL_SIZE.0);
    let picture = live.picture(ui, width);
    let mut buffer = Buffer::empty(Rect::new(0, 0, width.clamp(40, 500), USUAL_SIZE.1));
    draw(&mut buffer, &picture, ui, theme, Frame::Once);
    print(&text_of(&buffer))?;
    Ok(End::Over)
}

/// The characters of a buffer, line by line, without what is empty at the ends.
pub(super) fn text_of(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area().width).max(1);
    let line = |cells: &[Cell]| {
        let text: String = cells.iter().map(Cell::symbol).collect();
        text.trim_end().to_owned()
    };
    let mut lines: Vec<String> = buffer.content().chunks(width).map(line).collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines.join("\n") + "\n"
}
