//! The latest value of every channel, by device, at one moment.

use std::collections::BTreeSet;
use std::time::Duration;

use ergometer_sensors::processes::{Process, ProcessTable};
use ergometer_telemetry::{DeviceId, MeteredScope, Scope, Signal, ThrottleReasons, Timeline};
use ergometer_units::{Bytes, Seconds};
use serde::Serialize;

use crate::latest::{self, Now};
use crate::ledger::Ledger;
use crate::watcher::Shares;

/// All devices at one moment. Energies are provisional: counters and summed power, without an interval.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tick {
    /// The time of the latest reading, in microseconds since the Unix epoch.
    pub time_us: i64,
    /// Seconds since the start; for a recording, in its own time.
    pub elapsed_s: f64,
    /// How the recording is played, where one is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayTick>,
    /// Power and energy of the whole machine.
    #[serde(flatten)]
    pub total: MachineTick,
    /// The file that readings are recorded to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recording: Option<String>,
    /// Every device.
    pub devices: Vec<DeviceTick>,
    /// The part of the CPU's energy that no listed process has, where energy is split among processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_energy_rest_j: Option<f64>,
    /// Every process, where processes are listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<Vec<ProcessTick>>,
}

/// How a recording is played.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ReplayTick {
    /// How many times faster than real time; `None` if played at once.
    pub speed: Option<f64>,
    /// The length of the recording in seconds.
    pub length_s: f64,
}

/// Power and energy of the whole machine, measured and modelled separately. No device is counted twice.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct MachineTick {
    /// The measured power of all devices that are not silent.
    pub measured_power_w: Option<f64>,
    /// The measured energy since the start.
    pub measured_energy_j: Option<f64>,
    /// The modelled power.
    pub modelled_power_w: Option<f64>,
    /// The modelled energy since the start.
    pub modelled_energy_j: Option<f64>,
    /// How many devices are measured.
    pub measured_devices: usize,
    /// How many measured devices are silent.
    pub silent_devices: usize,
}

/// One device at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceTick {
    /// The device, such as `gpu:0`.
    pub device: String,
    /// The name of the hardware.
    pub name: String,
    /// The power; `None` also if the sensor is silent.
    pub power_w: Option<f64>,
    /// How long the power sensor has been silent, if that is too long for its last value to be current.
    pub silent_s: Option<f64>,
    /// The signal that the power comes from.
    pub power_source: Option<Signal>,
    /// The energy since the start.
    pub energy_j: Option<f64>,
    /// The signal that the energy comes from.
    pub energy_source: Option<Signal>,
    /// The power of the device's memory.
    pub memory_power_w: Option<f64>,
    /// How busy the device is.
    pub utilization_pct: Option<f64>,
    /// How busy its memory is.
    pub memory_utilization_pct: Option<f64>,
    /// How busy its streaming multiprocessors are.
    pub sm_activity_pct: Option<f64>,
    /// How busy its tensor cores are.
    pub tensor_activity_pct: Option<f64>,
    /// How busy its DRAM interface is.
    pub dram_activity_pct: Option<f64>,
    /// The memory in use.
    pub memory_used_bytes: Option<u64>,
    /// The memory of the device.
    pub memory_total_bytes: Option<u64>,
    /// The temperature.
    pub temperature_c: Option<f64>,
    /// The temperature of the hottest point.
    pub temperature_hotspot_c: Option<f64>,
    /// The core clock.
    pub clock_core_mhz: Option<f64>,
    /// The memory clock.
    pub clock_memory_mhz: Option<f64>,
    /// Why the clocks are throttled, in words; `None` if the device does not report it.
    pub throttle_reasons: Option<Vec<String>>,
}

/// One process. Percentages are since the previous list of processes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProcessTick {
    /// The process id.
    pub pid: u32,
    /// The user.
    pub user: Option<String>,
    /// The name of the program.
    pub name: Option<String>,
    /// The command line.
    pub command: Option<String>,
    /// The CPU time in percent of one processor.
    pub cpu_pct: Option<f64>,
    /// The CPU time since the process started.
    pub cpu_s: Option<f64>,
    /// The resident memory.
    pub memory_bytes: Option<u64>,
    /// The GPUs that the process uses.
    pub gpus: Vec<GpuTick>,
    /// The share of the CPU's energy since the start, by CPU time, where energy is split among processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_energy_by_cpu_time_j: Option<f64>,
}

/// How a process uses one GPU.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GpuTick {
    /// The device, such as `gpu:0`.
    pub device: String,
    /// The GPU memory of the process.
    pub memory_bytes: Option<u64>,
    /// How busy the process keeps the GPU.
    pub utilization_pct: Option<f64>,
    /// How busy the process keeps the GPU's memory.
    pub memory_utilization_pct: Option<f64>,
}

