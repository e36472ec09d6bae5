//! Replays a recorded timeline: one sensor for each recorded sensor.
//!
//! All sensors start together, when the first of them is sampled. The time between readings never changes, so energy
//! and power are the same at any pace. Samples that a driver held from before the start of the recording are replayed
//! at once, with times before the start. A sensor ends when all its readings were replayed.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use ergometer_diagnostics::{Diagnostic, Hint, hint};
use ergometer_telemetry::{
    Batch, Channel, ChannelId, Clock, Event, Reading, Sensor, SensorError, SensorInfo, Timeline,
};
use ergometer_units::{Seconds, Timestamp};

/// How fast a recording is replayed.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Pace {
    /// Everything in the first sample.
    #[default]
    AtOnce,
    /// Recorded seconds per second: 1 is the original speed, 2 is twice as fast.
    Speed(f64),
}

/// The times that replayed readings get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Times {
    /// The recorded times.
    #[default]
    AsRecorded,
    /// Times shifted so that the recording starts at the first sample. At a pace other than `Speed(1.0)` they run ahead
    /// of the clock or fall behind it.
    FromNow,
}

/// How to replay a recording.
///
/// ```
/// use ergometer_sensors::replay::{Pace, Replay, Times};
/// use ergometer_telemetry::Timeline;
///
/// let replay = Replay { pace: Pace::Speed(1.0), times: Times::FromNow };
/// assert!(replay.sensors(&Timeline::default()).unwrap().is_empty());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Replay {
    /// The speed.
    pub pace: Pace,
    /// The times of the readings.
    pub times: Times,
}

/// The replay speed is not a positive number.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("cannot replay a recording at speed {0}")]
pub struct InvalidSpeed(pub f64);

impl Diagnostic for InvalidSpeed {
    fn hint(&self) -> Option<Hint> {
        Some(hint!("use a number above 0; 1 is the original speed"))
    }
}

impl Replay {
    /// Sensors that replay the timeline, in the recorded order. The first one replays the events.
    pub fn sensors(self, timeline: &Timeline) -> Result<Vec<Box<dyn Sensor>>, InvalidSpeed> {
        if let Pace::Speed(speed) = self.pace
            && !(speed.is_finite() && speed > 0.0)
        {
            return Err(InvalidSpeed(speed));
        }
        let recording = Arc::new(timeline.clone());
        let started = Arc::new(OnceLock::new());
        let sensors = timeline.sensors().map(|(key, info)| {
            let (ids, channels): (Vec<_>, Vec<_>) =
                timeline.channels_of(key).map(|(id, channel)| (id, channel.clone())).unzip();
            let played = vec![0; ids.len()];
            let events = if key.index() == 0 { timeline.events().to_vec() } else { Vec::new() };
            Box::new(ReplaySensor {
                replay: self,
                recording: Arc::clone(&recording),
                started: Arc::clone(&started),
                info: info.clone(),
                channels,
                ids,
                played,
                events,
            }) as Box<dyn Sensor>
        });
        Ok(sensors.collect())
    }
}

/// A recorded sensor that is being replayed.
struct ReplaySensor {
    replay: Replay,
    recording: Arc<Timeline>,
    /// When a sensor was sampled for the first time.
    started: Arc<OnceLock<Timestamp>>,
    info: SensorInfo,
    channels: Vec<Channel>,
    ids: Vec<ChannelId>,
    /// The number of replayed readings of each channel.
    played: Vec<usize>,
    /// The events that were not replayed yet.
    events: Vec<Event>,
}

impl ReplaySensor {
    /// The current time in the recording, and the shift of the recorded times.
    fn position(&self, clock: &Clock) -> (i64, i64) {
        let now = clock.now();
        let started = *self.started.get_or_init(|| now);
        let Some(start) = self.recording.sampling_start() else { return (i64::MAX, 0) };
        let due_ns = match self.replay.pace {
            Pace::AtOnce => i64::MAX,
            Pace::Speed(speed) => (start + Seconds::new((now - started).get() * speed)).nanos_since_epoch(),
        };
        let shift_ns = match self.replay.times {
            Times::AsRecorded => 0,
            Times::FromNow => started.nanos_since_epoch().saturating_sub(start.nanos_since_epoch()),
        };
        (due_ns, shift_ns)
    }

    /// The readings of a channel that are due and were not replayed, by index.
    fn due(&self, channel: usize, due_ns: i64) -> Range<usize> {
        let times = self.recording.column(self.ids[channel]).readings().at_ns;
        let until = times.partition_point(|&at_ns| at_ns <= due_ns);
        self.played[channel]..until.max(self.played[channel])
    }

    fn is_over(&self) -> bool {
        let all = self.ids.iter().zip(&self.played).all(|(&id, &played)| played >= self.recording.column(id).len());
        all && self.events.is_empty()
    }
}

