//! Selects the channels of each device and scope, and converts their readings into observations for the estimator.

use ergometer_units::{Joules, Seconds, Timestamp, Watts, Window};

use super::curve::seconds;
use super::observations::{CounterSteps, Observations, PowerKind, PowerSamples, RawStep};
use super::slow::observed_update_period;
use crate::{ChannelId, Column, Counter, CounterLimits, DeviceId, Provenance, Scope, Signal, Step, Timeline};

/// One device and scope that has energy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source {
    pub(super) device: DeviceId,
    pub(super) scope: Scope,
    pub(super) counter: Option<ChannelId>,
    pub(super) power: Option<ChannelId>,
    pub(super) modelled: Option<ChannelId>,
    /// The provenance of its first channel, with or without readings.
    pub(super) fallback: Provenance,
}

/// A counter that does not change for this long, while power is read, is stuck: observed with AMD GPUs.
const STANDSTILL: Seconds = Seconds::new(2.0);

/// A counter problem that estimates must mention, with its time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Incident {
    Reset(f64),
    Impossible(f64),
}

impl Source {
    /// The devices and scopes of a timeline that have energy or power.
    pub(super) fn all(timeline: &Timeline) -> Vec<Self> {
        let mut scopes: Vec<(DeviceId, Scope)> = timeline
            .channels()
            .filter(|(_, channel)| channel.provenance != Provenance::Gauge)
            .map(|(_, channel)| (channel.device, channel.scope))
            .collect();
        scopes.sort_unstable();
        scopes.dedup();
        scopes.into_iter().map(|(device, scope)| Self::for_scope(timeline, device, scope)).collect()
    }

    fn for_scope(timeline: &Timeline, device: DeviceId, scope: Scope) -> Self {
        let find = |signal| timeline.find(device, scope, signal).filter(|&id| timeline.column(id).len() > 1);
        let counter = find(Signal::Energy);
        let sampled = find(Signal::PowerRing).or_else(|| find(Signal::PowerInstant));
        // An average over a second adds nothing to a counter, unless the counter is stuck.
        let averaged = find(Signal::PowerAverage).filter(|&average| {
            counter.is_none_or(|counter| is_stuck(timeline.column(counter), timeline.column(average)))
        });
        let mut channels = timeline.channels().map(|(_, channel)| channel);
        let first = channels.find(|channel| {
            (channel.device, channel.scope) == (device, scope) && channel.provenance != Provenance::Gauge
        });
        let fallback = first.map_or(Provenance::Counter, |channel| channel.provenance);
        Self { device, scope, counter, power: sampled.or(averaged), modelled: find(Signal::PowerModelled), fallback }
    }

    pub(super) fn is_measured(&self) -> bool {
        self.counter.is_some() || self.power.is_some()
    }

    /// The readings as observations, with times in seconds from `base`.
    pub(super) fn observations(&self, timeline: &Timeline, base: Timestamp) -> (Observations, Vec<Incident>) {
        let power = self.power.and_then(|id| {
            let kind = match timeline.channel(id).signal {
                Signal::PowerRing => PowerKind::Ring,
                Signal::PowerAverage => PowerKind::Average,
                _ => PowerKind::Instant,
            };
            let declared = timeline.channel(id).update_period.map(Seconds::get);
            power_samples(kind, timeline.column(id), self.scope.power_bound(), base).map(|samples| {
                let observed = || observed_update_period(&samples.stamps, &samples.watts);
                let update_period = if kind == PowerKind::Average { declared.or_else(observed) } else { None };
                PowerSamples { update_period, ..samples }
            })
        });
        let (steps, incidents) = self.counter.map_or_else(Default::default, |id| {
            let limits = CounterLimits {
                unit: Joules::from_micros(1.0),
                range: None,
                bound: self.scope.power_bound(),
                update_period: timeline.channel(id).update_period.unwrap_or(Seconds::ZERO),
            };
            counter_steps(timeline.column(id), limits, base)
        });
        (Observations { power, counter: CounterSteps::new(&steps) }, incidents)
    }
}

/// Whether a counter never changes, or not for [`STANDSTILL`], while there are power readings.
fn is_stuck(counter: &Column, power: &Column) -> bool {
    let (Some(first), Some(last)) = (power.get(0), power.last()) else { return false };
    let is_long = |from: Timestamp, to: Timestamp| {
        to.since(from) > STANDSTILL && Window::new(from, to).is_ok_and(|window| power.range(window).len() > 1)
    };
    let (mut moved, mut value, mut steps) = (first.at, None, 0);
    for point in counter.readings().points().filter(|point| value.replace(point.value) != Some(point.value)) {
        if is_long(moved, point.at) {
            return true;
        }
        moved = point.at;
        steps += 1;
    }
    steps < 2 || is_long(moved, last.at)
}

fn power_samples(kind: PowerKind, column: &Column, bound: Watts, base: Timestamp) -> Option<PowerSamples> {
    let (stamps, watts) = column
        .readings()
        .points()
        .filter(|point| (0.0..=bound.get()).contains(&point.value))
        .map(|point| (seconds(base, point.at), point.value))
        .unzip();
    PowerSamples::new(kind, stamps, watts)
}

fn counter_steps(column: &Column, limits: CounterLimits, base: Timestamp) -> (Vec<RawStep>, Vec<Incident>) {
    let mut counter = Counter::new(limits);
    let (mut steps, mut incidents) = (Vec::new(), Vec::new());
    let mut last = None;
    for point in column.readings().points() {
        // A repeated value is a read without a step.
        if last.replace(point.value) == Some(point.value) {
            continue;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count saturates at the ends")]
        let count = (point.value / limits.unit.get()).round() as u64;
        let at = seconds(base, point.at);
        let follows = match counter.update(point.at, count) {
            Step::Advance(_) | Step::Wrapped(_) => true,
            Step::First => false,
            Step::Reset => {
                incidents.push(Incident::Reset(at));
                false
            }
            Step::Impossible { .. } => {
                incidents.push(Incident::Impossible(at));
                continue;
            }
        };
        let after = seconds(base, point.after);
        steps.push(RawStep { after, at, joules: counter.total().get(), follows });
    }
    (steps, incidents)
}
