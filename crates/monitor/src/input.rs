//! The sensors that a monitor samples: those of this machine, or those of a recording.

use std::fmt;
use std::time::Duration;

use ergometer_sensors::host::read_system_info;
use ergometer_sensors::replay::{InvalidSpeed, Pace, Replay, Times};
use ergometer_telemetry::{Channel, DeviceId, DeviceKind, Provenance, Sensor, Timeline};

use crate::source::{Playback, Source};

/// Sensors and the name of the machine they measure.
pub struct Input {
    pub(crate) sensors: Vec<Box<dyn Sensor>>,
    pub(crate) host: String,
    pub(crate) source: Source,
}

impl Input {
    /// Sensors of this machine.
    #[must_use]
    pub fn machine(sensors: Vec<Box<dyn Sensor>>) -> Self {
        let host = read_system_info().host_name.unwrap_or_else(|| String::from("this machine"));
        Self { sensors, host, source: Source::Machine }
    }

    /// A recording, played from now on, from the time at which sampling started. Its processes are unknown, and it
    /// cannot be recorded.
    pub fn recording(timeline: &Timeline, pace: Pace) -> Result<Self, InvalidSpeed> {
        let sensors = Replay { pace, times: Times::FromNow }.sensors(timeline)?;
        let host = timeline.device_name(DeviceId::host()).unwrap_or("a recording").to_owned();
        let length = timeline.sampling_start().zip(timeline.span()).map(|(start, span)| (span.end() - start).get());
        let length = Duration::from_secs_f64(length.unwrap_or(0.0).max(0.0));
        Ok(Self { sensors, host, source: Source::Recording(Playback { pace, length }) })
    }

    pub(crate) fn has_gpus(&self) -> bool {
        self.sensors.iter().any(|sensor| sensor.info().device.kind == DeviceKind::Gpu)
    }

    /// Whether some channel measures or models the energy of the CPU.
    pub(crate) fn has_cpu_energy(&self) -> bool {
        let is_cpu_energy =
            |channel: &Channel| channel.device.kind == DeviceKind::Cpu && channel.provenance != Provenance::Gauge;
        self.sensors.iter().flat_map(|sensor| sensor.channels()).any(is_cpu_energy)
    }
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sensors: Vec<&str> = self.sensors.iter().map(|sensor| sensor.info().id.as_str()).collect();
        f.debug_struct("Input")
            .field("host", &self.host)
            .field("source", &self.source)
            .field("sensors", &sensors)
            .finish()
    }
}
