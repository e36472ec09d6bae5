//! Turns samples into readings of one component's energy, the sum of its channels.
//!
//! A reading has the time at which the driver updated the counters. The power manager updates the counters of CPU, DRAM
//! and Neural Engine: at every read on older systems, every 0.4 to 2.2 s on macOS 27 (M1 Ultra, M5 Max), or every half
//! hour without a display (M5 Ultra), as measured by all-smi. The GPU's counter is updated at every read. A value that
//! was not updated is not a reading.
//!
//! If a channel is missing or invalid, the component has no reading. A decrease of one channel is a reset of the sum,
//! which then starts from zero. A sum that does not move while the CPU runs is reported and gives no readings until it
//! moves. If the driver's timestamps are missing or do not change with the value, the times of the reads are used from
//! then on.

use ergometer_diagnostics::{Message, hint};
use ergometer_telemetry::{Batch, Clock, Counter, CounterLimits, DeviceId, EventKind, Reading, Step};
use ergometer_units::{Joules, Seconds, Timestamp};

use super::sample_cache::TimedSample;
use super::samples::{Component, ComponentChannels, GROUP, nanojoules};

/// The longest usual time between two updates: 2.23 s on an M5 Max.
const LONGEST_PERIOD: Seconds = Seconds::new(2.3);
/// A CPU or DRAM counter that was not updated for this long is reported.
const STUCK_AFTER: Seconds = Seconds::new(10.0);

/// Which times the readings have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Times {
    Driver,
    Reads,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Works,
    /// A channel is missing or invalid, which an event has reported.
    Fails,
    /// The sum does not move, which an event has reported.
    Stuck,
}

/// One channel with its counter.
struct Member {
    name: String,
    counter: Counter,
}

/// One channel in one sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Count {
    nanojoules: u64,
    published_ns: Option<u64>,
}

/// The previous sample.
#[derive(Debug, Clone)]
struct PreviousSample {
    counts: Vec<Count>,
    began: Timestamp,
    ended: Timestamp,
    /// When the counts last moved or were updated.
    moved: Timestamp,
    /// The time of the last reading.
    at: Timestamp,
}

/// The interval in which a value was reached.
struct Span {
    after: Timestamp,
    at: Timestamp,
}

/// The energy of one component.
pub(super) struct Meter {
    component: Component,
    device: DeviceId,
    members: Vec<Member>,
    times: Times,
    state: State,
    last: Option<PreviousSample>,
    /// The total at the last reset.
    start: Joules,
}

impl Meter {
    pub(super) fn new(channels: ComponentChannels, device: DeviceId) -> Self {
        let limits = CounterLimits {
            unit: Joules::new(1e-9),
            range: None,
            bound: channels.component.scope().power_bound(),
            update_period: LONGEST_PERIOD,
        };
        let member = |name| Member { name, counter: Counter::new(limits) };
        Self {
            component: channels.component,
            device,
            members: channels.names.into_iter().map(member).collect(),
            times: Times::Driver,
            state: State::Works,
            last: None,
            start: Joules::ZERO,
        }
    }

    /// Adds the reading of a sample to this channel.
    pub(super) fn read(&mut self, channel: usize, timed: &TimedSample, clock: &Clock, batch: &mut Batch) {
        let (began, ended) = (clock.at(timed.began), clock.at(timed.ended));
        if self.last.as_ref().is_some_and(|last| last.ended == ended) {
            return;
        }
        let counts = match self.find(timed) {
            Ok(counts) => counts,
            Err(reason) => return self.fail(&reason, ended, batch),
        };
        if self.state == State::Fails {
            self.state = State::Works;
        }
        self.check_times(&counts, timed.sample.now_ns);
        let is_new = self.last.as_ref().is_none_or(|last| self.is_new(&counts, last));
        let moved = self.last.as_ref().filter(|_| !is_new).map_or(ended, |last| last.moved);
        if is_new {
            self.state = State::Works;
        } else if self.component.is_always_active() && ended - moved > STUCK_AFTER {
            self.report_stuck(ended, batch);
        }
        let last_at = self.last.as_ref().map_or(ended, |last| last.at);
        // With the times of the reads, an unchanged value is also a reading.
        let is_reading = is_new || (self.times == Times::Reads && self.state == State::Works);
        let at = if is_reading {
            let span = self.span(&counts, timed, (began, ended), is_new);
            let value = self.add(&counts, &span, batch);
            // A value from before the first read only sets the start.
            if let Some(value) = value.filter(|_| ended - span.at <= STUCK_AFTER) {
                batch.readings.push(Reading { channel, after: span.after, at: span.at, value: value.get() });
            }
            span.at
        } else {
            last_at
        };
        self.last = Some(PreviousSample { counts, began, ended, moved, at });
    }