impl Sensor for ReplaySensor {
    fn info(&self) -> &SensorInfo {
        &self.info
    }

    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn sample(&mut self, clock: &Clock, batch: &mut Batch) -> Result<(), SensorError> {
        if self.is_over() {
            return Err(SensorError::Ended);
        }
        let (due_ns, shift_ns) = self.position(clock);
        let shifted =
            |time: Timestamp| Timestamp::from_nanos_since_epoch(time.nanos_since_epoch().saturating_add(shift_ns));
        for channel in 0..self.ids.len() {
            let range = self.due(channel, due_ns);
            self.played[channel] = range.end;
            let column = self.recording.column(self.ids[channel]);
            batch.readings.extend(range.filter_map(|place| column.get(place)).map(|point| Reading {
                channel,
                after: shifted(point.after),
                at: shifted(point.at),
                value: point.value,
            }));
        }
        // Events after the last reading are replayed with it, so that the sensor does not wait for them.
        let last_ns = self.recording.span().map_or(i64::MIN, |span| span.end().nanos_since_epoch());
        let (now, later) = std::mem::take(&mut self.events)
            .into_iter()
            .partition::<Vec<_>, _>(|event| event.at_ns.min(last_ns) <= due_ns);
        self.events = later;
        batch
            .events
            .extend(now.into_iter().map(|event| Event { at_ns: event.at_ns.saturating_add(shift_ns), ..event }));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{gauge, sensor, time};
    use ergometer_telemetry::{EventKind, Signal};

    const SECOND: i64 = 1_000_000_000;

    fn recorded() -> Timeline {
        let mut timeline = Timeline::default();
        let key = timeline.add_sensor(&sensor("a"), &[gauge(Signal::Energy), gauge(Signal::Temperature)]);
        let mut batch = Batch::default();
        batch.readings.push(Reading { channel: 0, after: time(SECOND - 7), at: time(SECOND), value: 1.0 });
        batch.push(1, time(1000 * SECOND), 2.0);
        batch.event(time(2000 * SECOND), EventKind::CounterReset, "late");
        timeline.append(key, &batch);
        timeline
    }

    fn only_sensor(replay: Replay) -> Box<dyn Sensor> {
        replay.sensors(&recorded()).unwrap().pop().unwrap()
    }

    #[test]
    fn at_once_one_sample_replays_everything() {
        let mut sensor = only_sensor(Replay::default());
        let (clock, mut batch) = (Clock::start(), Batch::default());
        sensor.sample(&clock, &mut batch).unwrap();
        let mut timeline = Timeline::default();
        let key = timeline.add_sensor(sensor.info(), sensor.channels());
        timeline.append(key, &batch);
        assert_eq!(timeline, recorded());
        batch.clear();
        assert!(matches!(sensor.sample(&clock, &mut batch), Err(SensorError::Ended)));
        assert!(batch.readings.is_empty());
    }

    #[test]
    fn at_a_speed_only_due_readings_are_replayed() {
        let mut sensor = only_sensor(Replay { pace: Pace::Speed(1e-3), times: Times::FromNow });
        let (clock, mut batch) = (Clock::start(), Batch::default());
        let before = clock.now();
        sensor.sample(&clock, &mut batch).unwrap();
        sensor.sample(&clock, &mut batch).unwrap();
        assert_eq!((batch.readings.len(), batch.events.len()), (1, 0), "the rest is 999,000 s away");
        let reading = batch.readings[0];
        assert!(before <= reading.at && reading.at <= clock.now(), "shifted to now");
        assert_eq!((reading.at - reading.after).as_nanos(), 7);
    }

    #[test]
    fn at_a_high_speed_the_replay_ends() {
        let mut sensor = only_sensor(Replay { pace: Pace::Speed(1e15), times: Times::AsRecorded });
        let (clock, mut batch) = (Clock::start(), Batch::default());
        while sensor.sample(&clock, &mut batch).is_ok() {}
        assert_eq!((batch.readings.len(), batch.events.len()), (2, 1));
    }

    #[test]
    fn a_speed_must_be_above_zero() {
        for speed in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let replay = Replay { pace: Pace::Speed(speed), times: Times::AsRecorded };
            assert!(replay.sensors(&recorded()).is_err(), "{speed}");
        }
    }

    #[test]
    fn a_tap_records_all_sampled_readings() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.jsonl.gz");
        let played = recorded();
        let sensors = Replay::default().sensors(&played).unwrap();
        let described = sensors.iter().map(|sensor| (sensor.info(), sensor.channels()));
        let (tap, recording) =
            ergometer_telemetry::recording::RecordingWriter::create(&path, described).unwrap().into_tap();
        let sampler = ergometer_telemetry::Sampler::start(sensors, std::sync::Arc::new(Clock::start()), Some(tap));
        assert!(sampler.wait(std::time::Duration::from_secs(600)));
        let timeline = sampler.stop();
        recording.finish().unwrap();
        assert_eq!(timeline, played);
        assert_eq!(ergometer_telemetry::recording::read_file(&path).unwrap(), played);
        assert!(std::fs::read(&path).unwrap().starts_with(&[0x1f, 0x8b]));
        let missing = ergometer_telemetry::recording::read_file(folder.path().join("missing")).unwrap_err().to_string();
        assert!(missing.starts_with("cannot open the recording ") && missing.contains("missing: "), "{missing}");
    }
}
