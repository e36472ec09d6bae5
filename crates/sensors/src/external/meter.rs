//! The sensor around a user's source: values in watts or joules go in, readings and events come out.
//!
//! What fails is told once until a value comes again. A source that falls silent is told once, too: after ten times its
//! usual spacing, and never before ten seconds. How often a file is written is only known from its second value on: until
//! then it has two minutes, and where no value came at all the end says so.

use std::time::Duration;

use ergometer_units::{Joules, Seconds, Timestamp};

use super::complaint::Complaint;
use super::unit::{Quantity, Unit};
use crate::counted::{Count, Identity, Tally};
use ergometer_telemetry::{
    Batch, Channel, Clock, CounterLimits, EventKind, Provenance, Reading, Scope, Sensor, SensorError, SensorInfo,
    Signal,
};

/// A silence shorter than this is none.
pub(super) const LEAST_SILENCE: Seconds = Seconds::new(10.0);
const SILENT_SPACINGS: f64 = 10.0;
/// For a source whose spacing is not known: one that writes once a minute has time for two values.
const PATIENCE: Seconds = Seconds::new(120.0);

/// One value of a source, in watts or joules.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Value {
    pub(super) after: Timestamp,
    pub(super) at: Timestamp,
    pub(super) amount: f64,
}

/// What one look at a source brought.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) values: Vec<Value>,
    pub(super) notices: Vec<(EventKind, String)>,
}

/// Why there is no value.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The next look may bring one.
    Failed(Complaint),
    /// None will come any more.
    Lost(Complaint),
}

impl Trouble {
    pub(super) fn failed(why: impl Into<Complaint>) -> Self {
        Self::Failed(why.into())
    }
}

/// Which look it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    Usual,
    Last,
}

/// Where values come from.
pub(super) trait Source: Send {
    /// Looks for new values.
    fn read(&mut self, moment: Moment, clock: &Clock, found: &mut Found) -> Result<(), Trouble>;

    /// Whether a value is under way: that is no silence, however long it takes.
    fn is_busy(&self) -> bool {
        false
    }

    /// How long from the start of this look to the next, where it is not the usual interval.
    fn pause(&self) -> Option<Duration> {
        None
    }
}

/// What a meter shows, and how finely.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    pub(super) quantity: Quantity,
    /// The least step of its values, in joules; a counter of kWh with two decimals makes steps of 36 kJ.
    pub(super) step: Joules,
}

impl Scale {
    /// By a value as it is written, in watts or joules: its last decimal is its step.
    pub(super) fn of(quantity: Quantity, unit: Unit, amount: Option<f64>) -> Self {
        let written = amount.map_or_else(|| String::from("1"), |amount| format!("{}", amount / unit.factor));
        let decimals = written.split_once('.').map_or(0, |(_, decimals)| decimals.len().min(9));
        let step = 10_f64.powi(-i32::try_from(decimals).unwrap_or(9));
        Self { quantity, step: Joules::new(step * unit.factor) }
    }
}

/// See the module.
pub(super) struct Meter {
    info: SensorInfo,
    channels: [Channel; 1],
    source: Box<dyn Source>,
    tally: Option<Tally>,
    is_failing: bool,
    silence: Silence,
}

impl Meter {
    pub(super) fn new(info: SensorInfo, scale: Scale, source: Box<dyn Source>) -> Self {
        let bound = Scope::Psys.power_bound();
        // A counter that moves in coarse steps shows the energy of a long time at once.
        let update_period = Seconds::new(info.interval.as_secs_f64()) + scale.step / bound;
        let (signal, provenance, period, tally) = match scale.quantity {
            Quantity::Power => (Signal::PowerInstant, Provenance::SampledPower, None, None),
            Quantity::Energy => {
                let limits = CounterLimits { unit: Joules::from_micros(1.0), range: None, bound, update_period };
                let identity = Identity { label: info.id.clone(), device: info.device };
                (Signal::Energy, Provenance::Counter, Some(update_period), Some(Tally::new(identity, limits)))
            }
        };
        let channel = Channel { device: info.device, scope: Scope::Psys, signal, provenance, update_period: period };
        // Only a source that says when it is to be read again is asked for its values; a file is only looked at.
        let spacing = source.pause().map(|every| Seconds::new(every.as_secs_f64()));
        let silence = Silence { spacing, ..Silence::default() };
        Self { info, channels: [channel], source, tally, is_failing: false, silence }
    }

