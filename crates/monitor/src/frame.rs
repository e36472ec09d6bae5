//! Draws one frame as plain text, once the sensors have readings or the recording was played.

use std::time::{Duration, Instant};

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;

use crate::draw::{Frame, Theme, draw};
use crate::interrupt::Interrupt;
use crate::live::{cells, initial_ui};
use crate::monitor::Monitor;
use crate::source::Source;
use crate::watcher;

/// The height of a frame.
const HEIGHT: u16 = 24;

/// How often to check whether a recording was played to its end.
const PLAYED_CHECK: Duration = Duration::from_millis(20);

impl Monitor {
    /// One frame of the full screen as text, this many characters wide. `None` if interrupted.
    ///
    /// Waits for two intervals, so that power is known; of a recording it shows the end.
    pub fn one_frame(&mut self, theme: Theme, width: u16, interrupt: &dyn Interrupt) -> Option<String> {
        self.read_power_limits();
        let ui = initial_ui(self);
        if !self.wait_for_readings(interrupt) {
            return None;
        }
        let picture = self.picture(ui.span, cells(width));
        let mut buffer = Buffer::empty(Rect::new(0, 0, width.clamp(40, 500), HEIGHT));
        draw(&mut buffer, &picture, &ui, theme, Frame::Once);
        Some(buffer_text(&buffer))
    }

    /// Waits until there are readings to show: two intervals, two lists of processes where energy is divided among
    /// them, or the end of a recording. Returns false if interrupted.
    pub(crate) fn wait_for_readings(&mut self, interrupt: &dyn Interrupt) -> bool {
        let is_machine = self.source == Source::Machine;
        let lists = if self.config.split.is_some() {
            watcher::LIST_INTERVAL * 2 + watcher::LIST_INTERVAL / 5
        } else {
            Duration::ZERO
        };
        let ready = self.started + lists.max(self.config.interval * 2);
        while if is_machine { Instant::now() < ready } else { !self.is_played() } {
            let check = if is_machine { ready } else { Instant::now() + PLAYED_CHECK };
            if interrupt.sleep_until(check.min(Instant::now() + self.config.interval)) {
                return false;
            }
            // Energy shares are computed between two lists of processes, so every list has to be seen.
            self.update(|_, _| ());
        }
        true
    }
}

/// The characters of a buffer, line by line, without trailing spaces and empty lines.
pub(crate) fn buffer_text(buffer: &Buffer) -> String {
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
