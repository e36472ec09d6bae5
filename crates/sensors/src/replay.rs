//! A recorded timeline goes in; sensors that play it come out, one for each that was recorded.
//!
//! All of them play from one moment, the first sample of any. Readings come out as they were: their distances in time
//! never change, so that energy and power stay what they were, whatever the pace. A sensor ends when all was played.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use ergometer_units::{Seconds, Timestamp};

use ergometer_telemetry::{
    Batch, Channel, ChannelId, Clock, Event, Reading, Sensor, SensorError, SensorInfo, Timeline,
};

/// How fast a recording is played.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Pace {
    /// All in the first sample.
    #[default]
    AtOnce,
    /// Recorded seconds in each second: 1 is as it was, 2 is twice as fast.
    Speed(f64),
}

/// What times the readings of a recording get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Times {
    /// Those they were recorded with.
    #[default]
    AsRecorded,
    /// Moved so that the recording starts when it is first sampled. At a pace other than `Speed(1.0)` they then run
    /// ahead of the clock or stay behind it.
    FromNow,
}

/// How to play a recording.
///
/// ```
/// use ergometer_telemetry::{Timeline, sensors::replay::{Pace, Replay, Times}};
///
/// let replay = Replay { pace: Pace::Speed(1.0), times: Times::FromNow };
/// assert!(replay.sensors(&Timeline::default()).unwrap().is_empty());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Replay {
    /// How fast.
    pub pace: Pace,
    /// At what times.
    pub times: Times,
}

/// The error of a speed at which nothing would ever be played.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("cannot play a recording at speed {0}. hint: a speed is a number above 0, 1 is as it was recorded")]
pub struct InvalidSpeed(pub f64);

impl Replay {
    /// Sensors that play the timeline, in the order in which they were recorded. Its events come with the first.
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

/// One recorded sensor, being played.
struct ReplaySensor {
    replay: Replay,
    recording: Arc<Timeline>,
    /// When the first of the sensors was first sampled.
    started: Arc<OnceLock<Timestamp>>,
    info: SensorInfo,
    channels: Vec<Channel>,
    ids: Vec<ChannelId>,
    /// Of each channel, how many readings were played.
    played: Vec<usize>,
    /// The events still to be played.
    events: Vec<Event>,
}

impl ReplaySensor {
    /// The time in the recording that is now, and how far the recording's times are moved.
    fn position(&self, clock: &Clock) -> (i64, i64) {
        let now = clock.now();
        let started = *self.started.get_or_init(|| now);
        let Some(span) = self.recording.span() else { return (i64::MAX, 0) };
        let due_ns = match self.replay.pace {
            Pace::AtOnce => i64::MAX,
            Pace::Speed(speed) => (span.start() + Seconds::new((now - started).get() * speed)).nanos_since_epoch(),
        };
        let shift_ns = match self.replay.times {
            Times::AsRecorded => 0,
            Times::FromNow => started.nanos_since_epoch().saturating_sub(span.start().nanos_since_epoch()),
        };
        (due_ns, shift_ns)
    }

    /// The places of a channel's readings that are due and not played.
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
        let moved =
            |time: Timestamp| Timestamp::from_nanos_since_epoch(time.nanos_since_epoch().saturating_add(shift_ns));
        for channel in 0..self.ids.len() {
            let range = self.due(channel, due_ns);
            self.played[channel] = range.end;
            let column = self.recording.column(self.ids[channel]);
            batch.readings.extend(range.filter_map(|place| column.get(place)).map(|point| Reading {
                channel,
                after: moved(point.after),
                at: moved(point.at),
                value: point.value,
            }));
        }
        // Events after the last reading would keep a sensor waiting for nothing: they come with it.
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
    fn at_once_everything_comes_in_one_sample_as_it_was() {
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
    fn at_a_pace_only_what_is_due_comes() {
        let mut sensor = only_sensor(Replay { pace: Pace::Speed(1e-3), times: Times::FromNow });
        let (clock, mut batch) = (Clock::start(), Batch::default());
        let before = clock.now();
        sensor.sample(&clock, &mut batch).unwrap();
        sensor.sample(&clock, &mut batch).unwrap();
        assert_eq!((batch.readings.len(), batch.events.len()), (1, 0), "the rest is 999,000 s away");
        let reading = batch.readings[0];
        assert!(before <= reading.at && reading.at <= clock.now(), "moved to now");
        assert_eq!((reading.at - reading.after).as_nanos(), 7);
    }

    #[test]
    fn at_a_great_pace_it_ends() {
        let mut sensor = only_sensor(Replay { pace: Pace::Speed(1e15), times: Times::AsRecorded });
        let (clock, mut batch) = (Clock::start(), Batch::default());
        while sensor.sample(&clock, &mut batch).is_ok() {}
        assert_eq!((batch.readings.len(), batch.events.len()), (2, 1));
    }

    #[test]
    fn a_speed_is_above_zero() {
        for speed in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let replay = Replay { pace: Pace::Speed(speed), times: Times::AsRecorded };
            assert!(replay.sensors(&recorded()).is_err(), "{speed}");
        }
    }

    #[test]
    fn a_tap_records_what_the_sampler_saw() {
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