    fn look(&mut self, moment: Moment, clock: &Clock, batch: &mut Batch) -> Result<(), SensorError> {
        let mut found = Found::default();
        let outcome = self.source.read(moment, clock, &mut found);
        let now = clock.now();
        let id = &self.info.id;
        for (kind, message) in found.notices {
            batch.event(now, kind, format!("{id}: {message}"));
        }
        let has_values = !found.values.is_empty();
        for Value { after, at, amount } in found.values {
            match &mut self.tally {
                None => batch.readings.push(Reading { channel: 0, after, at, value: amount }),
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count saturates")]
                Some(tally) => tally.take(0, Count { after, at, raw: (amount * 1e6).round() as u64 }, batch),
            }
        }
        if has_values {
            self.is_failing = false;
        }
        match outcome {
            Err(Trouble::Lost(reason)) => {
                return Err(SensorError::Lost { device: self.info.device, reason: reason.to_string() });
            }
            Err(Trouble::Failed(why)) if !self.is_failing => {
                self.is_failing = true;
                batch.event(now, EventKind::ReadFailed, format!("{id}: {why}"));
            }
            Ok(()) | Err(Trouble::Failed(_)) => {}
        }
        if (has_values || !self.source.is_busy())
            && let Some(silent) = self.silence.note(now, has_values, moment)
            && !self.is_failing
        {
            let message =
                format!("{id}: no new value for {:.0} s: what it measures is absent until one comes", silent.get());
            batch.event(now, EventKind::ReadFailed, message);
        }
        Ok(())
    }
}

impl Sensor for Meter {
    fn info(&self) -> &SensorInfo {
        &self.info
    }

    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn sample(&mut self, clock: &Clock, batch: &mut Batch) -> Result<(), SensorError> {
        self.look(Moment::Usual, clock, batch)
    }

    fn sample_last(&mut self, clock: &Clock, batch: &mut Batch) -> Result<(), SensorError> {
        self.look(Moment::Last, clock, batch)
    }

    fn interval(&self) -> Duration {
        self.source.pause().unwrap_or(self.info.interval)
    }
}

/// When values came, and whether it was told that none do.
#[derive(Debug, Default)]
struct Silence {
    /// The last value, or the first look.
    last: Option<Timestamp>,
    has_spoken: bool,
    spacing: Option<Seconds>,
    told: bool,
}

