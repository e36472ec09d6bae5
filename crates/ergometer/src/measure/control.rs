//! How a caller follows and interrupts a measurement.

use std::io;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::Duration;

/// Follows a measurement and may interrupt it. `()` does neither.
pub trait MeasureControl {
    /// Called when something happens.
    fn notice(&mut self, _notice: MeasureNotice) {}

    /// Whether to stop before the next run.
    fn is_interrupted(&self) -> bool {
        false
    }

    /// Sleeps; returns whether the sleep was interrupted.
    fn sleep(&self, length: Duration) -> bool {
        thread::sleep(length);
        false
    }

    /// Waits for the command to end.
    fn wait(&self, child: &mut Child) -> io::Result<ExitStatus> {
        child.wait()
    }
}

impl MeasureControl for () {}

/// An event in a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasureNotice {
    /// The machine settles, and then its idle power is measured.
    Idle {
        /// Before or after the command.
        phase: IdlePhase,
        /// How long it is measured.
        length: Duration,
    },
    /// The command starts.
    Starting {
        /// The number of the run, from 1.
        number: u32,
        /// The number of runs.
        repeats: u32,
    },
}

/// When idle power is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdlePhase {
    /// Before the first run of the command.
    Before,
    /// After the last run of the command.
    After,
}
