//! Provisional energy for the live view. The final figures are computed when the run is finalized.

use std::collections::VecDeque;

use ergometer_runs::EnergySource;
use ergometer_telemetry::{ChannelId, DeviceId, MeteredScope, Scope, Signal, Timeline};
use ergometer_units::{Joules, Seconds, Timestamp, Watts, Window};

use crate::config::CountedDevices;

/// A running sum of the energy of the counted devices. Its cost does not grow with the length of the run.
#[derive(Debug, Default)]
pub(super) struct Provisional {
    joules: f64,
    /// The time up to which energy is summed.
    until: Option<Timestamp>,
    /// The sum at recent times.
    steps: VecDeque<(Timestamp, f64)>,
}

/// The window of the recent power.
const RECENT: Seconds = Seconds::new(2.0);

impl Provisional {
    /// Adds the energy since the last update, from `since` on.
    pub(super) fn update(&mut self, timeline: &Timeline, counted: &CountedDevices, since: Timestamp) {
        let from = self.until.unwrap_or(since);
        let Some(until) = reach(timeline, counted).filter(|&until| until > from) else { return };
        let Ok(window) = Window::new(from, until) else { return };
        if let Some((power, _)) = power(timeline, counted, window) {
            self.joules += (power * window.length()).get();
            self.until = Some(until);
            self.steps.push_back((until, self.joules));
            // The last step before the window stays as its start.
            while self.steps.get(1).is_some_and(|(at, _)| until - *at >= RECENT) {
                self.steps.pop_front();
            }
        }
    }

    /// The mean power of the last two seconds.
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

/// The mean power of the counted devices over a window, and its source: of measured devices, or of modelled devices if
/// none is measured.
pub(crate) fn power(timeline: &Timeline, counted: &CountedDevices, window: Window) -> Option<(Watts, EnergySource)> {
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
    let measured = measured.map(|watts| (Watts::new(watts), EnergySource::Measured));
    measured.or_else(|| modelled.map(|watts| (Watts::new(watts), EnergySource::Modelled)))
}

/// A channel without readings for this long is ignored while others have readings: a GPU may sleep, a laptop may be
/// plugged in.
const SILENT: Seconds = Seconds::new(5.0);

/// The time up to which every active device has readings.
fn reach(timeline: &Timeline, counted: &CountedDevices) -> Option<Timestamp> {
    let last = |(id, _): &(ChannelId, bool)| Some(timeline.column(*id).last()?.at);
    let ends: Vec<Timestamp> = channels(timeline, counted).iter().filter_map(last).collect();
    let newest = ends.iter().copied().max()?;
    ends.into_iter().filter(|&end| newest - end <= SILENT).min()
}

/// The best channel of each counted device and scope, and whether it is modelled.
fn channels(timeline: &Timeline, counted: &CountedDevices) -> Vec<(ChannelId, bool)> {
    let counts = |device: DeviceId| counted.counts(device);
    let spoken = |id: &ChannelId| timeline.column(*id).len() > 1;
    let parts = MeteredScope::counting(timeline, &counts);
    let measured = parts.into_iter().filter(|part| part.summed).filter_map(|MeteredScope { device, scope, .. }| {
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
