//! Turns the values of a user's source into readings and events.
//!
//! A failure is reported once until the source gives a value again. A source without new values is also reported once:
//! after ten times its usual interval, but not before ten seconds. The interval of a file is known after its second
//! value; until then the limit is two minutes. A source that never gave a value is reported at the end.

use std::time::Duration;

use ergometer_diagnostics::Message;
use ergometer_telemetry::{
    Batch, Channel, Clock, CounterLimits, EventKind, Provenance, Reading, Scope, Sensor, SensorError, SensorInfo,
    Signal,
};
use ergometer_units::{Joules, Seconds, Timestamp};

use super::unit::{Quantity, Unit};
use crate::energy_counter::{Count, CounterTotals, Identity};

/// A pause up to this long is never reported. A first value older than this is not used.
pub(super) const LEAST_SILENCE: Seconds = Seconds::new(10.0);
const SILENT_SPACINGS: f64 = 10.0;
/// The limit for a source whose interval is unknown. A file that is written once a minute has time for two values.
const PATIENCE: Seconds = Seconds::new(120.0);

/// One value of a source, in watts or joules.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Value {
    pub(super) after: Timestamp,
    pub(super) at: Timestamp,
    pub(super) amount: f64,
}

/// The new values of a source since the last read, and events.
#[derive(Debug, Default)]
pub(super) struct Update {
    pub(super) values: Vec<Value>,
    pub(super) notices: Vec<(EventKind, Message)>,
}

/// A source gave no value.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SourceError {
    /// The next read may work.
    Failed(Message),
    /// No later read can work.
    Lost(Message),
}

impl SourceError {
    pub(super) fn failed(why: impl Into<Message>) -> Self {
        Self::Failed(why.into())
    }
}

/// The position of a read in the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    Usual,
    Last,
}

/// A source of values: a command or a file.
pub(super) trait Source: Send {
    /// Reads the new values.
    fn read(&mut self, moment: Moment, clock: &Clock, update: &mut Update) -> Result<(), SourceError>;

    /// Whether a value is on its way. The source then does not count as silent, however long it takes.
    fn is_busy(&self) -> bool {
        false
    }

    /// The time from the start of this read to the next one, if it differs from the sensor's interval.
    fn pause(&self) -> Option<Duration> {
        None
    }
}

/// The quantity and the resolution of a meter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    pub(super) quantity: Quantity,
    /// The smallest step of its values. A counter of kWh with two decimals has steps of 36 kJ.
    pub(super) step: Joules,
}

impl Scale {
    /// The scale of a meter that shows this value (in watts or joules): the step is the value's last decimal.
    pub(super) fn from_value(quantity: Quantity, unit: Unit, amount: Option<f64>) -> Self {
        let written = amount.map_or_else(|| String::from("1"), |amount| format!("{}", amount / unit.factor));
        let decimals = written.split_once('.').map_or(0, |(_, decimals)| decimals.len().min(9));
        let step = 10_f64.powi(-i32::try_from(decimals).unwrap_or(9));
        Self { quantity, step: Joules::new(step * unit.factor) }
    }
}

/// The sensor of one external source.
pub(super) struct Meter {
    info: SensorInfo,
    channels: [Channel; 1],
    source: Box<dyn Source>,
    totals: Option<CounterTotals>,
    is_failing: bool,
    silence: Silence,
}

