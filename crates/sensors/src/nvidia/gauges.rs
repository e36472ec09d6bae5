//! Samples current values of a GPU: power fields, memory, temperature, clocks and performance counters.
//!
//! Each sample gives one reading per value, from the start to the end of its read. Performance counters (GPM) are means
//! since the previous read. A gauge that fails does not stop the others.

use std::sync::Arc;
use std::time::Duration;

use ergometer_telemetry::{
    Batch, Channel, Clock, DeviceId, Provenance, Reading, Scope, Sensor, SensorError, SensorInfo, Signal,
};
use ergometer_units::{Seconds, Timestamp};

use super::faults::Faults;
use super::library::{ClockDomain, Nvml, NvmlError, PowerField};
use super::{Now, Target};

/// How often the gauges are read. One sample costs 0.3 ms of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// As often as the driver updates its power fields, because there is no power ring.
    Fast,
    /// Often enough for memory, temperature and clocks, because the power ring has the power.
    Slow,
}

impl Pace {
    const fn interval(self) -> Duration {
        match self {
            Self::Fast => Duration::from_millis(100),
            Self::Slow => Duration::from_millis(250),
        }
    }
}

/// The update period of the driver's power fields.
const POWER_PERIOD: Option<Seconds> = Some(Seconds::new(0.1));

/// One read of NVML with one to three values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gauge {
    PowerInstant,
    PowerAverage,
    MemoryPower,
    Memory,
    Temperature,
    ClockCore,
    ClockMemory,
    ThrottleReasons,
    /// Used if there is no utilization ring.
    Utilization,
    /// The performance counters (GPM).
    Activity,
}

/// The values of a gauge, in the order of its channels.
type Values = [Option<f64>; 3];

impl Gauge {
    pub(super) const ALL: [Self; 10] = [
        Self::PowerInstant,
        Self::PowerAverage,
        Self::MemoryPower,
        Self::Memory,
        Self::Temperature,
        Self::ClockCore,
        Self::ClockMemory,
        Self::ThrottleReasons,
        Self::Utilization,
        Self::Activity,
    ];

    /// The display name of the gauge.
    pub(super) const fn what(self) -> &'static str {
        match self {
            Self::PowerInstant => "instant power",
            Self::PowerAverage => "average power",
            Self::MemoryPower => "memory power",
            Self::Memory => "memory",
            Self::Temperature => "temperature",
            Self::ClockCore => "SM clock",
            Self::ClockMemory => "memory clock",
            Self::ThrottleReasons => "throttle reasons",
            Self::Utilization => "utilization",
            Self::Activity => "GPM",
        }
    }

    /// Reads the gauge once.
    pub(super) fn read(self, nvml: &dyn Nvml, gpu: u32) -> Result<Values, NvmlError> {
        let one = |value: f64| [Some(value), None, None];
        Ok(match self {
            Self::PowerInstant => one(nvml.power(gpu, PowerField::Instant)?.get()),
            Self::PowerAverage => one(nvml.power(gpu, PowerField::Average)?.get()),
            Self::MemoryPower => one(nvml.power(gpu, PowerField::MemoryAverage)?.get()),
            Self::Memory => {
                let memory = nvml.memory(gpu)?;
                [Some(memory.used.get() as f64), Some(memory.total.get() as f64), None]
            }
            Self::Temperature => one(nvml.temperature(gpu)?.get()),
            Self::ClockCore => one(f64::from(nvml.clock_mhz(gpu, ClockDomain::Sm)?)),
            Self::ClockMemory => one(f64::from(nvml.clock_mhz(gpu, ClockDomain::Memory)?)),
            // There are nine bits, which fit into a float.
            Self::ThrottleReasons => one(nvml.throttle_reasons(gpu)? as f64),
            Self::Utilization => {
                let found = nvml.utilization(gpu)?;
                [Some(f64::from(found.gpu_percent)), Some(f64::from(found.memory_percent)), None]
            }
            Self::Activity => {
                let found = nvml.activity(gpu)?.unwrap_or_default();
                [found.sm_percent, found.tensor_percent, found.dram_percent]
            }
        })
    }

    fn channels(self, device: DeviceId) -> Vec<Channel> {
        let (scope, signals): (Scope, &[Signal]) = match self {
            Self::PowerInstant => (Scope::Device, &[Signal::PowerInstant]),
            Self::PowerAverage => (Scope::Device, &[Signal::PowerAverage]),
            Self::MemoryPower => (Scope::Memory, &[Signal::PowerAverage]),
            Self::Memory => (Scope::Device, &[Signal::MemoryUsed, Signal::MemoryTotal]),
            Self::Temperature => (Scope::Device, &[Signal::Temperature]),
            Self::ClockCore => (Scope::Device, &[Signal::ClockCore]),
            Self::ClockMemory => (Scope::Device, &[Signal::ClockMemory]),
            Self::ThrottleReasons => (Scope::Device, &[Signal::ThrottleReasons]),
            Self::Utilization => (Scope::Device, &[Signal::Utilization, Signal::MemoryUtilization]),
            Self::Activity => (Scope::Device, &[Signal::SmActivity, Signal::TensorActivity, Signal::DramActivity]),
        };
        let (provenance, update_period) = match self {
            Self::PowerInstant => (Provenance::SampledPower, POWER_PERIOD),
            Self::PowerAverage | Self::MemoryPower => (Provenance::AveragedPower, POWER_PERIOD),
            _ => (Provenance::Gauge, None),
        };
        signals.iter().map(|&signal| Channel { device, scope, signal, provenance, update_period }).collect()
    }
}

