//! What a sensor emits: readings of its channels, and events.

use std::fmt;

use ergometer_diagnostics::{Diagnostic, Hint, Message};
use ergometer_units::Timestamp;
use serde::{Deserialize, Serialize};

/// One value of one channel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// Which of the sensor's channels, by its place in [`Sensor::channels`](crate::Sensor::channels).
    pub channel: usize,
    /// The earliest time at which the value can have come to be. For a counter, the start of the last read that still
    /// saw the old value; equal to `at` where the source gives the time itself.
    pub after: Timestamp,
    /// The time of the value: the source's own where it has one, else the end of the read that first saw it.
    pub at: Timestamp,
    /// The value, in the unit of the channel's [`Signal`](crate::Signal).
    pub value: f64,
}

/// Something that happened to a sensor and that a number can't say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When it was noticed, in nanoseconds since the epoch.
    pub at_ns: i64,
    /// What kind of thing.
    pub kind: EventKind,
    /// What happened, and where.
    pub message: String,
    /// What to do about it. It names no option, so every front end shows it unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Event {
    /// An event with the text and the hint of a message.
    #[must_use]
    pub fn new(at: Timestamp, kind: EventKind, message: impl Into<Message>) -> Self {
        let message = message.into();
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
    /// A counter went back: its source restarted.
    CounterReset,
    /// A step of a counter that no hardware could have made was refused.
    ImpossibleStep,
    /// A counter does not move though its device works.
    CounterStuck,
    /// A device stopped answering for good.
    DeviceLost,
    /// One read failed; the sensor goes on.
    ReadFailed,
    /// Samples were overwritten before they could be read.
    SamplesLost,
    /// The wall clock was stepped.
    ClockStepped,
    /// A server did not tell its metrics; the sensor goes on asking.
    ScrapeFailed,
}

/// What one call of [`Sensor::sample`](crate::Sensor::sample) brought.
#[derive(Debug, Default)]
pub struct Batch {
    /// The readings, each channel's in the order of time.
    pub readings: Vec<Reading>,
    /// The events.
    pub events: Vec<Event>,
}

impl Batch {
    /// Adds a reading whose time is known.
    pub fn push(&mut self, channel: usize, at: Timestamp, value: f64) {
        self.readings.push(Reading { channel, after: at, at, value });
    }

    /// Adds an event.
    pub fn event(&mut self, at: Timestamp, kind: EventKind, message: impl Into<Message>) {
        self.events.push(Event::new(at, kind, message));
    }

    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        self.readings.clear();
        self.events.clear();
    }
}
