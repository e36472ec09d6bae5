//! Defines what a sensor emits: readings and events, in batches.

use std::fmt;

use ergometer_diagnostics::{Diagnostic, Hint, Message};
use ergometer_units::Timestamp;
use serde::{Deserialize, Serialize};

/// One value of one channel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// The index of the channel in [`Sensor::channels`](crate::Sensor::channels).
    pub channel: usize,
    /// The earliest possible time of the value. For a counter, the start of the last read that returned the old value;
    /// equal to `at` if the source provides a timestamp.
    pub after: Timestamp,
    /// The time of the value: the source's timestamp, or else the end of the first read that returned it.
    pub at: Timestamp,
    /// The value, in the unit of the channel's [`Signal`](crate::Signal).
    pub value: f64,
}

/// An incident of a sensor, such as a counter reset or a failed read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When it was noticed, in nanoseconds since the epoch.
    pub at_ns: i64,
    /// The kind of event.
    pub kind: EventKind,
    /// The description of the event.
    pub message: String,
    /// A hint on how to fix it, in the wording of the command line. It names no option, so every front end shows it
    /// unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Event {
    /// An event with the text and the hint of a message. The hint must not name an option.
    #[must_use]
    pub fn new(at: Timestamp, kind: EventKind, message: impl Into<Message>) -> Self {
        let message = message.into();
        let names_option = message.hint.as_ref().is_some_and(Hint::names_option);
        debug_assert!(!names_option, "the hint of an event names an option: {:?}", message.hint);
        let hint = message.command_line_hint();
        Self { at_ns: at.nanos_since_epoch(), kind, message: message.text, hint }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Diagnostic for Event {
    fn hint(&self) -> Option<Hint> {
        self.hint.clone().map(Hint::text)
    }
}

/// The kinds of [`Event`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A counter decreased: its source restarted.
    CounterReset,
    /// A counter step was rejected because it implies impossible power.
    ImpossibleStep,
    /// A counter does not change although its device is busy.
    CounterStuck,
    /// A device permanently stopped responding.
    DeviceLost,
    /// A read failed; sampling continues.
    ReadFailed,
    /// Samples were overwritten before they could be read.
    SamplesLost,
    /// The wall clock was stepped.
    ClockStepped,
    /// A server's metrics could not be read; sampling continues.
    ScrapeFailed,
}

/// The result of one call of [`Sensor::sample`](crate::Sensor::sample).
#[derive(Debug, Default)]
pub struct Batch {
    /// The readings; those of one channel are sorted by time.
    pub readings: Vec<Reading>,
    /// The events.
    pub events: Vec<Event>,
}

impl Batch {
    /// Adds a reading with an exact timestamp.
    pub fn push(&mut self, channel: usize, at: Timestamp, value: f64) {
        self.readings.push(Reading { channel, after: at, at, value });
    }

    /// Adds an event.
    pub fn event(&mut self, at: Timestamp, kind: EventKind, message: impl Into<Message>) {
        self.events.push(Event::new(at, kind, message));
    }

    /// Removes all readings and events, and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.readings.clear();
        self.events.clear();
    }
}