    /// The count of each member. The error names the one that is missing or invalid.
    fn find(&self, timed: &TimedSample) -> Result<Vec<Count>, String> {
        let count = |member: &Member| {
            let mut channels = timed.sample.channels.iter();
            let entry = channels.find(|entry| entry.group == GROUP && entry.name == member.name);
            let entry = entry.ok_or_else(|| format!("IOReport has no `{}`", member.name))?;
            Ok(Count { nanojoules: nanojoules(entry)?, published_ns: entry.published_ns })
        };
        self.members.iter().map(count).collect()
    }

    /// Stops using the driver's timestamps if one is missing, is after the read, or does not change with its value.
    fn check_times(&mut self, counts: &[Count], now_ns: u64) {
        let are_valid =
            counts.iter().all(|count| count.published_ns.is_some_and(|published_ns| published_ns <= now_ns));
        let are_frozen = self.last.as_ref().is_some_and(|last| {
            let mut pairs = last.counts.iter().zip(counts);
            pairs.any(|(old, new)| old.published_ns == new.published_ns && old.nanojoules != new.nanojoules)
        });
        if !are_valid || are_frozen {
            self.times = Times::Reads;
        }
    }

    fn is_new(&self, counts: &[Count], last: &PreviousSample) -> bool {
        match self.times {
            Times::Driver => counts != last.counts,
            Times::Reads => counts.iter().zip(&last.counts).any(|(new, old)| new.nanojoules != old.nanojoules),
        }
    }

    /// With the driver's timestamps: from the oldest to the newest update of the members. With the times of the reads:
    /// from the last read of the old value to this read. The first value may be as old as a period.
    fn span(
        &self,
        counts: &[Count],
        timed: &TimedSample,
        (began, ended): (Timestamp, Timestamp),
        is_new: bool,
    ) -> Span {
        let now_ns = timed.sample.now_ns;
        let ages = counts.iter().filter_map(|count| now_ns.checked_sub(count.published_ns?));
        let before = |age_ns: u64| ended - Seconds::new(age_ns as f64 / 1e9);
        let (after, at) = match (self.times, ages.clone().max(), ages.min(), &self.last) {
            (Times::Driver, Some(oldest), Some(newest), _) => (before(oldest), before(newest)),
            (_, _, _, None) => (began - LONGEST_PERIOD, ended),
            (_, _, _, Some(last)) if is_new => (last.began, ended),
            _ => (ended, ended),
        };
        // The readings of a channel are ordered by time.
        let at = self.last.as_ref().map_or(at, |last| at.max(last.at));
        Span { after: after.min(at), at }
    }

    /// The total with these counts. `None` if a step is impossible.
    fn add(&mut self, counts: &[Count], span: &Span, batch: &mut Batch) -> Option<Joules> {
        let label = self.component.label();
        let (device, at) = (self.device, span.at);
        let (mut is_reset, mut is_impossible) = (false, false);
        for (member, count) in self.members.iter_mut().zip(counts) {
            match member.counter.update(at, count.nanojoules) {
                Step::First | Step::Advance(_) | Step::Wrapped(_) => {}
                Step::Reset => {
                    is_reset = true;
                    let message = format!(
                        "the energy counter `{}` of {label} ({device}) was reset: the energy since its last reading is not counted",
                        member.name
                    );
                    batch.event(at, EventKind::CounterReset, message);
                }
                Step::Impossible { power } => {
                    is_impossible = true;
                    let message = format!(
                        "skipped an impossible step of the energy counter `{}` of {label} ({device}): it would mean {:.0} W",
                        member.name,
                        power.get()
                    );
                    batch.event(at, EventKind::ImpossibleStep, message);
                }
            }
        }
        let total = self.members.iter().fold(Joules::ZERO, |total, member| total + member.counter.total());
        if is_reset {
            self.start = total;
        }
        (!is_impossible).then(|| total - self.start)
    }

    fn fail(&mut self, reason: &str, at: Timestamp, batch: &mut Batch) {
        // Reported once, not ten times a second.
        if self.state != State::Fails {
            self.state = State::Fails;
            let message = format!("cannot read energy of {} ({}): {reason}", self.component.label(), self.device);
            batch.event(at, EventKind::ReadFailed, message);
        }
    }

    fn report_stuck(&mut self, at: Timestamp, batch: &mut Batch) {
        if self.state == State::Works {
            self.state = State::Stuck;
            let text = format!(
                "macOS did not update the energy counter of {} ({}) for {:.0} s; its energy is absent until the next \
                 update",
                self.component.label(),
                self.device,
                STUCK_AFTER.get()
            );
            let hint = hint!(
                "measure longer, or connect a display: without a display, some Macs update this counter only every \
                 half hour"
            );
            let message = Message::new(text).with_hint(hint);
            batch.event(at, EventKind::CounterStuck, message);
        }
    }
}
