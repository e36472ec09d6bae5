//! Turns raw counts of an energy counter into energy steps, and detects wraps, resets and impossible values.
//!
//! Each count gives one [`Step`]. The total is the first count plus all accepted steps and never decreases. No accepted
//! step implies more power than the counter's bound. A decrease is a wrap only if the counter declares a range and the
//! bound allows the step; otherwise it is a reset (a reset mistaken for a 64-bit wrap would add 1.8e16 J).

use ergometer_units::{Joules, Seconds, Timestamp, Watts};

/// The unit, range and bounds of a counter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CounterLimits {
    /// The energy of one count: a microjoule for powercap, a millijoule for NVML.
    pub unit: Joules,
    /// The number of counts after which it wraps to zero; `None` if unknown or if it does not wrap.
    pub range: Option<u64>,
    /// An upper bound on the power of the device, with a wide margin.
    pub bound: Watts,
    /// How often the source updates. A read just after an update gets the energy of a whole period at once, so the
    /// bound is applied to the time between two reads plus one period.
    pub update_period: Seconds,
}

/// The change from the last accepted count to a new one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// The first count: the starting point, no energy yet.
    First,
    /// The counter increased by this energy since the last accepted count; zero if it did not change.
    Advance(Joules),
    /// The counter wrapped and increased by this energy.
    Wrapped(Joules),
    /// The counter restarted. The energy since the last accepted count is unknown, and the total does not change.
    Reset,
    /// The step implies more power than the bound. The count is rejected and the total does not change. If the next
    /// count continues from the rejected one, a [`Step::Reset`] makes it the new starting point.
    Impossible {
        /// The mean power implied by the step.
        power: Watts,
    },
}

/// An energy counter and its total.
///
/// ```
/// use ergometer_telemetry::{Counter, CounterLimits, Step};
/// use ergometer_units::{Joules, Seconds, Timestamp, Watts};
///
/// let mut counter = Counter::new(CounterLimits {
///     unit: Joules::from_micros(1.0),
///     range: Some(100_000_000),
///     bound: Watts::new(1000.0),
///     update_period: Seconds::from_millis(1.0),
/// });
/// let start = Timestamp::from_nanos_since_epoch(0);
/// assert_eq!(counter.update(start, 99_000_000), Step::First);
/// let step = counter.update(start + Seconds::new(0.05), 4_000_000);
/// assert_eq!(step, Step::Wrapped(Joules::new(5.0)));
/// assert_eq!(counter.total(), Joules::new(104.0));
/// ```
#[derive(Debug, Clone)]
pub struct Counter {
    limits: CounterLimits,
    accepted: Option<Count>,
    rejected: Option<Count>,
    total: u64,
}

#[derive(Debug, Clone, Copy)]
struct Count {
    at: Timestamp,
    raw: u64,
}

impl Counter {
    /// A counter before its first count.
    #[must_use]
    pub const fn new(limits: CounterLimits) -> Self {
        Self { limits, accepted: None, rejected: None, total: 0 }
    }

    /// The energy of the first count plus all accepted steps.
    #[must_use]
    pub fn total(&self) -> Joules {
        self.energy(self.total)
    }

    /// Adds a count read at this time. If the bound allows more than the whole range since the last count (half a
    /// minute for the smallest RAPL range, 65 kJ, at 2 kW), several wraps are possible; the smallest energy is assumed.
    pub fn update(&mut self, at: Timestamp, raw: u64) -> Step {
        let now = Count { at, raw };
        let Some(last) = self.accepted else {
            self.total = raw;
            self.accepted = Some(now);
            return Step::First;
        };
        match self.counts_between(last, now) {
            Difference::Forward { counts } if self.is_possible(counts, last, now) => {
                self.accept(now, counts);
                Step::Advance(self.energy(counts))
            }
            Difference::AroundTheEnd { counts } if self.is_possible(counts, last, now) => {
                self.accept(now, counts);
                Step::Wrapped(self.energy(counts))
            }
            Difference::Forward { counts } => self.refuse(counts, last, now),
            Difference::AroundTheEnd { .. } | Difference::Back => {
                self.accept(now, 0);
                Step::Reset
            }
        }
    }

    /// Rejects a jump ahead, because a single wrong value is more likely than a device above its bound. A second count
    /// that continues from the wrong one confirms the new value.
    fn refuse(&mut self, counts: u64, last: Count, now: Count) -> Step {
        let goes_on = self
            .rejected
            .is_some_and(|rejected| now.raw >= rejected.raw && self.is_possible(now.raw - rejected.raw, rejected, now));
        if goes_on {
            self.accept(now, 0);
            return Step::Reset;
        }
        self.rejected = Some(now);
        Step::Impossible { power: self.energy(counts) / self.time_between(last, now) }
    }

    fn accept(&mut self, now: Count, counts: u64) {
        self.total = self.total.saturating_add(counts);
        self.accepted = Some(now);
        self.rejected = None;
    }

    fn counts_between(&self, last: Count, now: Count) -> Difference {
        if let Some(counts) = now.raw.checked_sub(last.raw) {
            return Difference::Forward { counts };
        }
        self.limits
            .range
            .and_then(|range| range.checked_sub(last.raw)?.checked_add(now.raw))
            .map_or(Difference::Back, |counts| Difference::AroundTheEnd { counts })
    }

    fn is_possible(&self, counts: u64, last: Count, now: Count) -> bool {
        self.energy(counts) <= self.limits.bound * self.time_between(last, now)
    }

