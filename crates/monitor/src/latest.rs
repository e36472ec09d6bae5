//! Which channel speaks for a device now: a timeline goes in; power, its source and single values come out.

use ergometer_telemetry::{ChannelId, DeviceId, Provenance, Scope, Signal, Timeline};
use ergometer_units::{Seconds, Timestamp, Window};

/// The scopes that stand for a device as a whole, the widest first.
pub(crate) const MAIN_SCOPES: [Scope; 6] =
    [Scope::Device, Scope::Package, Scope::Module, Scope::Psys, Scope::Rail, Scope::Dram];

/// The signals that tell power now, freshest first.
const POWER_NOW: [Signal; 4] = [Signal::PowerInstant, Signal::PowerRing, Signal::PowerAverage, Signal::PowerModelled];

/// The moment that is looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    pub(crate) at: Timestamp,
    /// Seconds of a recording in each second; 1 for a machine. Sensors of a recording that is played faster are asked no
    /// more often, so one that speaks lies further apart from another.
    pub(crate) speed: f64,
}

impl Now {
    /// How long a device's power has been silent, where that is too long to be the present.
    pub(crate) fn silence(self, timeline: &Timeline, device: DeviceId, power: Power) -> Option<Seconds> {
        let age = self.at - power.at;
        (age > patience(timeline, device) * self.speed.max(1.0)).then_some(age)
    }
}

/// Power at one moment, and where it is known from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Power {
    pub(crate) watts: f64,
    pub(crate) signal: Signal,
    pub(crate) channel: ChannelId,
    pub(crate) at: Timestamp,
}

/// The first channel of a signal in any scope that stands for the device.
pub(crate) fn find(timeline: &Timeline, device: DeviceId, signal: Signal) -> Option<ChannelId> {
    MAIN_SCOPES.into_iter().find_map(|scope| timeline.find(device, scope, signal))
}

/// The last value of a signal of a device.
pub(crate) fn last(timeline: &Timeline, device: DeviceId, signal: Signal) -> Option<f64> {
    timeline.column(find(timeline, device, signal)?).last().map(|point| point.value)
}

/// The power of a device and scope: by the first channel that still speaks, or else by the first that ever spoke.
pub(crate) fn power(timeline: &Timeline, device: DeviceId, scope: Scope, now: Now) -> Option<Power> {
    let told = POWER_NOW.into_iter().filter_map(|signal| {
        let channel = timeline.find(device, scope, signal)?;
        let point = timeline.column(channel).last()?;
        Some(Power { watts: point.value, signal, channel, at: point.at })
    });
    // Without a power sensor the counter's last step is the freshest there is.
    let counted = timeline.find(device, scope, Signal::Energy).and_then(|id| counter_power(timeline, id));
    let all: Vec<Power> = told.chain(counted).collect();
    all.iter().find(|&&power| now.silence(timeline, device, power).is_none()).or(all.first()).copied()
}

/// The power of a device as a whole, and the scope that tells it.
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

/// How long a value of a device holds: a silence longer than this is no longer the present. Sources that are emptied once a
/// second are two seconds late at times.
pub(crate) fn patience(timeline: &Timeline, device: DeviceId) -> Seconds {
    let intervals = timeline.sensors().filter(|(_, info)| info.device == device).map(|(_, info)| info.interval);
    Seconds::new(3.0 + 3.0 * intervals.max().unwrap_or_default().as_secs_f64())
}

/// How power is known, in one word.
pub(crate) fn source_word(signal: Signal) -> &'static str {
    match signal {
        Signal::PowerAverage => "averaged",
        Signal::PowerModelled => "modelled",
        Signal::Energy => "counter",
        _ => "sampled",
    }
}

/// The last reading of power or energy; gauges may say something about later.
pub(crate) fn end(timeline: &Timeline) -> Option<Timestamp> {
    let told = timeline.channels().filter(|(_, channel)| channel.provenance != Provenance::Gauge);
    let last = told.filter_map(|(id, _)| Some(timeline.column(id).last()?.at)).max();
    last.or_else(|| timeline.span().map(Window::end))
}
