//! An interval of wall time, such as a request, a step or a phase.

use std::fmt;

use crate::{Seconds, Timestamp};

/// A half-open interval of time, `start..end`. The end is never before the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Window {
    start: Timestamp,
    end: Timestamp,
}

/// The error for a window that ends before it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReversedWindow {
    /// The start.
    pub start: Timestamp,
    /// The end, earlier than `start`.
    pub end: Timestamp,
}

impl Window {
    /// Creates a window from its two ends. They may be equal.
    pub fn new(start: Timestamp, end: Timestamp) -> Result<Self, ReversedWindow> {
        if end < start { Err(ReversedWindow { start, end }) } else { Ok(Self { start, end }) }
    }

    /// Creates a window from the earlier to the later of two times.
    #[must_use]
    pub fn between(one: Timestamp, other: Timestamp) -> Self {
        Self { start: one.min(other), end: one.max(other) }
    }

    /// The start.
    #[must_use]
    pub const fn start(self) -> Timestamp {
        self.start
    }

    /// The end.
    #[must_use]
    pub const fn end(self) -> Timestamp {
        self.end
    }

    /// The duration.
    #[must_use]
    pub fn length(self) -> Seconds {
        self.end - self.start
    }

    /// Whether the window contains `at`. It includes its start but not its end.
    #[must_use]
    pub fn contains(self, at: Timestamp) -> bool {
        self.start <= at && at < self.end
    }
}

impl fmt::Display for ReversedWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the window ends before it starts: {} us is before {} us",
            self.end.micros_since_epoch(),
            self.start.micros_since_epoch()
        )
    }
}

impl std::error::Error for ReversedWindow {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reversed_window_is_an_error() {
        let (a, b) = (Timestamp::from_nanos_since_epoch(1000), Timestamp::from_nanos_since_epoch(2000));
        assert_eq!(Window::new(a, b).map(|window| window.length().as_nanos()), Ok(1000));
        assert_eq!(Window::new(b, a), Err(ReversedWindow { start: b, end: a }));
        let window = Window::new(a, b).unwrap();
        assert_eq!((Window::between(a, b), Window::between(b, a)), (window, window));
        assert!(window.contains(a) && !window.contains(b));
    }
}
