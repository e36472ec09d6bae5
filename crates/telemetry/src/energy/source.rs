//! From a timeline to what the estimator takes: which channels speak for a device and scope, their readings cleaned,
//! counters split where they were reset.

use ergometer_units::{Joules, Seconds, Timestamp, Watts};

use super::curve::seconds;
use super::observations::{CounterSteps, Observations, PowerKind, PowerSamples, RawStep};
use crate::{ChannelId, Column, Counter, CounterLimits, DeviceId, Provenance, Scope, Signal, Step, Timeline};

/// More power than any one device draws: a step that implies more is not energy. An eight-GPU board is eight devices.
const BOUND: Watts = Watts::new(5000.0);

/// One device and scope that has energy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source {
    pub(super) device: DeviceId,
    pub(super) scope: Scope,
    pub(super) counter: Option<ChannelId>,
    pub(super) power: Option<ChannelId>,
    pub(super) modelled: Option<ChannelId>,
}

/// What a counter went through that an estimate must mention.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Incident {
    Reset(f64),
    Impossible(f64),
}

impl Source {
    /// The devices and scopes of a timeline that have energy or power.
    pub(super) fn all(timeline: &Timeline) -> Vec<Self> {
        let mut places: Vec<(DeviceId, Scope)> = timeline
            .channels()
            .filter(|(_, channel)| channel.provenance != Provenance::Gauge)
            .map(|(_, channel)| (channel.device, channel.scope))
            .collect();
        places.sort_unstable();
        places.dedup();
        places.into_iter().map(|(device, scope)| Self::of(timeline, device, scope)).collect()
    }

    fn of(timeline: &Timeline, device: DeviceId, scope: Scope) -> Self {
        let find = |signal| timeline.find(device, scope, signal).filter(|&id| timeline.column(id).len() > 1);
        let counter = find(Signal::Energy);
        let sampled = find(Signal::PowerRing).or_else(|| find(Signal::PowerInstant));
        // Beside a counter an average over a second tells nothing new.
        let averaged = if counter.is_none() { find(Signal::PowerAverage) } else { None };
        Self { device, scope, counter, power: sampled.or(averaged), modelled: find(Signal::PowerModelled) }
    }

    pub(super) fn is_measured(&self) -> bool {
        self.counter.is_some() || self.power.is_some()
    }

    /// The readings, in seconds from `base`.
    pub(super) fn observations(&self, timeline: &Timeline, base: Timestamp) -> (Observations, Vec<Incident>) {
        let power = self.power.and_then(|id| {
            let kind = match timeline.channel(id).signal {
                Signal::PowerRing => PowerKind::Ring,
                Signal::PowerAverage => PowerKind::Average,
                _ => PowerKind::Instant,
            };
            power_samples(kind, timeline.column(id), base)
        });
        let (steps, incidents) = self.counter.map_or_else(Default::default, |id| {
            counter_steps(timeline.column(id), timeline.channel(id).update_period, base)
        });
        (Observations { power, counter: CounterSteps::new(&steps) }, incidents)
    }
}

fn power_samples(kind: PowerKind, column: &Column, base: Timestamp) -> Option<PowerSamples> {
    let (stamps, watts) = column
        .readings()
        .points()
        .filter(|point| (0.0..=BOUND.get()).contains(&point.value))
        .map(|point| (seconds(base, point.at), point.value))
        .unzip();
    PowerSamples::new(kind, stamps, watts)
}

fn counter_steps(column: &Column, period: Option<Seconds>, base: Timestamp) -> (Vec<RawStep>, Vec<Incident>) {
    let unit = Joules::from_micros(1.0);
    let update_period = period.unwrap_or(Seconds::ZERO);
    let mut counter = Counter::new(CounterLimits { unit, range: None, bound: BOUND, update_period });
    let (mut steps, mut incidents) = (Vec::new(), Vec::new());
    // A source that updates more often than it is read may have done so a whole period before the read.
    let stale = update_period.get() * f64::from(update_period.get() < spacing(column) / 2.0);
    let mut last = None;
    for point in column.readings().points() {
        // The same value again says that the counter was read, not that it stepped.
        if last.replace(point.value) == Some(point.value) {
            continue;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count saturates at the ends")]
        let count = (point.value / unit.get()).round() as u64;
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
        let after = seconds(base, point.after) - stale;
        steps.push(RawStep { after, at, joules: counter.total().get(), follows });
    }
    (steps, incidents)
}

fn spacing(column: &Column) -> f64 {
    let times = column.readings().at_ns;
    match times {
        [first, .., last] => Seconds::from_nanos(last - first).get() / (times.len() - 1) as f64,
        _ => 0.0,
    }
}
