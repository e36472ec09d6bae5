//! Turns the counts of an energy counter (of a CPU package, a rail or a GPU) into readings.
//!
//! Readings are unwrapped totals in joules, one per call, even if the counter did not move. `after` is one update
//! period before the start of the read, because the count can be that old; `at` is the end of the read. After a reset
//! the totals start from zero again, so that readers see the reset. A stuck counter gives one event and then no
//! readings until it moves, because a stuck counter does not mean zero watts.

use std::io;

use ergometer_telemetry::{Batch, Clock, Counter, CounterLimits, DeviceId, EventKind, Reading, Step};
use ergometer_units::{Joules, Seconds, Timestamp};

use crate::processor_time::ProcessorTime;
use crate::sysfs::{Attribute, is_gone};

/// An open counter.
pub(super) trait ReadCounter: Send {
    /// The current count, in the unit of its limits.
    fn read(&mut self) -> io::Result<u64>;
}

/// A counter in a file.
impl ReadCounter for Attribute {
    fn read(&mut self) -> io::Result<u64> {
        Self::read::<u64>(self)
    }
}

/// The name and device of a counter.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    /// The display name: `package 0`, `VDD_GPU`.
    pub(super) label: String,
    /// The device whose energy it counts.
    pub(super) device: DeviceId,
}

/// Whether a counter still exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    Present,
    Gone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Works,
    /// It does not move, which an event has reported.
    Stuck,
    /// The last read failed, which an event has reported.
    Fails,
}

/// A count, and the interval in which it was reached.
#[derive(Debug, Clone, Copy)]
pub(super) struct Count {
    pub(super) after: Timestamp,
    pub(super) at: Timestamp,
    pub(super) raw: u64,
}

/// Turns counts that were read elsewhere into readings.
pub(super) struct CounterTotals {
    identity: Identity,
    counter: Counter,
    /// The total at the last reset.
    start: Joules,
    state: State,
    moved: bool,
}

/// An energy counter and its source.
pub(super) struct EnergyCounter {
    totals: CounterTotals,
    update_period: Seconds,
    source: Box<dyn ReadCounter>,
}

impl EnergyCounter {
    pub(super) fn new(identity: Identity, limits: CounterLimits, source: Box<dyn ReadCounter>) -> Self {
        Self { update_period: limits.update_period, totals: CounterTotals::new(identity, limits), source }
    }

    /// Reads the counter once and adds a reading of this channel.
    pub(super) fn read(&mut self, channel: usize, clock: &Clock, batch: &mut Batch) -> Presence {
        let after = clock.now() - self.update_period;
        let count = self.source.read();
        let at = clock.now();
        match count {
            Ok(raw) => {
                self.totals.push(channel, Count { after, at, raw }, batch);
                Presence::Present
            }
            Err(error) => self.totals.fail(&error, at, batch),
        }
    }

    /// Whether the counter moved since the last call. The first count is a movement.
    pub(super) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.totals.moved)
    }

    /// Reports the counter as stuck if it had to move and did not since the last call.
    pub(super) fn judge(&mut self, has_to_move: bool, at: Timestamp, batch: &mut Batch) {
        if !self.take_moved() && has_to_move {
            self.report_stuck("the CPUs are busy", at, batch);
        }
    }

    /// Reports that the counter does not move although `reason` (`the CPUs are busy`), once until it moves again.
    pub(super) fn report_stuck(&mut self, reason: &str, at: Timestamp, batch: &mut Batch) {
        self.totals.report_stuck(reason, at, batch);
    }
}

/// A CPU counter that does not move while at least this share of all processors is busy is stuck.
const BUSY_SHARE: f64 = 0.5;

/// Watches the processors, whose energy counters must move while they are busy.
pub(super) struct BusyProcessors {
    time: Option<ProcessorTime>,
    /// How many samples lie between two checks.
    every: u32,
    samples: u32,
}

impl BusyProcessors {
    /// Checks every `every` samples. Without a source the processors never count as busy.
    pub(super) fn new(mut time: Option<ProcessorTime>, every: u32) -> Self {
        // The first call only starts the measurement.
        if time.as_mut().is_some_and(|time| time.busy_share().is_err()) {
            time = None;
        }
        Self { time, every, samples: 0 }
    }

    /// Counts a sample. At a check, returns whether the processors were busy since the last check; `None` in between.
    pub(super) fn check(&mut self) -> Option<bool> {
        self.samples += 1;
        if self.samples < self.every {
            return None;
        }
        self.samples = 0;
        let share = self.time.as_mut().and_then(|time| time.busy_share().ok().flatten());
        Some(share.is_some_and(|share| share >= BUSY_SHARE))
    }
}

impl CounterTotals {
    pub(super) fn new(identity: Identity, limits: CounterLimits) -> Self {
        Self { identity, counter: Counter::new(limits), start: Joules::ZERO, state: State::Works, moved: false }
    }

    /// Adds a reading of this channel for a count.
    pub(super) fn push(&mut self, channel: usize, count: Count, batch: &mut Batch) {
        let Count { after, at, raw } = count;
        if self.state == State::Fails {
            self.state = State::Works;
        }
        let step = self.counter.update(at, raw);
        self.report(step, at, batch);
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

    /// Reports that the counter does not move although `reason` (`the CPUs are busy`), once until it moves again.
    fn report_stuck(&mut self, reason: &str, at: Timestamp, batch: &mut Batch) {
        if self.state == State::Works {
            self.state = State::Stuck;
            let message = format!(
                "the energy counter of {} ({}) does not change although {reason}; its energy is absent until it \
                 changes",
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
        // Reported once, not twenty times a second.
        if self.state != State::Fails {
            self.state = State::Fails;
            batch.event(at, EventKind::ReadFailed, message);
        }
        Presence::Present
    }

    fn report(&self, step: Step, at: Timestamp, batch: &mut Batch) {
        let Identity { label, device } = &self.identity;
        match step {
            Step::First | Step::Advance(_) | Step::Wrapped(_) => {}
            Step::Reset => batch.event(
                at,
                EventKind::CounterReset,
                format!("the energy counter of {label} ({device}) was reset: the energy since its last reading is not counted"),
            ),
            Step::Impossible { power } => batch.event(
                at,
                EventKind::ImpossibleStep,
                format!("skipped an impossible step of the energy counter of {label} ({device}): it would mean {:.0} W", power.get()),
            ),
        }
    }
}
