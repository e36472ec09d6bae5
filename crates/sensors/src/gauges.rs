//! Samples current values: files of hwmon, of a GPU's driver or of a battery.
//!
//! Each sample gives one reading per source, from the start to the end of its read. A source that fails does not stop
//! the others and is reported once until it works again. A source that is gone is reported and not read again. A source
//! without a current value gives no reading, never a zero. The sensor ends when its last source is gone.

use std::io;

use ergometer_diagnostics::Message;
use ergometer_telemetry::{Batch, Channel, Clock, EventKind, Reading, Sensor, SensorError, SensorInfo};

use crate::sysfs::{Attribute, is_gone};

/// One value that can be read again and again.
pub(super) trait ReadGauge: Send {
    /// The current value in the unit of its channel's signal, or `None` if there is none now.
    fn read(&mut self) -> io::Result<Option<f64>>;
}

/// A number in a file, times a factor that converts it to the unit of its signal.
pub(super) struct ScaledFile {
    pub(super) file: Attribute,
    pub(super) factor: f64,
}

impl ReadGauge for ScaledFile {
    fn read(&mut self) -> io::Result<Option<f64>> {
        Ok(Some(self.file.read::<f64>()? * self.factor))
    }
}

/// The product of the numbers in two files (a voltage and a current), times a factor.
pub(super) struct FileProduct {
    pub(super) files: [Attribute; 2],
    pub(super) factor: f64,
}

impl ReadGauge for FileProduct {
    fn read(&mut self) -> io::Result<Option<f64>> {
        let [first, second] = &mut self.files;
        Ok(Some(first.read::<f64>()? * second.read::<f64>()? * self.factor))
    }
}

/// A source with its channel and name.
pub(super) struct Gauge {
    /// The channel of its readings.
    pub(super) channel: Channel,
    /// The display name: `power of VDD_IN`.
    pub(super) what: String,
    /// The source of the value.
    pub(super) source: Box<dyn ReadGauge>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Works,
    /// The last read failed, which an event has reported.
    Fails,
    Gone,
}

/// The gauges of one device.
pub(super) struct Gauges {
    info: SensorInfo,
    channels: Vec<Channel>,
    sources: Vec<(Gauge, State)>,
    /// The error when the last source is gone.
    gone: Message,
}

impl Gauges {
    pub(super) fn new(info: SensorInfo, gauges: Vec<Gauge>, gone: impl Into<Message>) -> Self {
        let channels = gauges.iter().map(|gauge| gauge.channel.clone()).collect();
        let sources = gauges.into_iter().map(|gauge| (gauge, State::Works)).collect();
        Self { info, channels, sources, gone: gone.into() }
    }
}

impl Sensor for Gauges {
    fn info(&self) -> &SensorInfo {
        &self.info
    }

    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn sample(&mut self, clock: &Clock, batch: &mut Batch) -> Result<(), SensorError> {
        for (channel, (gauge, state)) in self.sources.iter_mut().enumerate() {
            if *state == State::Gone {
                continue;
            }
            let after = clock.now();
            let value = gauge.source.read();
            let at = clock.now();
            let error = match value {
                Ok(Some(value)) if value.is_finite() => {
                    *state = State::Works;
                    batch.readings.push(Reading { channel, after, at, value });
                    continue;
                }
                Ok(None) => {
                    *state = State::Works;
                    continue;
                }
                Ok(Some(_)) => io::Error::new(io::ErrorKind::InvalidData, "not a finite number"),
                Err(error) => error,
            };
            let message = format!("cannot read {} ({}): {error}", gauge.what, gauge.channel.device);
            if is_gone(&error) {
                *state = State::Gone;
                batch.event(at, EventKind::DeviceLost, message);
            } else if *state == State::Works {
                *state = State::Fails;
                batch.event(at, EventKind::ReadFailed, message);
            }
        }
        if self.sources.iter().all(|(_, state)| *state == State::Gone) {
            return Err(SensorError::Lost { device: self.info.device, reason: self.gone.clone() });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::time::Duration;

    use super::*;
    use ergometer_telemetry::{DeviceId, Provenance, Scope, Signal};

    struct Script(VecDeque<Result<Option<f64>, io::ErrorKind>>);

    impl ReadGauge for Script {
        fn read(&mut self) -> io::Result<Option<f64>> {
            self.0.pop_front().unwrap_or(Err(io::ErrorKind::NotFound)).map_err(Into::into)
        }
    }

    fn sensor(scripts: &[&[Result<Option<f64>, io::ErrorKind>]]) -> Gauges {
        let device = DeviceId::rail(0);
        let info = SensorInfo {
            id: "rails".to_owned(),
            name: "rails".to_owned(),
            device,
            interval: Duration::from_millis(100),
        };
        let gauge = |script: &&[Result<Option<f64>, io::ErrorKind>]| Gauge {
            channel: Channel {
                device,
                scope: Scope::Rail,
                signal: Signal::PowerInstant,
                provenance: Provenance::SampledPower,
                update_period: None,
            },
            what: "power of VDD".to_owned(),
            source: Box::new(Script(script.iter().copied().collect())),
        };
        Gauges::new(info, scripts.iter().map(gauge).collect(), "the driver left")
    }

    #[test]
    fn a_failing_source_is_reported_once_and_does_not_stop_the_others() {
        let broken = Err(io::ErrorKind::InvalidData);
        let mut sensor = sensor(&[&[broken, broken, Ok(Some(1.0)), broken, Ok(None)], &[Ok(Some(2.0)); 5]]);
        let clock = Clock::start();
        let mut batch = Batch::default();
        let counts: Vec<(usize, usize)> = (0..5)
            .map(|_| {
                batch.clear();
                sensor.sample(&clock, &mut batch).unwrap();
                (batch.readings.len(), batch.events.len())
            })
            .collect();
        assert_eq!(counts, [(1, 1), (1, 0), (2, 0), (1, 1), (1, 0)]);
    }

    #[test]
    fn the_sensor_ends_when_its_last_source_is_gone() {
        let mut sensor = sensor(&[&[Ok(Some(f64::NAN))], &[Ok(Some(2.0)); 2]]);
        let clock = Clock::start();
        let mut batch = Batch::default();
        sensor.sample(&clock, &mut batch).unwrap();
        sensor.sample(&clock, &mut batch).unwrap();
        let kinds: Vec<EventKind> = batch.events.iter().map(|event| event.kind).collect();
        assert_eq!(kinds, [EventKind::ReadFailed, EventKind::DeviceLost]);
        let error = sensor.sample(&clock, &mut batch).unwrap_err();
        assert!(matches!(error, SensorError::Lost { reason, .. } if reason.text == "the driver left"));
    }
}