impl Meter {
    pub(super) fn new(info: SensorInfo, scale: Scale, source: Box<dyn Source>) -> Self {
        let bound = Scope::Psys.power_bound();
        // A counter with coarse steps adds the energy of a long time at once.
        let update_period = Seconds::new(info.interval.as_secs_f64()) + scale.step / bound;
        let (signal, provenance, period, totals) = match scale.quantity {
            Quantity::Power => (Signal::PowerInstant, Provenance::SampledPower, None, None),
            Quantity::Energy => {
                let limits = CounterLimits { unit: Joules::from_micros(1.0), range: None, bound, update_period };
                let identity = Identity { label: info.id.clone(), device: info.device };
                (Signal::Energy, Provenance::Counter, Some(update_period), Some(CounterTotals::new(identity, limits)))
            }
        };
        let channel = Channel { device: info.device, scope: Scope::Psys, signal, provenance, update_period: period };
        // Only a command sets its own pause. The interval of a file is not known yet.
        let spacing = source.pause().map(|every| Seconds::new(every.as_secs_f64()));
        let silence = Silence { spacing, ..Silence::default() };
        Self { info, channels: [channel], source, totals, is_failing: false, silence }
    }

    fn read(&mut self, moment: Moment, clock: &Clock, batch: &mut Batch) -> Result<(), SensorError> {
        let mut update = Update::default();
        let outcome = self.source.read(moment, clock, &mut update);
        let now = clock.now();
        let id = &self.info.id;
        for (kind, message) in update.notices {
            batch.event(now, kind, message.at(id));
        }
        let has_values = !update.values.is_empty();
        for Value { after, at, amount } in update.values {
            match &mut self.totals {
                None => batch.readings.push(Reading { channel: 0, after, at, value: amount }),
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count saturates")]
                Some(totals) => totals.push(0, Count { after, at, raw: (amount * 1e6).round() as u64 }, batch),
            }
        }
        if has_values {
            self.is_failing = false;
        }
        match outcome {
            Err(SourceError::Lost(reason)) => {
                return Err(SensorError::Lost { device: self.info.device, reason });
            }
            Err(SourceError::Failed(why)) if !self.is_failing => {
                self.is_failing = true;
                batch.event(now, EventKind::ReadFailed, why.at(id));
            }
            Ok(()) | Err(SourceError::Failed(_)) => {}
        }
        if (has_values || !self.source.is_busy())
            && let Some(silent) = self.silence.note(now, has_values, moment)
            && !self.is_failing
        {
            let message =
                format!("{id}: no new value for {:.0} s; its measurement is absent until one arrives", silent.get());
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
        self.read(Moment::Usual, clock, batch)
    }

    fn sample_last(&mut self, clock: &Clock, batch: &mut Batch) -> Result<(), SensorError> {
        self.read(Moment::Last, clock, batch)
    }

    fn interval(&self) -> Duration {
        self.source.pause().unwrap_or(self.info.interval)
    }
}

/// Detects that a source has stopped giving values.
#[derive(Debug, Default)]
struct Silence {
    /// The time of the last value, or of the first read.
    last: Option<Timestamp>,
    has_value: bool,
    /// The usual time between two values.
    spacing: Option<Seconds>,
    is_reported: bool,
}

impl Silence {
    /// Notes a read. Returns the length of the silence if it should be reported now.
    fn note(&mut self, now: Timestamp, has_values: bool, moment: Moment) -> Option<Seconds> {
        let since = now - *self.last.get_or_insert(now);
        if has_values {
            // The time from the first read to the first value is not an interval.
            if self.has_value {
                // An exponential mean over about ten values.
                self.spacing = Some(self.spacing.map_or(since, |spacing| spacing * 0.9 + since * 0.1));
            }
            (self.last, self.has_value, self.is_reported) = (Some(now), true, false);
            return None;
        }
        let limit = match self.spacing {
            Some(spacing) => (spacing * SILENT_SPACINGS).max(LEAST_SILENCE),
            None if moment == Moment::Last && !self.has_value => LEAST_SILENCE,
            None => PATIENCE,
        };
        let is_silent = since > limit && !self.is_reported;
        self.is_reported |= is_silent;
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
    fn a_silence_is_reported_once_and_again_after_a_value() {
        let mut silence = Silence::default();
        let reported: Vec<bool> =
            [(0.0, true), (0.5, true), (10.4, false), (10.6, false), (11.0, false), (12.0, true), (30.0, false)]
                .map(|(time, has)| silence.note(at(time), has, Moment::Usual).is_some())
                .to_vec();
        assert_eq!(reported, [false, false, false, true, false, false, true]);
    }

    #[test]
    fn a_slow_source_may_pause_longer() {
        let mut silence = Silence::default();
        for time in 0..20 {
            assert_eq!(silence.note(at(60.0 * f64::from(time)), true, Moment::Usual), None);
        }
        assert_eq!(silence.note(at(60.0 * 19.0 + 400.0), false, Moment::Usual), None);
        assert!(silence.note(at(60.0 * 19.0 + 700.0), false, Moment::Usual).is_some());
    }

    #[test]
    fn a_source_that_never_gave_a_value_is_reported() {
        let mut silence = Silence::default();
        assert_eq!(silence.note(at(0.0), false, Moment::Usual), None);
        assert_eq!(silence.note(at(10.5), false, Moment::Usual), None, "it may write once a minute");
        assert!(silence.note(at(121.0), false, Moment::Usual).is_some());
        let mut short = Silence::default();
        assert_eq!(short.note(at(0.0), false, Moment::Usual), None);
        assert!(short.note(at(10.5), false, Moment::Last).is_some(), "there is no later read");
    }

    #[test]
    fn the_interval_of_a_file_is_unknown_after_one_value() {
        let mut silence = Silence::default();
        assert_eq!(silence.note(at(0.0), true, Moment::Usual), None);
        for (time, moment) in [(10.5, Moment::Usual), (59.0, Moment::Usual), (59.5, Moment::Last)] {
            assert_eq!(silence.note(at(time), false, moment), None, "{time}");
        }
        assert_eq!(silence.note(at(60.0), true, Moment::Usual), None);
        assert_eq!(silence.note(at(600.0), false, Moment::Usual), None);
        assert!(silence.note(at(661.0), false, Moment::Usual).is_some());
    }

    /// A source that is read once a minute and is slow.
    struct Slow {
        is_busy: bool,
        value: Option<Value>,
    }

    impl Source for Slow {
        fn read(&mut self, _: Moment, _: &Clock, update: &mut Update) -> Result<(), SourceError> {
            update.values.extend(self.value.take());
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
        Meter::new(
            info,
            Scale::from_value(Quantity::Power, Quantity::Power.base(), None),
            Box::new(Slow { is_busy, value }),
        )
    }

    #[test]
    fn a_command_that_runs_once_a_minute_is_not_silent() {
        let mut meter = meter(false);
        meter.read(Moment::Usual, &Clock::start(), &mut Batch::default()).unwrap();
        let start = meter.silence.last.unwrap();
        assert_eq!(meter.silence.note(start + Seconds::new(60.1), false, Moment::Usual), None);
        assert!(meter.silence.note(start + Seconds::new(601.0), false, Moment::Usual).is_some());
    }

    #[test]
    fn a_running_command_is_not_silent() {
        for (is_busy, events) in [(true, 0), (false, 1)] {
            let mut meter = meter(is_busy);
            let clock = Clock::start();
            meter.read(Moment::Usual, &clock, &mut Batch::default()).unwrap();
            meter.silence.last = Some(clock.now() - Seconds::new(3600.0));
            let mut batch = Batch::default();
            meter.read(Moment::Usual, &clock, &mut batch).unwrap();
            assert_eq!(batch.events.len(), events, "{:?}", batch.events);
        }
    }

    #[test]
    fn the_step_of_a_counter_is_its_last_decimal() {
        let kilowatt_hours = Unit::from_symbol("kWh").unwrap();
        let step = |amount| Scale::from_value(Quantity::Energy, kilowatt_hours, amount).step.get();
        assert!((step(Some(12.34 * 3.6e6)) - 36_000.0).abs() < 1.0);
        assert!((step(None) - 3.6e6).abs() < 1.0);
    }
}
