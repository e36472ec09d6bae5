//! What the sensors say at one moment: the latest value of every channel, by device.

use std::collections::BTreeMap;
use std::time::Duration;

use ergometer_telemetry::{ChannelId, DeviceId, Scope, Signal, Timeline};
use ergometer_units::Bytes;
use serde::Serialize;

use crate::exit::Failure;
use crate::figures::{digits, or_dash};
use crate::screen::{Align, Screen, Table, Tone};

/// All devices at one moment. Energies are provisional: what the counter or the sum of power says so far.
#[derive(Debug, Serialize)]
pub(super) struct Tick {
    time_us: i64,
    elapsed_s: f64,
    devices: Vec<DeviceTick>,
}

#[derive(Debug, Serialize)]
struct DeviceTick {
    device: String,
    name: String,
    power_w: Option<f64>,
    power_source: Option<Signal>,
    energy_j: Option<f64>,
    energy_source: Option<Signal>,
    memory_power_w: Option<f64>,
    utilization_pct: Option<f64>,
    memory_utilization_pct: Option<f64>,
    sm_activity_pct: Option<f64>,
    tensor_activity_pct: Option<f64>,
    dram_activity_pct: Option<f64>,
    memory_used_bytes: Option<u64>,
    memory_total_bytes: Option<u64>,
    temperature_c: Option<f64>,
    clock_core_mhz: Option<f64>,
    clock_memory_mhz: Option<f64>,
}

/// What a watcher remembers from tick to tick, so that a day of watching costs no more than a minute: how far each
/// power channel was summed up.
#[derive(Debug, Default)]
pub(super) struct Sight {
    sums: BTreeMap<ChannelId, Sum>,
}

#[derive(Debug, Default)]
struct Sum {
    readings: usize,
    joules: f64,
}

impl Tick {
    pub(super) fn new(timeline: &Timeline, elapsed: Duration, sight: &mut Sight) -> Self {
        let devices = timeline.devices().into_iter().map(|device| DeviceTick::new(timeline, device, sight)).collect();
        let time_us = timeline.span().map_or(0, |span| span.end().micros_since_epoch());
        Self { time_us, elapsed_s: elapsed.as_secs_f64(), devices }
    }

    pub(super) fn as_json(&self) -> Result<String, Failure> {
        let mut line = serde_json::to_string(self).map_err(Failure::failed)?;
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
            let modelled = device.power_source == Some(Signal::PowerModelled);
            let about = if modelled { "~" } else { "" };
            let gibibytes = |bytes: u64| Bytes::new(bytes).as_mebibytes() / 1024.0;
            let memory = device.memory_used_bytes.map(|used| match device.memory_total_bytes {
                Some(total) => format!("{:.1}/{:.0} GiB", gibibytes(used), gibibytes(total)),
                None => format!("{:.1} GiB", gibibytes(used)),
            });
            table.row(vec![
                (Tone::Strong, device.device.clone()),
                (Tone::Faint, device.name.clone()),
                (Tone::Plain, or_dash(device.power_w.map(|watts| format!("{about}{} W", digits(watts))))),
                (Tone::Plain, or_dash(device.energy_j.map(|joules| format!("{about}{} J", digits(joules))))),
                (Tone::Plain, or_dash(device.utilization_pct.map(|percent| format!("{percent:.0} %")))),
                (Tone::Plain, or_dash(memory)),
                (Tone::Plain, or_dash(device.temperature_c.map(|degrees| format!("{degrees:.0} °C")))),
                (Tone::Plain, or_dash(device.clock_core_mhz.map(|megahertz| format!("{megahertz:.0} MHz")))),
            ]);
        }
        table
    }
}

/// The signals that tell power now, freshest first.
const POWER_NOW: [Signal; 4] = [Signal::PowerInstant, Signal::PowerRing, Signal::PowerAverage, Signal::PowerModelled];

impl DeviceTick {
    fn new(timeline: &Timeline, device: DeviceId, sight: &mut Sight) -> Self {
        let scopes = [Scope::Device, Scope::Package, Scope::Psys];
        let find = |signal| scopes.into_iter().find_map(|scope| timeline.find(device, scope, signal));
        let last_of = |id: ChannelId| timeline.column(id).last().map(|point| point.value);
        let last = |signal| find(signal).and_then(last_of);
        let counter = find(Signal::Energy).filter(|&id| timeline.column(id).len() > 1);
        let power = POWER_NOW.into_iter().find_map(|signal| Some((signal, last(signal)?)));
        // Without a power sensor the counter's last step is the freshest there is.
        let power = power.or_else(|| Some((Signal::Energy, counter_power(timeline, counter?)?)));
        let summed = [Signal::PowerRing, Signal::PowerInstant, Signal::PowerModelled]
            .into_iter()
            .find_map(|signal| Some((signal, sight.sum(timeline, find(signal)?)?)));
        let energy = match counter.and_then(|id| counted(timeline, id)) {
            Some(joules) => Some((Signal::Energy, joules)),
            None => summed,
        };
        Self {
            device: device.to_string(),
            name: timeline.device_name(device).unwrap_or_default().to_owned(),
            power_w: power.map(|power| power.1),
            power_source: power.map(|power| power.0),
            energy_j: energy.map(|energy| energy.1),
            energy_source: energy.map(|energy| energy.0),
            memory_power_w: timeline.find(device, Scope::Memory, Signal::PowerAverage).and_then(last_of),
            utilization_pct: last(Signal::Utilization),
            memory_utilization_pct: last(Signal::MemoryUtilization),
            sm_activity_pct: last(Signal::SmActivity),
            tensor_activity_pct: last(Signal::TensorActivity),
            dram_activity_pct: last(Signal::DramActivity),
            memory_used_bytes: last(Signal::MemoryUsed).map(whole),
            memory_total_bytes: last(Signal::MemoryTotal).map(whole),
            temperature_c: last(Signal::Temperature),
            clock_core_mhz: last(Signal::ClockCore),
            clock_memory_mhz: last(Signal::ClockMemory),
        }
    }
}

/// A count that went through a column of floats; exact below 2^53.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts saturate at the ends")]
fn whole(count: f64) -> u64 {
    count.round() as u64
}

/// What a counter counted since its first reading; nothing where it went back in between.
fn counted(timeline: &Timeline, counter: ChannelId) -> Option<f64> {
    let values = timeline.column(counter).readings().values;
    let joules = values.last()? - values.first()?;
    (joules >= 0.0).then_some(joules)
}

fn counter_power(timeline: &Timeline, counter: ChannelId) -> Option<f64> {
    let column = timeline.column(counter);
    let last = column.last()?;
    let before = column.get(column.len().checked_sub(2)?)?;
    let (joules, seconds) = (last.value - before.value, (last.at - before.at).get());
    (joules >= 0.0 && seconds > 0.0).then(|| joules / seconds)
}

impl Sight {
    /// The sum of a power channel over its readings so far, each holding from the one before it.
    /// Nothing below two.
    fn sum(&mut self, timeline: &Timeline, channel: ChannelId) -> Option<f64> {
        let readings = timeline.column(channel).readings();
        let sum = self.sums.entry(channel).or_default();
        for index in sum.readings.max(1)..readings.len() {
            let seconds = (readings.at_ns[index] - readings.at_ns[index - 1]) as f64 / 1e9;
            sum.joules += readings.values[index] * seconds;
        }
        sum.readings = readings.len();
        (readings.len() > 1).then_some(sum.joules)
    }
}
