//! Computes power, memory, temperature and utilization in the window of a request.

use ergometer_telemetry::{ChannelId, Column, DeviceId, DeviceKind, Scope, Signal, Stats, Timeline};
use ergometer_units::{Seconds, Window};

use super::session::MeteredSession;
use ergometer_runs::record::{HardwareUtilization, MemoryMetrics, PowerMetrics};

/// Megabytes and gigabytes are decimal.
const MEGA: f64 = 1e6;
const GIGA: f64 = 1e9;

/// The channels of a session that records need, looked up once.
pub(super) struct Channels<'a> {
    timeline: &'a Timeline,
    gpu_power: Vec<ChannelId>,
    cpu_power: Vec<ChannelId>,
    gpu_memory: Vec<ChannelId>,
    gpu_memory_total: Vec<ChannelId>,
    cpu_memory: Vec<ChannelId>,
    temperatures: Vec<ChannelId>,
    compute: Vec<ChannelId>,
    bandwidth: Vec<ChannelId>,
    tensor: Vec<ChannelId>,
}

/// Signals of power, best first. The steps of an energy counter are power too.
const POWER: [Signal; 5] =
    [Signal::PowerRing, Signal::PowerInstant, Signal::Energy, Signal::PowerAverage, Signal::PowerModelled];

impl<'a> Channels<'a> {
    /// Looks up the channels of the counted devices; none if the server runs on another machine.
    pub(super) fn new(session: &MeteredSession<'a>) -> Self {
        let timeline = &session.loaded.timeline;
        let devices: Vec<DeviceId> = if session.is_ours { timeline.devices() } else { Vec::new() };
        let counted = |device: &DeviceId| session.counted.counts(*device);
        let find = |kind: DeviceKind, scope: Scope, signals: &[Signal]| -> Vec<ChannelId> {
            let devices = devices.iter().filter(|device| device.kind == kind).filter(|device| counted(device));
            let first = |device: &DeviceId| {
                let mut found = signals.iter().filter_map(|&signal| timeline.find(*device, scope, signal));
                found.find(|&id| !timeline.column(id).is_empty())
            };
            devices.filter_map(first).collect()
        };
        let gpu = |signals: &[Signal]| find(DeviceKind::Gpu, Scope::Device, signals);
        // The choice of devices is about energy, so the memory of the machine is always included.
        let host = devices.iter().filter(|device| device.kind == DeviceKind::Host);
        let cpu_memory = host.filter_map(|&device| timeline.find(device, Scope::Device, Signal::MemoryUsed)).collect();
        Self {
            timeline,
            gpu_power: gpu(&POWER),
            cpu_power: find(DeviceKind::Cpu, Scope::Package, &POWER),
            gpu_memory: gpu(&[Signal::MemoryUsed]),
            gpu_memory_total: gpu(&[Signal::MemoryTotal]),
            cpu_memory,
            temperatures: gpu(&[Signal::Temperature]),
            compute: gpu(&[Signal::Utilization]),
            bandwidth: gpu(&[Signal::DramActivity, Signal::MemoryUtilization]),
            tensor: gpu(&[Signal::TensorActivity]),
        }
    }

    pub(super) fn power(&self, window: Window) -> PowerMetrics {
        PowerMetrics { gpu: self.watts(&self.gpu_power, window), cpu: self.watts(&self.cpu_power, window) }
    }

    pub(super) fn memory(&self, window: Window) -> MemoryMetrics {
        let megabytes = |channels: &[ChannelId]| {
            let stats = self.timeline.stats_of_sum(channels, window)?;
            let mega = |bytes: f64| bytes / MEGA;
            let (avg, max, median, min) = (mega(stats.avg), mega(stats.max), mega(stats.median), mega(stats.min));
            Some(Stats { avg, max, median, min, ..stats })
        };
        MemoryMetrics { cpu_mb: megabytes(&self.cpu_memory), gpu_mb: megabytes(&self.gpu_memory) }
    }

    /// The temperature of the hottest GPU.
    pub(super) fn temperature(&self, window: Window) -> Option<Stats> {
        let each = self.temperatures.iter().filter_map(|&id| self.timeline.stats(id, window));
        each.max_by(|one, other| one.max.total_cmp(&other.max))
    }

    /// The mean utilization of the GPUs, and the memory of all of them.
    pub(super) fn utilization(&self, window: Window) -> HardwareUtilization {
        let mean = |channels: &[ChannelId]| {
            let stats = self.timeline.stats_of_sum(channels, window)?;
            Some(stats.avg / channels.len() as f64)
        };
        let most = |channels: &[ChannelId]| Some(self.timeline.stats_of_sum(channels, window)?.max / GIGA);
        HardwareUtilization {
            compute_utilization_pct: mean(&self.compute),
            memory_bandwidth_utilization_pct: mean(&self.bandwidth),
            tensor_core_utilization_pct: mean(&self.tensor),
            memory_used_gb: most(&self.gpu_memory),
            memory_total_gb: most(&self.gpu_memory_total),
            ..HardwareUtilization::default()
        }
    }

    fn watts(&self, channels: &[ChannelId], window: Window) -> Option<Stats> {
        let is_counter = |&&id: &&ChannelId| self.timeline.channel(id).signal == Signal::Energy;
        match channels.iter().find(is_counter) {
            None => self.timeline.stats_of_sum(channels, window),
            // Steps of several counters are not aligned in time, so only a single counter gives power.
            Some(&counter) if channels.len() == 1 => counter_power(self.timeline.column(counter), window),
            Some(_) => None,
        }
    }
}

/// The power of a counter's steps over a window, weighted by time.
fn counter_power(column: &Column, window: Window) -> Option<Stats> {
    let range = column.range(window);
    let mut steps: Vec<(f64, Seconds)> = (range.start.saturating_sub(1)..=range.end)
        .filter_map(|place| {
            let (from, to) = (column.get(place)?, column.get(place + 1)?);
            let overlap = to.at.min(window.end()) - from.at.max(window.start());
            let watts = (to.value - from.value) / (to.at - from.at).get();
            (overlap > Seconds::ZERO && watts.is_finite() && watts >= 0.0).then_some((watts, overlap))
        })
        .collect();
    steps.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
    let (min, max) = (steps.first()?.0, steps.last()?.0);
    let covered: Seconds = steps.iter().map(|step| step.1).sum();
    let avg = steps.iter().map(|step| step.0 * (step.1 / covered)).sum::<f64>().clamp(min, max);
    let mut below = Seconds::ZERO;
    let median = steps.iter().find(|step| {
        below += step.1;
        below.get() >= covered.get() / 2.0
    });
    Some(Stats { avg, max, median: median?.0, min, count: steps.len(), covered })
}
