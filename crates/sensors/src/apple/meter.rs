//! The energy of one part of the chip while it is read: the sum of its channels, each with a counter of its own.
//!
//! In go samples; out come totals in joules at the times the driver wrote them. The counters of CPU, DRAM and Neural
//! Engine are written by the power manager in its own time: with every read on older systems, on macOS 27 every 0.4 to
//! 2.2 s (M1 Ultra, M5 Max) or, without a display, every half hour (M5 Ultra); all-smi measured all three. The GPU's
//! is written whenever it is read. So what counts is the driver's time: a value it has not written again is no reading.
//!
//! What always holds: a part of which one channel is missing or senseless has no reading; a step back of one channel
//! is a reset of the sum, which then starts from zero; a sum that stands though the CPU runs is told and gives nothing
//! until it moves. Where the driver's times are missing or do not move with the value, the times of the reads are taken
//! instead, for good.

use ergometer_units::{Joules, Seconds, Timestamp};

use super::samples::{Choice, GROUP, Part, nanojoules};
use super::shared::Taken;
use ergometer_telemetry::{Batch, Clock, Counter, CounterLimits, DeviceId, EventKind, Reading, Step};

/// The longest time between two writes that is usual: 2.23 s on an M5 Max.
const LONGEST_PERIOD: Seconds = Seconds::new(2.3);
/// A counter of CPU or DRAM that was not written for so long is told.
const STUCK_AFTER: Seconds = Seconds::new(10.0);

/// Whose times the readings have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Times {
    Driver,
    Reads,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Works,
    /// A channel is missing or senseless, and an event has said so.
    Fails,
    /// It stands still, and an event has said so.
    Stuck,
}

/// One channel.
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

/// The sample before.
#[derive(Debug, Clone)]
struct Last {
    counts: Vec<Count>,
    began: Timestamp,
    ended: Timestamp,
    /// When the counts last moved or were written anew, as far as was seen.
    moved: Timestamp,
    /// The time of the last reading.
    at: Timestamp,
}

/// When a value came to be.
struct Span {
    after: Timestamp,
    at: Timestamp,
}

/// See the module.
pub(super) struct Meter {
    part: Part,
    device: DeviceId,
    members: Vec<Member>,
    times: Times,
    state: State,
    last: Option<Last>,
    /// The total at the last reset.
    start: Joules,
}

impl Meter {
    pub(super) fn new(choice: Choice, device: DeviceId) -> Self {
        let limits = CounterLimits {
            unit: Joules::new(1e-9),
            range: None,
            bound: choice.part.scope().power_bound(),
            update_period: LONGEST_PERIOD,
        };
        let member = |name| Member { name, counter: Counter::new(limits) };
        Self {
            part: choice.part,
            device,
            members: choice.names.into_iter().map(member).collect(),
            times: Times::Driver,
            state: State::Works,
            last: None,
            start: Joules::ZERO,
        }
    }

    /// Takes what a sample says, for the channel of this place.
    pub(super) fn read(&mut self, channel: usize, taken: &Taken, clock: &Clock, batch: &mut Batch) {
        let (began, ended) = (clock.at(taken.began), clock.at(taken.ended));
        if self.last.as_ref().is_some_and(|last| last.ended == ended) {
            return;
        }
        let counts = match self.find(taken) {
            Ok(counts) => counts,
            Err(reason) => return self.fail(&reason, ended, batch),
        };
        if self.state == State::Fails {
            self.state = State::Works;
        }
        self.check_times(&counts, taken.sample.now_ns);
        let is_new = self.last.as_ref().is_none_or(|last| self.is_new(&counts, last));
        let moved = self.last.as_ref().filter(|_| !is_new).map_or(ended, |last| last.moved);
        if is_new {
            self.state = State::Works;
        } else if self.part.never_rests() && ended - moved > STUCK_AFTER {
            self.call_stuck(ended, batch);
        }
        let last_at = self.last.as_ref().map_or(ended, |last| last.at);
        // By the times of reads, the same value again says that the counter was read.
        let is_reading = is_new || (self.times == Times::Reads && self.state == State::Works);
        let at = if is_reading {
            let span = self.span(&counts, taken, (began, ended), is_new);
            let value = self.add(&counts, &span, batch);
            // What was written before anybody looked is where the counter starts, not a reading of this run.
            if let Some(value) = value.filter(|_| ended - span.at <= STUCK_AFTER) {
                batch.readings.push(Reading { channel, after: span.after, at: span.at, value: value.get() });
            }
            span.at
        } else {
            last_at
        };
        self.last = Some(Last { counts, began, ended, moved, at });
    }

