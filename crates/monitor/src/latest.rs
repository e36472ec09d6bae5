//! The latest values of a device: its power, where the power comes from, and single signals.

use ergometer_telemetry::{ChannelId, DeviceId, Provenance, Scope, Signal, Timeline};
use ergometer_units::{Seconds, Timestamp, Window};

/// The scopes that cover a whole device, the widest first.
pub(crate) const MAIN_SCOPES: [Scope; 6] =
    [Scope::Device, Scope::Package, Scope::Module, Scope::Psys, Scope::Rail, Scope::Dram];

/// The signals of current power, the most recent first.
const POWER_NOW: [Signal; 4] = [Signal::PowerInstant, Signal::PowerRing, Signal::PowerAverage, Signal::PowerModelled];

/// The current moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    pub(crate) at: Timestamp,
    /// How fast a recording is played; 1 for a machine. Sensors of a faster replay are not read more often, so their
    /// readings are further apart.
    pub(crate) speed: f64,
}

impl Now {
    /// How long a device's power sensor has been silent, if that is too long for its last value to be current.
    pub(crate) fn silence(self, timeline: &Timeline, device: DeviceId, power: Power) -> Option<Seconds> {
        let age = self.at - power.at;
        (age > patience(timeline, device) * self.speed.max(1.0)).then_some(age)
    }
}

/// Power at one moment, and where it comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Power {
    pub(crate) watts: f64,
    pub(crate) signal: Signal,
    pub(crate) channel: ChannelId,
    pub(crate) at: Timestamp,
}

/// The first channel of a signal in the scopes that cover the device.
pub(crate) fn find(timeline: &Timeline, device: DeviceId, signal: Signal) -> Option<ChannelId> {
    MAIN_SCOPES.into_iter().find_map(|scope| timeline.find(device, scope, signal))
}

/// The last value of a signal of a device.
pub(crate) fn last(timeline: &Timeline, device: DeviceId, signal: Signal) -> Option<f64> {
    timeline.column(find(timeline, device, signal)?).last().map(|point| point.value)
}

/// The power of a device and scope: from the first channel that is not silent, or else from the first with a reading.
pub(crate) fn power(timeline: &Timeline, device: DeviceId, scope: Scope, now: Now) -> Option<Power> {
    let sampled = POWER_NOW.into_iter().filter_map(|signal| {
        let channel = timeline.find(device, scope, signal)?;
        let point = timeline.column(channel).last()?;
        Some(Power { watts: point.value, signal, channel, at: point.at })
    });
    // Without a power sensor, the last step of the energy counter is the most recent power.
    let counted = timeline.find(device, scope, Signal::Energy).and_then(|id| counter_power(timeline, id));
    let all: Vec<Power> = sampled.chain(counted).collect();
    all.iter().find(|&&power| now.silence(timeline, device, power).is_none()).or(all.first()).copied()
}

/// The power of a whole device, and the scope it comes from.
pub(crate) fn main_power(timeline: &Timeline, device: DeviceId, now: Now) -> Option<(Scope, Power)> {
    MAIN_SCOPES.into_iter().find_map(|scope| Some((scope, power(timeline, device, scope, now)?)))
}

fn counter_power(timeline: &Timeline, channel: ChannelId) -> Option<Power> {
    let column = timeline.column(channel);
    let last = column.last()?;
    let before = column.get(column.len().checked_sub(2)?)?;
    let (joules, seconds) = (last.value - before.value, (last.at - before.at).get());
    let watts = (joules >= 0.0 && seconds > 0.0).then(|| joules / seconds)?;
    Some(Power { watts, signal: Signal::Energy, channel, at: last.at })
}

/// How long a value of a device is current. Sources that are read once a second can be two seconds late.
pub(crate) fn patience(timeline: &Timeline, device: DeviceId) -> Seconds {
    let intervals = timeline.sensors().filter(|(_, info)| info.device == device).map(|(_, info)| info.interval);
    Seconds::new(3.0 + 3.0 * intervals.max().unwrap_or_default().as_secs_f64())
}

/// How power is measured, in one word.
pub(crate) fn source_word(signal: Signal) -> &'static str {
    match signal {
        Signal::PowerAverage => "averaged",
        Signal::PowerModelled => "modelled",
        Signal::Energy => "counter",
        _ => "sampled",
    }
}

/// The time of the last reading of power or energy; gauges may have later times.
pub(crate) fn end(timeline: &Timeline) -> Option<Timestamp> {
    let channels = timeline.channels().filter(|(_, channel)| channel.provenance != Provenance::Gauge);
    let last = channels.filter_map(|(id, _)| Some(timeline.column(id).last()?.at)).max();
    last.or_else(|| timeline.span().map(Window::end))
}
