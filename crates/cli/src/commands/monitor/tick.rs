//! What the sensors say at one moment: the latest value of every channel, by device.

use std::collections::BTreeSet;
use std::time::Duration;

use ergometer_sensors::processes::{Process, ProcessTable};
use ergometer_telemetry::{DeviceId, Part, Scope, Signal, ThrottleReasons, Timeline};
use ergometer_units::{Bytes, Seconds};
use serde::Serialize;

use super::latest::{self, Now};
use super::ledger::Ledger;
use super::watcher::Shares;
use crate::bridge::diagnosed;
use crate::exit::Failure;
use crate::figures::{digits, or_dash};
use crate::screen::{Align, Screen, Table, Tone};

/// All devices at one moment. Energies are provisional: what the counter or the sum of power says so far.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Tick {
    pub(super) time_us: i64,
    /// Since the start; of a recording, in its own time.
    pub(super) elapsed_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) replay: Option<ReplayTick>,
    #[serde(flatten)]
    pub(super) total: Total,
    /// The file that readings are kept in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) recording: Option<String>,
    pub(super) devices: Vec<DeviceTick>,
    /// Of the CPU's energy, what no process of the list has; only where it is divided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpu_energy_rest_j: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) processes: Option<Vec<ProcessTick>>,
}

/// How a recording is played.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct ReplayTick {
    /// `None` where all was played at once.
    pub(super) speed: Option<f64>,
    pub(super) length_s: f64,
}

/// Power and energy of the parts that make up the machine; what is measured and what is modelled apart.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Total {
    /// Of the devices that speak: who is silent has no power now.
    pub(super) measured_power_w: Option<f64>,
    pub(super) measured_energy_j: Option<f64>,
    pub(super) modelled_power_w: Option<f64>,
    pub(super) modelled_energy_j: Option<f64>,
    /// How many devices are measured, and how many of them are silent.
    pub(super) measured_devices: usize,
    pub(super) silent_devices: usize,
}

/// One device at one moment.
#[derive(Debug, Clone, Serialize)]
pub(super) struct DeviceTick {
    pub(super) device: String,
    pub(super) name: String,
    /// `None` also where the sensor fell silent.
    pub(super) power_w: Option<f64>,
    /// How long its power has been silent, where that is too long to be the present.
    pub(super) silent_s: Option<f64>,
    pub(super) power_source: Option<Signal>,
    pub(super) energy_j: Option<f64>,
    pub(super) energy_source: Option<Signal>,
    pub(super) memory_power_w: Option<f64>,
    pub(super) utilization_pct: Option<f64>,
    pub(super) memory_utilization_pct: Option<f64>,
    pub(super) sm_activity_pct: Option<f64>,
    pub(super) tensor_activity_pct: Option<f64>,
    pub(super) dram_activity_pct: Option<f64>,
    pub(super) memory_used_bytes: Option<u64>,
    pub(super) memory_total_bytes: Option<u64>,
    pub(super) temperature_c: Option<f64>,
    pub(super) temperature_hotspot_c: Option<f64>,
    pub(super) clock_core_mhz: Option<f64>,
    pub(super) clock_memory_mhz: Option<f64>,
    /// What holds the clocks back, in words; `None` where nothing tells.
    pub(super) throttle_reasons: Option<Vec<String>>,
}

/// One process, as programs read it. Its times are since the look before.
#[derive(Debug, Clone, Serialize)]
pub(super) struct ProcessTick {
    pid: u32,
    user: Option<String>,
    name: Option<String>,
    command: Option<String>,
    cpu_pct: Option<f64>,
    cpu_s: Option<f64>,
    memory_bytes: Option<u64>,
    gpus: Vec<GpuTick>,
    /// Of the CPU's energy since the start, by processor time: a convention, only where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_energy_by_cpu_time_j: Option<f64>,
}

#[derive(Debug, Clone, Serialize)]
struct GpuTick {
    device: String,
    memory_bytes: Option<u64>,
    utilization_pct: Option<f64>,
    memory_utilization_pct: Option<f64>,
}

