//! An energy counter while it is read: of a CPU package, of a rail, of a GPU.
//!
//! In go counts of a source, in whatever unit it has; out come unwrapped totals in joules, one reading per call, also
//! where the counter stood still. `after` is one update before the start of the read, the oldest the count can be, and
//! `at` its end. After a reset the totals start from zero again, so that whoever reads them sees it. A counter that is
//! called stuck gives an event and then no reading until it moves: a stuck counter is not zero watts.

use std::io;

use ergometer_units::{Joules, Seconds, Timestamp};

use super::processor_time::ProcessorTime;
use super::sysfs::{Attribute, is_gone};
use ergometer_telemetry::{Batch, Clock, Counter, CounterLimits, DeviceId, EventKind, Reading, Step};

/// An open counter.
pub(super) trait ReadCounter: Send {
    /// The count now, in the unit of its limits.
    fn read(&mut self) -> io::Result<u64>;
}

/// A count that stands in a file.
impl ReadCounter for Attribute {
    fn read(&mut self) -> io::Result<u64> {
        Self::read::<u64>(self)
    }
}

/// What a counter is, for its readings and for people.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    /// For people: `package 0`, `VDD_GPU`.
    pub(super) label: String,
    /// The device it is about.
    pub(super) device: DeviceId,
}

/// Whether a counter may be asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    There,
    Gone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Works,
    /// It stands still, and an event has said so.
    Stuck,
    /// The last read failed, and an event has said so.
    Fails,
}

/// A count, and between which times it came to be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Count {
    pub(super) after: Timestamp,
    pub(super) at: Timestamp,
    pub(super) raw: u64,
}

/// A counter whose counts somebody else reads: they go in with their times, and readings come out.
pub(super) struct Tally {
    identity: Identity,
    counter: Counter,
    /// The total at the last reset.
    start: Joules,
    state: State,
    moved: bool,
}

/// See the module.
pub(super) struct CountedEnergy {
    tally: Tally,
    update_period: Seconds,
    source: Box<dyn ReadCounter>,
}

impl CountedEnergy {
    pub(super) fn new(identity: Identity, limits: CounterLimits, source: Box<dyn ReadCounter>) -> Self {
        Self { update_period: limits.update_period, tally: Tally::new(identity, limits), source }
    }

    /// Reads it once, for the channel of this place.
    pub(super) fn read(&mut self, channel: usize, clock: &Clock, batch: &mut Batch) -> Presence {
        let after = clock.now() - self.update_period;
        let count = self.source.read();
        let at = clock.now();
        match count {
            Ok(raw) => {
                self.tally.take(channel, Count { after, at, raw }, batch);
                Presence::There
            }
            Err(error) => self.tally.fail(&error, at, batch),
        }
    }

    /// Whether it moved since the last call of this; the first count is a movement.
    pub(super) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.tally.moved)
    }

    /// At a look at [`BusyProcessors`]: says that it is stuck where it stood still since the look before and had to move.
    pub(super) fn judge(&mut self, has_to_move: bool, at: Timestamp, batch: &mut Batch) {
        if !self.take_moved() && has_to_move {
            self.call_stuck("the processors are busy", at, batch);
        }
    }

    /// Says that it stands still though `reason` (`the processors are busy`), once until it moves again.
    pub(super) fn call_stuck(&mut self, reason: &str, at: Timestamp, batch: &mut Batch) {
        self.tally.call_stuck(reason, at, batch);
    }
}

/// From this busy share of all processors on, a counter of theirs that stands still is stuck.
const BUSY_SHARE: f64 = 0.5;

/// The processors, as what says that a counter of theirs has to move.
pub(super) struct BusyProcessors {
    time: Option<ProcessorTime>,
    /// A look at every so many samples.
    every: u32,
    samples: u32,
}

impl BusyProcessors {
    /// A look at every so many samples. Without a source they are never busy.
    pub(super) fn new(mut time: Option<ProcessorTime>, every: u32) -> Self {
        // The first look only starts the measure.
        if time.as_mut().is_some_and(|time| time.busy_share().is_err()) {
            time = None;
        }
        Self { time, every, samples: 0 }
    }

    /// Counts a sample. `None` between looks; at one, whether the processors were busy since the look before.
    pub(super) fn look(&mut self) -> Option<bool> {
        self.samples += 1;
        if self.samples < self.every {
            return None;
        }
        self.samples = 0;
        let share = self.time.as_mut().and_then(|time| time.busy_share().ok().flatten());
        Some(share.is_some_and(|share| share >= BUSY_SHARE))
    }
}

impl Tally {
    pub(super) fn new(identity: Identity, limits: CounterLimits) -> Self {
        Self { identity, counter: Counter::new(limits), start: Joules::ZERO, state: State::Works, moved: false }
    }

    /// Takes a count in, for the channel of this place.
    pub(super) fn take(&mut self, channel: usize, count: Count, batch: &mut Batch) {
        let Count { after, at, raw } = count;
        if self.state == State::Fails {
            self.state = State::Works;
        }
        let step = self.counter.update(at, raw);
        self.tell(step, at, batch);
        if step == Step::Reset {
            self.start = self.counter.total();
        }
        if step != Step::Advance(Joules::ZERO) {
            self.moved = true;
            self.state = State::Works;
        }
        if self.state == State::Works && !matches!(step, Step::Impossible { .. }) {
            batch.readings.push(Reading { channel, after, at, value: (self.counter.total() - self.start).get() });
        }
    }

    /// Says that it stands still though `reason` (`the processors are busy`), once until it moves again.
    fn call_stuck(&mut self, reason: &str, at: Timestamp, batch: &mut Batch) {
        if self.state == State::Works {
            self.state = State::Stuck;
            let message = format!(
                "the energy counter of {} ({}) does not move though {reason}: its energy is absent until it does",
                self.identity.label, self.identity.device
            );
            batch.event(at, EventKind::CounterStuck, message);
        }
    }

    fn fail(&mut self, error: &io::Error, at: Timestamp, batch: &mut Batch) -> Presence {
        let message = format!("cannot read energy of {} ({}): {error}", self.identity.label, self.identity.device);
        if is_gone(error) {
            batch.event(at, EventKind::DeviceLost, message);
            return Presence::Gone;
        }
        // Said once, not twenty times a second.
        if self.state != State::Fails {
            self.state = State::Fails;
            batch.event(at, EventKind::ReadFailed, message);
        }
        Presence::There
    }

    fn tell(&self, step: Step, at: Timestamp, batch: &mut Batch) {
        let Identity { label, device } = &self.identity;
        match step {
            Step::First | Step::Advance(_) | Step::Wrapped(_) => {}
            Step::Reset => batch.event(
                at,
                EventKind::CounterReset,
                format!("the energy counter of {label} ({device}) started again: the energy since its last reading is not counted"),
            ),
            Step::Impossible { power } => batch.event(
                at,
                EventKind::ImpossibleStep,
                format!("a step of the energy counter of {label} ({device}) would mean {:.0} W and is left out", power.get()),
            ),
        }
    }
}
