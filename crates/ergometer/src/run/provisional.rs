//! What energy comes to so far, for the live view only: the final figures are derived when the run closes.

use std::collections::VecDeque;

use ergometer_telemetry::{ChannelId, DeviceId, Part, Scope, Signal, Timeline};
use ergometer_units::{Joules, Seconds, Timestamp, Watts, Window};

use crate::config::Counted;

/// A running sum of power over the devices that count. A day of watching costs no more than a minute.
#[derive(Debug, Default)]
pub(super) struct Provisional {
    joules: f64,
    /// Up to when.
    until: Option<Timestamp>,
    /// What it came to at some times of late.
    steps: VecDeque<(Timestamp, f64)>,
}

/// The power of late is that over this long.
const OF_LATE: Seconds = Seconds::new(2.0);

impl Provisional {
    /// Sums up what came in since the last time, from `since` on.
    pub(super) fn update(&mut self, timeline: &Timeline, counted: &Counted, since: Timestamp) {
        let from = self.until.unwrap_or(since);
        let Some(until) = reach(timeline, counted).filter(|&until| until > from) else { return };
        let Ok(window) = Window::new(from, until) else { return };
        if let Some(power) = power(timeline, counted, window) {
            self.joules += (power * window.length()).get();
            self.until = Some(until);
            self.steps.push_back((until, self.joules));
            // One is kept from before, so that there is always something to compare with.
            while self.steps.get(1).is_some_and(|(at, _)| until - *at >= OF_LATE) {
                self.steps.pop_front();
            }
        }
    }

    /// The power of late.
    pub(super) fn recent(&self) -> Option<Watts> {
        let ((first, before), (last, now)) = (self.steps.front()?, self.steps.back()?);
        let seconds = (*last - *first).get();
        (seconds > 0.0).then(|| Watts::new((now - before) / seconds))
    }

    /// The energy so far and the time it covers.
    pub(super) fn so_far(&self, since: Timestamp) -> Option<(Joules, Seconds)> {
        self.until.map(|until| (Joules::new(self.joules), until - since))
    }
}

/// The mean power of the devices that count over a window: measured ones, or modelled ones where nothing is measured.
pub(crate) fn power(timeline: &Timeline, counted: &Counted, window: Window) -> Option<Watts> {
    let (mut measured, mut modelled) = (None, None);
    for (channel, is_modelled) in channels(timeline, counted) {
        let watts = if timeline.channel(channel).signal == Signal::Energy {
            counter_power(timeline, channel, window)
        } else {
            timeline.stats(channel, window).map(|stats| stats.avg)
        };
        let sum = if is_modelled { &mut modelled } else { &mut measured };
        *sum = watts.map(|watts| watts + sum.unwrap_or(0.0)).or(*sum);
    }
    measured.or(modelled).map(Watts::new)
}

/// A channel that was silent for longer than this while others spoke is not waited for: a GPU may sleep, a battery be
/// plugged in.
const SILENT: Seconds = Seconds::new(5.0);

/// The time up to which every device that speaks has spoken.
fn reach(timeline: &Timeline, counted: &Counted) -> Option<Timestamp> {
    let last = |(id, _): &(ChannelId, bool)| Some(timeline.column(*id).last()?.at);
    let ends: Vec<Timestamp> = channels(timeline, counted).iter().filter_map(last).collect();
    let newest = ends.iter().copied().max()?;
    ends.into_iter().filter(|&end| newest - end <= SILENT).min()
}

/// The channel that tells most of each part that counts, and whether it is modelled.
fn channels(timeline: &Timeline, counted: &Counted) -> Vec<(ChannelId, bool)> {
    let counts = |device: DeviceId| counted.counts(device);
    let spoken = |id: &ChannelId| timeline.column(*id).len() > 1;
    let parts = Part::counting(timeline, &counts);
    let measured = parts.into_iter().filter(|part| part.summed).filter_map(|Part { device, scope, .. }| {
        let signals = [Signal::PowerRing, Signal::PowerInstant, Signal::Energy, Signal::PowerAverage];
        let found = signals.into_iter().filter_map(|signal| timeline.find(device, scope, signal)).find(spoken);
        found.map(|id| (id, false))
    });
    let modelled = timeline.devices().into_iter().filter(|&device| counts(device)).filter_map(|device| {
        let found = timeline.find(device, Scope::Package, Signal::PowerModelled).filter(spoken);
        found.map(|id| (id, true))
    });
    measured.chain(modelled).collect()
}

/// The mean power of a counter over its readings in a window.
fn counter_power(timeline: &Timeline, counter: ChannelId, window: Window) -> Option<f64> {
    let readings = timeline.column(counter).within(window);
    let (first, last) = (readings.points().next()?, readings.points().last()?);
    let (joules, seconds) = (last.value - first.value, (last.at - first.at).get());
    (joules >= 0.0 && seconds > 0.0).then(|| joules / seconds)
}
