//! Sensors with a known power: a GPU with a power ring and an energy counter, and a modelled CPU.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ergometer::run::{Machine, Sensing};
use ergometer_runs::record::GpuColumn;
use ergometer_telemetry::SystemInfo;
use ergometer_telemetry::{
    Batch, Channel, Clock, DeviceId, EventKind, Provenance, Scope, Sensor, SensorError, SensorInfo, Signal,
};
use ergometer_units::{Seconds, Timestamp};

/// The power of the GPU.
pub(crate) const GPU_W: f64 = 200.0;
/// The modelled power of the CPU.
pub(crate) const CPU_W: f64 = 50.0;

/// A GPU of constant power. While `silent` is set it has no readings, but its counter advances.
struct Gpu {
    info: SensorInfo,
    channels: Vec<Channel>,
    began: Option<Timestamp>,
    silent: Arc<AtomicBool>,
}

struct Cpu {
    info: SensorInfo,
    channels: Vec<Channel>,
    last: Option<Timestamp>,
}

fn channel(device: DeviceId, scope: Scope, signal: Signal, provenance: Provenance, period: f64) -> Channel {
    Channel { device, scope, signal, provenance, update_period: Some(Seconds::new(period)) }
}

/// A GPU of constant power, with this index.
pub(crate) fn gpu(index: u32, silent: &Arc<AtomicBool>) -> Box<dyn Sensor> {
    let device = DeviceId::gpu(index);
    let gauge = |signal| channel(device, Scope::Device, signal, Provenance::Gauge, 0.02);
    Box::new(Gpu {
        info: SensorInfo {
            id: format!("scripted-gpu:{index}"),
            name: String::from("NVIDIA H200"),
            device,
            interval: Duration::from_millis(20),
        },
        channels: vec![
            channel(device, Scope::Device, Signal::PowerRing, Provenance::SampledPower, 0.02),
            channel(device, Scope::Device, Signal::Energy, Provenance::Counter, 0.02),
            gauge(Signal::Utilization),
            gauge(Signal::MemoryUsed),
            gauge(Signal::Temperature),
        ],
        began: None,
        silent: Arc::clone(silent),
    })
}

/// A GPU with few readings: of its power and its counter, every 50 ms.
pub(crate) fn slow_gpu() -> Box<dyn Sensor> {
    let device = DeviceId::gpu(0);
    let info = SensorInfo {
        id: String::from("scripted-gpu:0"),
        name: String::from("NVIDIA H200"),
        device,
        interval: Duration::from_millis(50),
    };
    let channels = vec![
        channel(device, Scope::Device, Signal::PowerRing, Provenance::SampledPower, 0.05),
        channel(device, Scope::Device, Signal::Energy, Provenance::Counter, 0.05),
    ];
    Box::new(Gpu { info, channels, began: None, silent: Arc::default() })
}

/// A CPU whose constant power is modelled.
pub(crate) fn cpu() -> Box<dyn Sensor> {
    let device = DeviceId::cpu(0);
    Box::new(Cpu {
        info: SensorInfo {
            id: String::from("scripted-cpu:0"),
            name: String::from("Abacus"),
            device,
            interval: Duration::from_millis(50),
        },
        channels: vec![channel(device, Scope::Package, Signal::PowerModelled, Provenance::Modelled, 0.05)],
        last: None,
    })
}

/// A sensor whose last sample has an event that is too long for a recording.
pub(crate) fn unwritable_at_the_end() -> Box<dyn Sensor> {
    let device = DeviceId::cpu(0);
    Box::new(UnwritableAtTheEnd {
        info: SensorInfo {
            id: String::from("unwritable:0"),
            name: String::from("Abacus"),
            device,
            interval: Duration::from_secs(3600),
        },
        channels: vec![channel(device, Scope::Package, Signal::Utilization, Provenance::Gauge, 3600.0)],
        is_first: true,
    })
}

/// A machine with these sensors, and an H200 if one of them is a GPU.
pub(crate) fn machine(sensors: Vec<Box<dyn Sensor>>) -> Sensing {
    let gpus = sensors.iter().filter(|sensor| sensor.info().id.contains("gpu")).map(|sensor| GpuColumn {
        name: sensor.info().name.clone(),
        vendor: String::from("NVIDIA"),
        device_id: sensor.info().device.index.into(),
        device_type: String::from("gpu"),
        backend: String::from("scripted"),
    });
    let gpus = gpus.collect();
    let system = SystemInfo { cpu_brand: Some(String::from("Abacus 3000")), ..SystemInfo::default() };
    Sensing { sensors, machine: Machine { system, gpus } }
}

/// The machine of most tests: one GPU and one CPU.
pub(crate) fn whole() -> Sensing {
    machine(vec![gpu(0, &Arc::default()), cpu()])
}

/// A machine without any sensor.
pub(crate) fn blind() -> Sensing {
    machine(Vec::new())
}

struct UnwritableAtTheEnd {
    info: SensorInfo,
    channels: Vec<Channel>,
    is_first: bool,
}

impl Sensor for UnwritableAtTheEnd {
    fn info(&self) -> &SensorInfo {
        &self.info
    }

    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn sample(&mut self, clock: &Clock, batch: &mut Batch) -> Result<(), SensorError> {
        // Between the first sample and the one when the sampler stops, an hour would have to pass.
        if !std::mem::take(&mut self.is_first) {
            batch.event(clock.now(), EventKind::ReadFailed, "x".repeat(65 << 20));
        }
        Ok(())
    }
}

impl Sensor for Gpu {
    fn info(&self) -> &SensorInfo {
        &self.info
    }

    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn sample(&mut self, clock: &Clock, batch: &mut Batch) -> Result<(), SensorError> {
        let at = clock.now();
        let began = *self.began.get_or_insert(at);
        if !self.silent.load(Ordering::Relaxed) {
            // An energy counter counts since the driver was loaded, not from zero.
            let joules = 1e5 + GPU_W * (at - began).get();
            let values = [GPU_W, joules, 80.0, 5e9, 61.0];
            values
                .into_iter()
                .take(self.channels.len())
                .enumerate()
                .for_each(|(channel, value)| batch.push(channel, at, value));
        }
        Ok(())
    }
}

impl Sensor for Cpu {
    fn info(&self) -> &SensorInfo {
        &self.info
    }

    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn sample(&mut self, clock: &Clock, batch: &mut Batch) -> Result<(), SensorError> {
        let at = clock.now();
        if let Some(after) = self.last.replace(at) {
            batch.readings.push(ergometer_telemetry::Reading { channel: 0, after, at, value: CPU_W });
        }
        Ok(())
    }
}