impl Silence {
    /// Takes a look in; says how long it has been silent where that is to be told.
    fn note(&mut self, now: Timestamp, has_values: bool, moment: Moment) -> Option<Seconds> {
        let since = now - *self.last.get_or_insert(now);
        if has_values {
            // From the first look to the first value is no spacing.
            if self.has_spoken {
                // A mean that forgets: the spacing of the last ten or so.
                self.spacing = Some(self.spacing.map_or(since, |spacing| spacing * 0.9 + since * 0.1));
            }
            (self.last, self.has_spoken, self.told) = (Some(now), true, false);
            return None;
        }
        let limit = match self.spacing {
            Some(spacing) => (spacing * SILENT_SPACINGS).max(LEAST_SILENCE),
            None if moment == Moment::Last && !self.has_spoken => LEAST_SILENCE,
            None => PATIENCE,
        };
        let is_silent = since > limit && !self.told;
        self.told |= is_silent;
        is_silent.then_some(since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ergometer_telemetry::DeviceId;

    fn at(seconds: f64) -> Timestamp {
        Timestamp::from_nanos_since_epoch(1_794_730_772_000_000_000) + Seconds::new(seconds)
    }

    #[test]
    fn a_silence_is_told_once_and_again_after_a_value() {
        let mut silence = Silence::default();
        let told: Vec<bool> =
            [(0.0, true), (0.5, true), (10.4, false), (10.6, false), (11.0, false), (12.0, true), (30.0, false)]
                .map(|(time, has)| silence.note(at(time), has, Moment::Usual).is_some())
                .to_vec();
        assert_eq!(told, [false, false, false, true, false, false, true]);
    }

    #[test]
    fn a_slow_source_is_given_its_time() {
        let mut silence = Silence::default();
        for time in 0..20 {
            assert_eq!(silence.note(at(60.0 * f64::from(time)), true, Moment::Usual), None);
        }
        assert_eq!(silence.note(at(60.0 * 19.0 + 400.0), false, Moment::Usual), None);
        assert!(silence.note(at(60.0 * 19.0 + 700.0), false, Moment::Usual).is_some());
    }

    #[test]
    fn one_that_never_spoke_is_told_too() {
        let mut silence = Silence::default();
        assert_eq!(silence.note(at(0.0), false, Moment::Usual), None);
        assert_eq!(silence.note(at(10.5), false, Moment::Usual), None, "it may write once a minute");
        assert!(silence.note(at(121.0), false, Moment::Usual).is_some());
        let mut short = Silence::default();
        assert_eq!(short.note(at(0.0), false, Moment::Usual), None);
        assert!(short.note(at(10.5), false, Moment::Last).is_some(), "no later look will find one");
    }

    #[test]
    fn a_file_is_not_judged_by_its_first_value() {
        let mut silence = Silence::default();
        assert_eq!(silence.note(at(0.0), true, Moment::Usual), None);
        for (time, moment) in [(10.5, Moment::Usual), (59.0, Moment::Usual), (59.5, Moment::Last)] {
            assert_eq!(silence.note(at(time), false, moment), None, "{time}");
        }
        assert_eq!(silence.note(at(60.0), true, Moment::Usual), None);
        assert_eq!(silence.note(at(600.0), false, Moment::Usual), None);
        assert!(silence.note(at(661.0), false, Moment::Usual).is_some());
    }

    /// A source that is asked once a minute and takes its time over each value.
    struct Slow {
        is_busy: bool,
        value: Option<Value>,
    }

    impl Source for Slow {
        fn read(&mut self, _: Moment, _: &Clock, found: &mut Found) -> Result<(), Trouble> {
            found.values.extend(self.value.take());
            Ok(())
        }

        fn is_busy(&self) -> bool {
            self.is_busy
        }

        fn pause(&self) -> Option<Duration> {
            Some(Duration::from_secs(60))
        }
    }

    fn meter(is_busy: bool) -> Meter {
        let interval = Duration::from_secs(60);
        let info = SensorInfo { id: "x".to_owned(), name: "x".to_owned(), device: DeviceId::meter(0), interval };
        let value = Some(Value { after: at(0.0), at: at(0.4), amount: 312.0 });
        Meter::new(info, Scale::of(Quantity::Power, Quantity::Power.base(), None), Box::new(Slow { is_busy, value }))
    }

    #[test]
    fn a_command_once_a_minute_is_not_silent_between() {
        let mut meter = meter(false);
        meter.look(Moment::Usual, &Clock::start(), &mut Batch::default()).unwrap();
        let start = meter.silence.last.unwrap();
        assert_eq!(meter.silence.note(start + Seconds::new(60.1), false, Moment::Usual), None);
        assert!(meter.silence.note(start + Seconds::new(601.0), false, Moment::Usual).is_some());
    }

    #[test]
    fn a_run_that_is_under_way_is_no_silence() {
        for (is_busy, events) in [(true, 0), (false, 1)] {
            let mut meter = meter(is_busy);
            let clock = Clock::start();
            meter.look(Moment::Usual, &clock, &mut Batch::default()).unwrap();
            meter.silence.last = Some(clock.now() - Seconds::new(3600.0));
            let mut batch = Batch::default();
            meter.look(Moment::Usual, &clock, &mut batch).unwrap();
            assert_eq!(batch.events.len(), events, "{:?}", batch.events);
        }
    }

    #[test]
    fn the_step_of_a_counter_is_its_last_decimal() {
        let kilowatt_hours = Unit::of("kWh").unwrap();
        let step = |amount| Scale::of(Quantity::Energy, kilowatt_hours, amount).step.get();
        assert!((step(Some(12.34 * 3.6e6)) - 36_000.0).abs() < 1.0);
        assert!((step(None) - 3.6e6).abs() < 1.0);
    }
}