    /// The count of each member; the error says which is missing or senseless.
    fn find(&self, taken: &Taken) -> Result<Vec<Count>, String> {
        let count = |member: &Member| {
            let mut channels = taken.sample.channels.iter();
            let entry = channels.find(|entry| entry.group == GROUP && entry.name == member.name);
            let entry = entry.ok_or_else(|| format!("IOReport tells no `{}`", member.name))?;
            Ok(Count { nanojoules: nanojoules(entry)?, published_ns: entry.published_ns })
        };
        self.members.iter().map(count).collect()
    }

    /// Gives up the driver's times where one is missing, lies ahead of the read, or stands while its value moves.
    fn check_times(&mut self, counts: &[Count], now_ns: u64) {
        let told = counts.iter().all(|count| count.published_ns.is_some_and(|published_ns| published_ns <= now_ns));
        let frozen = self.last.as_ref().is_some_and(|last| {
            let mut pairs = last.counts.iter().zip(counts);
            pairs.any(|(old, new)| old.published_ns == new.published_ns && old.nanojoules != new.nanojoules)
        });
        if !told || frozen {
            self.times = Times::Reads;
        }
    }

    fn is_new(&self, counts: &[Count], last: &Last) -> bool {
        match self.times {
            Times::Driver => counts != last.counts,
            Times::Reads => counts.iter().zip(&last.counts).any(|(new, old)| new.nanojoules != old.nanojoules),
        }
    }

    /// By the driver's times, from the oldest to the newest of the members' writes. By those of the reads, from the last
    /// one that saw the old value; the first value may be as old as a period.
    fn span(&self, counts: &[Count], taken: &Taken, (began, ended): (Timestamp, Timestamp), is_new: bool) -> Span {
        let now_ns = taken.sample.now_ns;
        let ages = counts.iter().filter_map(|count| now_ns.checked_sub(count.published_ns?));
        let before = |age_ns: u64| ended - Seconds::new(age_ns as f64 / 1e9);
        let (after, at) = match (self.times, ages.clone().max(), ages.min(), &self.last) {
            (Times::Driver, Some(oldest), Some(newest), _) => (before(oldest), before(newest)),
            (_, _, _, None) => (began - LONGEST_PERIOD, ended),
            (_, _, _, Some(last)) if is_new => (last.began, ended),
            _ => (ended, ended),
        };
        // Readings of a channel come in the order of time.
        let at = self.last.as_ref().map_or(at, |last| at.max(last.at));
        Span { after: after.min(at), at }
    }

    /// The total with these counts; `None` where one of them cannot be.
    fn add(&mut self, counts: &[Count], span: &Span, batch: &mut Batch) -> Option<Joules> {
        let label = self.part.label();
        let (device, at) = (self.device, span.at);
        let (mut is_reset, mut is_refused) = (false, false);
        for (member, count) in self.members.iter_mut().zip(counts) {
            match member.counter.update(at, count.nanojoules) {
                Step::First | Step::Advance(_) | Step::Wrapped(_) => {}
                Step::Reset => {
                    is_reset = true;
                    let message = format!(
                        "the energy counter `{}` of {label} ({device}) started again: the energy since its last reading is not counted",
                        member.name
                    );
                    batch.event(at, EventKind::CounterReset, message);
                }
                Step::Impossible { power } => {
                    is_refused = true;
                    let message = format!(
                        "a step of the energy counter `{}` of {label} ({device}) would mean {:.0} W and is left out",
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
        (!is_refused).then(|| total - self.start)
    }

    fn fail(&mut self, reason: &str, at: Timestamp, batch: &mut Batch) {
        // Said once, not ten times a second.
        if self.state != State::Fails {
            self.state = State::Fails;
            let message = format!("cannot read energy of {} ({}): {reason}", self.part.label(), self.device);
            batch.event(at, EventKind::ReadFailed, message);
        }
    }

    fn call_stuck(&mut self, at: Timestamp, batch: &mut Batch) {
        if self.state == State::Works {
            self.state = State::Stuck;
            let message = format!(
                "the energy counter of {} ({}) has stood for {:.0} s: its energy is absent until macOS writes it again. \
                 hint: measure longer; without a display some Macs write it every half hour only",
                self.part.label(),
                self.device,
                STUCK_AFTER.get()
            );
            batch.event(at, EventKind::CounterStuck, message);
        }
    }
}