impl Tick {
    /// The ledger has to know what was read by now.
    pub(super) fn new(timeline: &Timeline, now: Now, elapsed: Duration, ledger: &Ledger) -> Self {
        let devices = timeline.devices().into_iter();
        let devices = devices.map(|device| DeviceTick::new(timeline, now, device, ledger)).collect();
        let time_us = timeline.span().map_or(0, |span| span.end().micros_since_epoch());
        let total = Total::new(timeline, now, ledger);
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

    pub(super) fn as_json(&self) -> Result<String, Failure> {
        let mut line = serde_json::to_string(self).map_err(|error| Failure::failed(diagnosed!(error)))?;
        line.push('\n');
        Ok(line)
    }

    /// Whether no line of the table wraps: a wrapped one can't be drawn over.
    pub(super) fn fits(&self, screen: Screen) -> bool {
        let widest = self.table().render(screen.plain()).lines().map(|line| line.chars().count()).max();
        Screen::width().is_none_or(|width| widest.unwrap_or(0) <= width)
    }

    pub(super) fn as_table(&self, screen: Screen) -> String {
        let mut text = self.table().render(screen);
        let mut legend = format!("  {:.0} s", self.elapsed_s);
        if let Some(replay) = self.replay {
            let speed = replay.speed.map_or_else(String::new, |speed| format!(" ×{speed}"));
            legend = format!("  replay{speed}  {:.0} of {:.0} s", self.elapsed_s, replay.length_s);
        }
        if self.devices.iter().any(|device| device.power_source == Some(Signal::PowerModelled)) {
            legend.push_str("   ~ modelled from utilization, not measured");
        }
        text.push_str(&screen.paint(Tone::Faint, &legend));
        text.push('\n');
        text
    }

    fn table(&self) -> Table {
        use Align::{Left, Right};
        let mut table = Table::new([Left, Left, Right, Right, Right, Right, Right, Right]);
        table.head(["device", "", "power", "energy", "busy", "memory", "temp", "clock"]);
        for device in &self.devices {
            let about = device.about();
            table.row(vec![
                (Tone::Strong, device.device.clone()),
                (Tone::Faint, device.name.clone()),
                match device.silent_s {
                    Some(_) => (Tone::Warning, String::from("silent")),
                    None => (Tone::Plain, or_dash(device.power_w.map(|watts| format!("{about}{} W", digits(watts))))),
                },
                (Tone::Plain, or_dash(device.energy_j.map(|joules| format!("{about}{} J", digits(joules))))),
                (Tone::Plain, or_dash(device.utilization_pct.map(|percent| format!("{percent:.0} %")))),
                (Tone::Plain, or_dash(device.memory())),
                (Tone::Plain, or_dash(device.temperature_c.map(|degrees| format!("{degrees:.0} °C")))),
                (Tone::Plain, or_dash(device.clock_core_mhz.map(|megahertz| format!("{megahertz:.0} MHz")))),
            ]);
        }
        table
    }
}

impl Total {
    fn new(timeline: &Timeline, now: Now, ledger: &Ledger) -> Self {
        let mut total = Self::default();
        let (mut measured, mut silent) = (BTreeSet::new(), BTreeSet::new());
        for part in Part::all(timeline) {
            let told = latest::power(timeline, part.device, part.scope, now);
            let power = told.filter(|&power| now.silence(timeline, part.device, power).is_none());
            if part.summed {
                measured.insert(part.device);
            }
            if part.summed && told.is_some() && power.is_none() {
                silent.insert(part.device);
            }
            let energy = ledger.energy(timeline, part.device, part.scope).map(|(_, joules)| joules.get());
            if part.summed {
                add(&mut total.measured_power_w, power.map(|power| power.watts));
                add(&mut total.measured_energy_j, energy);
            } else if !part.measured && told.is_some_and(|told| told.signal == Signal::PowerModelled) {
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
    pub(super) fn new(timeline: &Timeline, now: Now, device: DeviceId, ledger: &Ledger) -> Self {
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
            memory_used_bytes: last(Signal::MemoryUsed).map(whole),
            memory_total_bytes: last(Signal::MemoryTotal).map(whole),
            temperature_c: last(Signal::Temperature),
            temperature_hotspot_c: last(Signal::TemperatureHotspot),
            clock_core_mhz: last(Signal::ClockCore),
            clock_memory_mhz: last(Signal::ClockMemory),
            throttle_reasons: last(Signal::ThrottleReasons).map(|bits| ThrottleReasons::from_reading(bits).names()),
        }
    }

    /// What stands before a number that nobody measured.
    pub(super) fn about(&self) -> &'static str {
        if self.power_source == Some(Signal::PowerModelled) { "~" } else { "" }
    }

    /// `1.7/140 GiB`.
    pub(super) fn memory(&self) -> Option<String> {
        let used = gibibytes(self.memory_used_bytes?);
        Some(match self.memory_total_bytes {
            Some(total) => format!("{used:.1}/{:.0} GiB", gibibytes(total)),
            None => format!("{used:.1} GiB"),
        })
    }
}

pub(super) fn gibibytes(bytes: u64) -> f64 {
    Bytes::new(bytes).as_mebibytes() / 1024.0
}

/// The share of one processor that a process had, in percent.
pub(super) fn cpu_percent(process: &Process, table: &ProcessTable) -> Option<f64> {
    let since = table.since_last.get();
    process.cpu.filter(|_| since > 0.0).map(|cpu| cpu.get() / since * 100.0)
}

/// The processes of a table, for programs.
pub(super) fn process_ticks(table: &ProcessTable, shares: Option<&Shares>) -> Vec<ProcessTick> {
    let one = |process: &Process| ProcessTick {
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
    table.processes.iter().map(one).collect()
}

/// A count that went through a column of floats; exact below 2^53.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts saturate at the ends")]
fn whole(count: f64) -> u64 {
    count.round() as u64
}

#[cfg(test)]
mod tests {
    use ergometer_telemetry::{Batch, Channel, Provenance, SensorInfo};
    use ergometer_units::Timestamp;

    use super::*;

    /// GPUs of 100 W and 200 W …, each read once a second from 0 until its own last second.
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

    fn tick(timeline: &Timeline, now: Now) -> Tick {
        let mut ledger = Ledger::default();
        ledger.update(timeline);
        Tick::new(timeline, now, Duration::from_secs(20), &ledger)
    }

    #[test]
    fn who_is_silent_has_no_power_and_keeps_its_energy() {
        let timeline = timeline(&[20, 6]);
        let told = tick(&timeline, Now { at: time(20), speed: 1.0 });
        let total = &told.total;
        assert_eq!((total.measured_power_w, total.measured_devices, total.silent_devices), (Some(100.0), 2, 1));
        assert_eq!(total.measured_energy_j, Some(2000.0 + 1200.0));
        let power: Vec<_> = told.devices.iter().map(|device| (device.power_w, device.silent_s)).collect();
        assert_eq!(power, [(Some(100.0), None), (None, Some(14.0))]);
        let line: serde_json::Value = serde_json::from_str(&told.as_json().unwrap()).unwrap();
        assert_eq!((&line["devices"][1]["silent_s"], &line["silent_devices"]), (&14.0.into(), &1.into()));
        let all = tick(&timeline, Now { at: time(60), speed: 1.0 }).total;
        assert_eq!((all.measured_power_w, all.silent_devices), (None, 2));
    }

    #[test]
    fn a_recording_played_fast_has_longer_silences() {
        let timeline = timeline(&[20, 6]);
        let total = tick(&timeline, Now { at: time(20), speed: 10.0 }).total;
        assert_eq!((total.measured_power_w, total.silent_devices), (Some(300.0), 0));
    }
}