impl Tick {
    /// The ledger must have counted every reading of the timeline.
    pub(crate) fn new(timeline: &Timeline, now: Now, elapsed: Duration, ledger: &Ledger) -> Self {
        let devices = timeline.devices().into_iter();
        let devices = devices.map(|device| DeviceTick::new(timeline, now, device, ledger)).collect();
        let time_us = timeline.span().map_or(0, |span| span.end().micros_since_epoch());
        let total = MachineTick::new(timeline, now, ledger);
        Self {
            time_us,
            elapsed_s: elapsed.as_secs_f64(),
            replay: None,
            total,
            recording: None,
            devices,
            cpu_energy_rest_j: None,
            processes: None,
        }
    }
}

impl MachineTick {
    fn new(timeline: &Timeline, now: Now, ledger: &Ledger) -> Self {
        let mut total = Self::default();
        let (mut measured, mut silent) = (BTreeSet::new(), BTreeSet::new());
        for part in MeteredScope::all(timeline) {
            let latest = latest::power(timeline, part.device, part.scope, now);
            let power = latest.filter(|&power| now.silence(timeline, part.device, power).is_none());
            if part.summed {
                measured.insert(part.device);
            }
            if part.summed && latest.is_some() && power.is_none() {
                silent.insert(part.device);
            }
            let energy = ledger.energy(timeline, part.device, part.scope).map(|(_, joules)| joules.get());
            if part.summed {
                add(&mut total.measured_power_w, power.map(|power| power.watts));
                add(&mut total.measured_energy_j, energy);
            } else if !part.measured && latest.is_some_and(|latest| latest.signal == Signal::PowerModelled) {
                add(&mut total.modelled_power_w, power.map(|power| power.watts));
                add(&mut total.modelled_energy_j, energy);
            }
        }
        (total.measured_devices, total.silent_devices) = (measured.len(), silent.len());
        total
    }
}

fn add(sum: &mut Option<f64>, value: Option<f64>) {
    if let Some(value) = value {
        *sum = Some(sum.unwrap_or(0.0) + value);
    }
}

impl DeviceTick {
    pub(crate) fn new(timeline: &Timeline, now: Now, device: DeviceId, ledger: &Ledger) -> Self {
        let last = |signal| latest::last(timeline, device, signal);
        let silence = |power| now.silence(timeline, device, power);
        let power = latest::main_power(timeline, device, now);
        let energy = match power {
            Some((scope, _)) => ledger.energy(timeline, device, scope),
            None => latest::MAIN_SCOPES.into_iter().find_map(|scope| ledger.energy(timeline, device, scope)),
        };
        let power = power.map(|(_, power)| power);
        let silent = power.and_then(silence);
        let memory_power =
            latest::power(timeline, device, Scope::Memory, now).filter(|&power| silence(power).is_none());
        Self {
            device: device.to_string(),
            name: timeline.device_name(device).unwrap_or_default().to_owned(),
            power_w: power.filter(|_| silent.is_none()).map(|power| power.watts),
            silent_s: silent.map(Seconds::get),
            power_source: power.map(|power| power.signal),
            energy_j: energy.map(|(_, joules)| joules.get()),
            energy_source: energy.map(|(signal, _)| signal),
            memory_power_w: memory_power.map(|power| power.watts),
            utilization_pct: last(Signal::Utilization),
            memory_utilization_pct: last(Signal::MemoryUtilization),
            sm_activity_pct: last(Signal::SmActivity),
            tensor_activity_pct: last(Signal::TensorActivity),
            dram_activity_pct: last(Signal::DramActivity),
            memory_used_bytes: last(Signal::MemoryUsed).map(to_count),
            memory_total_bytes: last(Signal::MemoryTotal).map(to_count),
            temperature_c: last(Signal::Temperature),
            temperature_hotspot_c: last(Signal::TemperatureHotspot),
            clock_core_mhz: last(Signal::ClockCore),
            clock_memory_mhz: last(Signal::ClockMemory),
            throttle_reasons: last(Signal::ThrottleReasons).map(|bits| ThrottleReasons::from_reading(bits).names()),
        }
    }

    /// `~` before modelled power and energy, nothing before measured.
    #[must_use]
    pub fn modelled_mark(&self) -> &'static str {
        if self.power_source == Some(Signal::PowerModelled) { "~" } else { "" }
    }

    /// Used and total memory: `1.7/140 GiB`.
    #[must_use]
    pub fn memory(&self) -> Option<String> {
        let used = gibibytes(self.memory_used_bytes?);
        Some(match self.memory_total_bytes {
            Some(total) => format!("{used:.1}/{:.0} GiB", gibibytes(total)),
            None => format!("{used:.1} GiB"),
        })
    }
}

