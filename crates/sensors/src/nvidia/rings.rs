//! Samples the driver's rings: power about every 20 ms and utilization every 200 ms, both with the driver's timestamps.
//!
//! A ring holds 119 samples: 2.4 s of power or 24 s of utilization. Reading one keeps a core busy for 1-2 ms, so a ring
//! is read well before it is full and not more often: power every second, utilization every fourth time.

use std::sync::Arc;
use std::time::Duration;

use ergometer_telemetry::{Batch, Channel, Clock, Sensor, SensorError, SensorInfo};

use super::faults::Faults;
use super::library::{Nvml, Ring};
use super::ring::{RingContext, RingReader};
use super::{Now, Target};

const INTERVAL: Duration = Duration::from_secs(1);
/// The utilization is read with every fourth read of the power ring.
const UTILIZATION_EVERY: u32 = 4;

/// The rings of one GPU.
pub(super) struct RingSensor {
    info: SensorInfo,
    channels: Vec<Channel>,
    readers: Vec<RingReader>,
    nvml: Arc<dyn Nvml>,
    now: Now,
    faults: Faults,
    drains: u32,
}

impl RingSensor {
    /// A sensor of these rings.
    pub(super) fn new(target: &Target, rings: &[Ring]) -> Self {
        let readers: Vec<_> = rings.iter().map(|ring| RingReader::new(*ring)).collect();
        Self {
            info: target.info("power", INTERVAL),
            channels: readers.iter().map(|reader| reader.channel(target.device)).collect(),
            readers,
            nvml: target.nvml.clone(),
            now: target.now.clone(),
            faults: Faults::new(target.device),
            drains: 0,
        }
    }
}

impl Sensor for RingSensor {
    fn info(&self) -> &SensorInfo {
        &self.info
    }

    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn sample(&mut self, clock: &Clock, batch: &mut Batch) -> Result<(), SensorError> {
        let reads_all = self.drains.is_multiple_of(UTILIZATION_EVERY);
        self.drains = self.drains.wrapping_add(1);
        self.read(reads_all, clock, batch)
    }

    fn sample_last(&mut self, clock: &Clock, batch: &mut Batch) -> Result<(), SensorError> {
        self.read(true, clock, batch)
    }

    fn drain(&mut self, clock: &Clock, batch: &mut Batch) -> Result<(), SensorError> {
        self.read(true, clock, batch)
    }
}

impl RingSensor {
    fn read(&mut self, reads_all: bool, clock: &Clock, batch: &mut Batch) -> Result<(), SensorError> {
        let device = self.info.device;
        for (channel, reader) in self.readers.iter_mut().enumerate() {
            if reader.ring != Ring::Power && !reads_all {
                continue;
            }
            let outcome = self.nvml.ring(device.index, reader.ring, reader.newer_than_us());
            let end = (self.now)();
            if let Some(samples) = self.faults.settle(reader.what(), outcome, clock.at(end), batch)? {
                reader.push(samples, end, &mut RingContext { device, channel, clock, batch });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::library::{NvmlError, RingSample};
    use super::super::scripted::{Script, ScriptedNvml, Time};
    use super::*;
    use ergometer_telemetry::{EventKind, Signal};

    #[test]
    fn each_sample_is_read_once_and_a_failing_ring_does_not_stop_the_other() {
        let (clock, time) = (Clock::start(), Time::start());
        let now_us = u64::try_from(clock.at(time.now()).micros_since_epoch()).unwrap();
        let sample = |ago_ms: u64, value| RingSample { time_us: now_us - ago_ms * 1000, value };
        let script = Script {
            power_ring: Ok(vec![sample(60, 101.0), sample(40, 102.0), sample(20, 103.0)]),
            utilization_ring: Ok(vec![sample(150, 55.0)]),
            ..Script::default()
        };
        let nvml = ScriptedNvml::new(&time, vec![script]);
        let rings = [Ring::Power, Ring::GpuUtilization];
        let mut sensor = RingSensor::new(&nvml.target(0), &rings);
        assert_eq!(sensor.channels()[1].signal, Signal::Utilization);
        let mut batch = Batch::default();
        sensor.sample(&clock, &mut batch).unwrap();
        let found: Vec<_> = batch.readings.iter().map(|reading| (reading.channel, reading.value)).collect();
        assert_eq!(found, [(0, 101.0), (0, 102.0), (0, 103.0), (1, 55.0)]);
        batch.clear();
        sensor.sample_last(&clock, &mut batch).unwrap();
        assert!(batch.readings.is_empty(), "nothing is newer");

        nvml.change(0, |script| {
            script.power_ring = Err(NvmlError::Other("unknown error".into()));
            script.utilization_ring = Ok(vec![sample(0, 60.0)]);
        });
        sensor.sample(&clock, &mut batch).unwrap();
        assert!(batch.readings.is_empty(), "utilization is read later, its ring is long");
        sensor.sample_last(&clock, &mut batch).unwrap();
        assert_eq!((batch.readings.len(), batch.events.len()), (1, 1));
        assert_eq!(batch.events[0].kind, EventKind::ReadFailed);
        nvml.change(0, Script::lose);
        assert!(matches!(sensor.sample(&clock, &mut batch), Err(SensorError::Lost { .. })));
    }
}
