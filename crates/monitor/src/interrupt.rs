//! How a caller stops a running monitor.

use std::thread;
use std::time::Instant;

/// A request to stop, such as Ctrl-C.
pub trait Interrupt {
    /// Whether the user asked to stop.
    fn is_interrupted(&self) -> bool;

    /// Sleeps until the deadline or an interrupt. Returns whether it was interrupted.
    fn sleep_until(&self, deadline: Instant) -> bool;
}

/// Never interrupts: for callers that end the monitor by its duration or by the end of a recording.
#[derive(Debug, Clone, Copy)]
pub struct NeverInterrupted;

impl Interrupt for NeverInterrupted {
    fn is_interrupted(&self) -> bool {
        false
    }

    fn sleep_until(&self, deadline: Instant) -> bool {
        thread::sleep(deadline.saturating_duration_since(Instant::now()));
        false
    }
}