pub(crate) fn gibibytes(bytes: u64) -> f64 {
    Bytes::new(bytes).as_mebibytes() / 1024.0
}

/// The CPU time of a process in percent of one processor.
pub(crate) fn cpu_percent(process: &Process, table: &ProcessTable) -> Option<f64> {
    let since = table.since_last.get();
    process.cpu.filter(|_| since > 0.0).map(|cpu| cpu.get() / since * 100.0)
}

/// The processes of a table as ticks.
pub(crate) fn process_ticks(table: &ProcessTable, shares: Option<&Shares>) -> Vec<ProcessTick> {
    let process_tick = |process: &Process| ProcessTick {
        pid: process.id,
        user: process.user.clone(),
        name: process.name.clone(),
        command: process.command.clone(),
        cpu_pct: cpu_percent(process, table),
        cpu_s: process.cpu_total.map(Seconds::get),
        memory_bytes: process.memory.map(Bytes::get),
        cpu_energy_by_cpu_time_j: shares.and_then(|shares| shares.by_process.get(&process.id).copied()),
        gpus: process
            .gpus
            .iter()
            .map(|gpu| GpuTick {
                device: gpu.device.to_string(),
                memory_bytes: gpu.memory.map(Bytes::get),
                utilization_pct: gpu.utilization_pct,
                memory_utilization_pct: gpu.memory_utilization_pct,
            })
            .collect(),
    };
    table.processes.iter().map(process_tick).collect()
}

/// A count from a column of floats; exact below 2^53.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts saturate at the ends")]
fn to_count(count: f64) -> u64 {
    count.round() as u64
}

#[cfg(test)]
mod tests {
    use ergometer_telemetry::{Batch, Channel, Provenance, SensorInfo};
    use ergometer_units::Timestamp;

    use super::*;

    /// GPUs of 100 W, 200 W …, each read once a second from 0 to its last second.
    fn timeline(last_seconds: &[i64]) -> Timeline {
        let mut timeline = Timeline::default();
        for (index, &last) in (0..).zip(last_seconds) {
            let device = DeviceId::gpu(index);
            let (signal, provenance) = (Signal::PowerInstant, Provenance::SampledPower);
            let channel = Channel { device, scope: Scope::Device, signal, provenance, update_period: None };
            let interval = Duration::from_secs(1);
            let info = SensorInfo { id: format!("power:{index}"), name: String::from("meter"), device, interval };
            let key = timeline.add_sensor(&info, &[channel]);
            let mut batch = Batch::default();
            for second in 0..=last {
                batch.push(0, time(second), 100.0 * f64::from(index + 1));
            }
            timeline.append(key, &batch);
        }
        timeline
    }

    fn time(second: i64) -> Timestamp {
        Timestamp::from_nanos_since_epoch(second * 1_000_000_000)
    }

    fn new_tick(timeline: &Timeline, now: Now) -> Tick {
        let mut ledger = Ledger::default();
        ledger.update(timeline);
        Tick::new(timeline, now, Duration::from_secs(20), &ledger)
    }

    #[test]
    fn a_silent_device_has_energy_but_no_power() {
        let timeline = timeline(&[20, 6]);
        let tick = new_tick(&timeline, Now { at: time(20), speed: 1.0 });
        let total = &tick.total;
        assert_eq!((total.measured_power_w, total.measured_devices, total.silent_devices), (Some(100.0), 2, 1));
        assert_eq!(total.measured_energy_j, Some(2000.0 + 1200.0));
        let power: Vec<_> = tick.devices.iter().map(|device| (device.power_w, device.silent_s)).collect();
        assert_eq!(power, [(Some(100.0), None), (None, Some(14.0))]);
        let line: serde_json::Value = serde_json::to_value(&tick).unwrap();
        assert_eq!((&line["devices"][1]["silent_s"], &line["silent_devices"]), (&14.0.into(), &1.into()));
        let all = new_tick(&timeline, Now { at: time(60), speed: 1.0 }).total;
        assert_eq!((all.measured_power_w, all.silent_devices), (None, 2));
    }

    #[test]
    fn silence_is_longer_in_a_fast_replay() {
        let timeline = timeline(&[20, 6]);
        let total = new_tick(&timeline, Now { at: time(20), speed: 10.0 }).total;
        assert_eq!((total.measured_power_w, total.silent_devices), (Some(300.0), 0));
    }
}