/// The gauges of one GPU.
pub(super) struct GaugeSensor {
    info: SensorInfo,
    channels: Vec<Channel>,
    /// Each gauge with the index of its first channel.
    gauges: Vec<(Gauge, usize)>,
    nvml: Arc<dyn Nvml>,
    now: Now,
    faults: Faults,
    /// When the performance counters were last read.
    counters_read: Option<Timestamp>,
}

impl GaugeSensor {
    /// A sensor of these gauges.
    pub(super) fn new(target: &Target, found: &[Gauge], pace: Pace) -> Self {
        let mut channels = Vec::new();
        let mut gauges = Vec::new();
        for gauge in found {
            gauges.push((*gauge, channels.len()));
            channels.extend(gauge.channels(target.device));
        }
        Self {
            info: target.info("gauges", pace.interval()),
            channels,
            gauges,
            nvml: target.nvml.clone(),
            now: target.now.clone(),
            faults: Faults::new(target.device),
            counters_read: None,
        }
    }
}

impl Sensor for GaugeSensor {
    fn info(&self) -> &SensorInfo {
        &self.info
    }

    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn sample(&mut self, clock: &Clock, batch: &mut Batch) -> Result<(), SensorError> {
        for &(gauge, first_channel) in &self.gauges {
            let start = clock.at((self.now)());
            let outcome = gauge.read(self.nvml.as_ref(), self.info.device.index);
            let at = clock.at((self.now)());
            let Some(values) = self.faults.settle(gauge.what(), outcome, at, batch)? else { continue };
            let after = if gauge == Gauge::Activity {
                // The first period began when the GPU was probed, so its values are not used.
                let Some(before) = self.counters_read.replace(at) else { continue };
                before
            } else {
                start
            };
            for (channel, value) in (first_channel..).zip(values) {
                if let Some(value) = value {
                    batch.readings.push(Reading { channel, after, at, value });
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::scripted::{Script, ScriptedNvml, Time};
    use super::*;
    use ergometer_telemetry::EventKind;

    fn bench() -> (Clock, Time, Arc<ScriptedNvml>, GaugeSensor) {
        let (clock, time) = (Clock::start(), Time::start());
        let nvml = ScriptedNvml::new(&time, vec![Script::default()]);
        let sensor = GaugeSensor::new(&nvml.target(0), &Gauge::ALL, Pace::Fast);
        (clock, time, nvml, sensor)
    }

    fn value(sensor: &GaugeSensor, batch: &Batch, scope: Scope, signal: Signal) -> Option<f64> {
        let place = sensor.channels().iter().position(|channel| channel.scope == scope && channel.signal == signal)?;
        batch.readings.iter().find(|reading| reading.channel == place).map(|reading| reading.value)
    }

    #[test]
    fn every_gauge_has_its_channel() {
        let (clock, time, _, mut sensor) = bench();
        let mut batch = Batch::default();
        sensor.sample(&clock, &mut batch).unwrap();
        assert_eq!(
            value(&sensor, &batch, Scope::Device, Signal::SmActivity),
            None,
            "the first read only starts a period"
        );
        let began = clock.at(time.now());
        batch.clear();
        time.pass(Pace::Fast.interval());
        sensor.sample(&clock, &mut batch).unwrap();
        let found = |scope, signal| value(&sensor, &batch, scope, signal);
        assert_eq!(found(Scope::Device, Signal::PowerInstant), Some(100.0));
        assert_eq!(found(Scope::Memory, Signal::PowerAverage), Some(20.0));
        assert_eq!(found(Scope::Device, Signal::MemoryTotal), Some(f64::from(139) * f64::from(1 << 30)));
        assert_eq!(found(Scope::Device, Signal::Temperature), Some(40.0));
        assert_eq!(found(Scope::Device, Signal::ClockMemory), Some(3201.0));
        assert_eq!(found(Scope::Device, Signal::ThrottleReasons), Some(4.0), "the power cap");
        assert_eq!(found(Scope::Device, Signal::MemoryUtilization), Some(10.0));
        assert_eq!(found(Scope::Device, Signal::TensorActivity), Some(40.0));
        assert_eq!(found(Scope::Device, Signal::DramActivity), None, "unsupported: absent, not zero");
        assert!(batch.readings.iter().all(|reading| reading.after <= reading.at));
        let activity = batch.readings.iter().find(|reading| reading.value == 80.0).unwrap();
        assert_eq!(activity.after, began, "a mean since the previous read");
    }

    #[test]
    fn a_failing_gauge_does_not_stop_the_others() {
        let (clock, _, nvml, mut sensor) = bench();
        nvml.change(0, |script| script.temperature = Err(NvmlError::NoPermission));
        let mut batch = Batch::default();
        for _ in 0..5 {
            sensor.sample(&clock, &mut batch).unwrap();
        }
        assert_eq!(batch.events.len(), 1, "reported once");
        assert_eq!(batch.events[0].kind, EventKind::ReadFailed);
        assert_eq!(value(&sensor, &batch, Scope::Device, Signal::Temperature), None);
        assert_eq!(value(&sensor, &batch, Scope::Device, Signal::ClockCore), Some(1980.0));
    }
}