    fn time_between(&self, last: Count, now: Count) -> Seconds {
        now.at.since(last.at).max(Seconds::ZERO) + self.limits.update_period
    }

    fn energy(&self, counts: u64) -> Joules {
        self.limits.unit * counts as f64
    }
}

enum Difference {
    Forward { counts: u64 },
    AroundTheEnd { counts: u64 },
    Back,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RANGE: u64 = 65_532_610_987;

    fn limits(range: Option<u64>) -> CounterLimits {
        CounterLimits {
            unit: Joules::from_micros(1.0),
            range,
            bound: Watts::new(1000.0),
            update_period: Seconds::from_millis(1.0),
        }
    }

    fn at_millis(time_ms: i64) -> Timestamp {
        Timestamp::from_nanos_since_epoch(1_794_730_772_000_000_000 + time_ms * 1_000_000)
    }

    #[test]
    fn a_step_back_without_a_range_is_a_reset_and_keeps_the_total() {
        let mut counter = Counter::new(limits(None));
        counter.update(at_millis(0), 9_000_000);
        assert_eq!(counter.update(at_millis(50), 10_000_000), Step::Advance(Joules::new(1.0)));
        assert_eq!(counter.update(at_millis(100), 500), Step::Reset);
        assert_eq!(counter.total(), Joules::new(10.0));
        assert_eq!(counter.update(at_millis(150), 2_000_500), Step::Advance(Joules::new(2.0)));
        assert_eq!(counter.total(), Joules::new(12.0));
    }

    #[test]
    fn a_wrap_beyond_the_bound_is_a_reset() {
        // A decrease in the middle of the range, as after a suspend: a wrap would be 35 kJ in 50 ms.
        let mut counter = Counter::new(limits(Some(RANGE)));
        counter.update(at_millis(0), 30_000_000_000);
        assert_eq!(counter.update(at_millis(50), 0), Step::Reset);
        assert_eq!(counter.total(), Joules::new(30_000.0));
    }

    #[test]
    fn a_count_above_the_declared_range_never_wraps() {
        let mut counter = Counter::new(limits(Some(1000)));
        counter.update(at_millis(0), 5000);
        assert_eq!(counter.update(at_millis(50), 10), Step::Reset);
    }

    #[test]
    fn one_wrong_value_is_rejected_without_losing_energy() {
        let mut counter = Counter::new(limits(None));
        counter.update(at_millis(0), 0);
        let Step::Impossible { power } = counter.update(at_millis(49), 1_000_000_000) else { panic!("rejected") };
        assert!((power.get() - 20_000.0).abs() < 1e-6, "{power:?}");
        assert_eq!(counter.update(at_millis(100), 3_000_000), Step::Advance(Joules::new(3.0)));
    }

    #[test]
    fn a_jump_that_stays_becomes_the_new_start() {
        let mut counter = Counter::new(limits(None));
        counter.update(at_millis(0), 1_000_000);
        assert!(matches!(counter.update(at_millis(50), 1_000_000_000), Step::Impossible { .. }));
        assert_eq!(counter.update(at_millis(100), 1_001_000_000), Step::Reset);
        assert_eq!(counter.update(at_millis(150), 1_002_000_000), Step::Advance(Joules::new(1.0)));
        assert_eq!(counter.total(), Joules::new(2.0));
    }

    #[test]
    fn two_reads_at_once_may_see_one_update() {
        let mut counter = Counter::new(limits(None));
        counter.update(at_millis(0), 0);
        assert_eq!(counter.update(at_millis(0), 500_000), Step::Advance(Joules::new(0.5)));
    }

    proptest! {
        #[test]
        fn a_wrapping_counter_is_unwrapped_exactly(
            start in 0..RANGE,
            steps in prop::collection::vec(0_u64..40_000_000, 1..200),
        ) {
            let mut counter = Counter::new(limits(Some(RANGE)));
            counter.update(at_millis(0), start);
            let mut truth = start;
            for (time_ms, step) in (50..).step_by(50).zip(steps) {
                truth += step;
                let outcome = counter.update(at_millis(time_ms), truth % RANGE);
                prop_assert!(matches!(outcome, Step::Advance(_) | Step::Wrapped(_)), "{:?}", outcome);
                prop_assert_eq!(counter.total(), Joules::from_micros(1.0) * truth as f64);
            }
        }

        #[test]
        fn whatever_is_read_the_total_never_falls_and_never_beats_the_bound(
            range in prop::option::of(1..u64::MAX),
            counts in prop::collection::vec((-100_i64..100_000, any::<u64>()), 1..100),
        ) {
            let limits = limits(range);
            let mut counter = Counter::new(limits);
            let mut time_ms = 0;
            let mut last_accepted = at_millis(0);
            for (index, (pause_ms, raw)) in counts.into_iter().enumerate() {
                time_ms += pause_ms;
                let at = at_millis(time_ms);
                let before = counter.total();
                let step = counter.update(at, raw);
                let gained = counter.total() - before;
                prop_assert_eq!(step == Step::First, index == 0);
                match step {
                    Step::First => {}
                    Step::Advance(energy) | Step::Wrapped(energy) => {
                        let time = at.since(last_accepted).max(Seconds::ZERO) + limits.update_period;
                        prop_assert!(energy >= Joules::ZERO && energy <= limits.bound * time);
                        prop_assert!(gained >= Joules::ZERO);
                    }
                    Step::Reset | Step::Impossible { .. } => prop_assert_eq!(gained, Joules::ZERO),
                }
                if !matches!(step, Step::Impossible { .. }) {
                    last_accepted = at;
                }
            }
        }
    }
}
