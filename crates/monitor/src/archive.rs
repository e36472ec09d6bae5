//! A long watch in little memory: what no graph shows any more is summed up, with its interval, and forgotten.
//!
//! A stretch is measured as a whole watch is, on a thread of its own; only then its readings go. The total is the sum over
//! the stretches and what is left, their intervals end to end: nothing between them is lost or counted twice. A machine of
//! eight GPUs reads about 80 MB an hour, and a watch holds an hour and a half of that at most.

use std::thread::{self, JoinHandle};
use std::time::Duration;

use ergometer_telemetry::{DeviceId, EnergyError, Estimate, Event, Note, Sampler, Timeline};
use ergometer_units::{Seconds, Timestamp, Window};

use crate::totals::{self, DeviceTotal, TotalEnergy};
use crate::ui::LONGEST_SPAN;

/// The stretch that is summed up at a time.
const STRETCH: Duration = Duration::from_secs(1800);

/// What is kept before a stretch's end: a counter steps every two seconds, and the next stretch needs the step before it.
const MARGIN: Seconds = Seconds::new(15.0);

/// What was summed up.
#[derive(Debug)]
pub(crate) struct Archive {
    /// When the watch began; `None` for a recording, which is shown as a whole.
    since: Option<Timestamp>,
    /// How long readings are kept.
    keep: Seconds,
    stretch: Seconds,
    done: Vec<TotalEnergy>,
    /// What happened in them.
    events: Vec<Event>,
    at_work: Option<JoinHandle<TotalEnergy>>,
}

impl Default for Archive {
    fn default() -> Self {
        Self::new(LONGEST_SPAN, STRETCH)
    }
}

impl Archive {
    fn new(keep: Duration, stretch: Duration) -> Self {
        let [keep, stretch] = [keep, stretch].map(|time| Seconds::new(time.as_secs_f64()));
        Self { since: None, keep, stretch, done: Vec::new(), events: Vec::new(), at_work: None }
    }

    /// Of a watch that began then.
    pub(crate) fn since(began: Timestamp) -> Self {
        Self { since: Some(began), ..Self::default() }
    }

    /// Looks after the memory; call it at every tick. It returns at once.
    pub(crate) fn tend(&mut self, sampler: &Sampler) {
        if self.at_work.as_ref().is_some_and(JoinHandle::is_finished) {
            self.take_in(sampler);
        }
        if self.at_work.is_some() {
            return;
        }
        let from = self.done.last().map(|stretch| stretch.window.end());
        let part = sampler.with_timeline(|timeline| {
            let whole = totals::window(timeline, self.since)?;
            let from = from.unwrap_or(whole.start());
            let window = Window::new(from, from + self.stretch).ok()?;
            (whole.end() - window.end() >= self.keep).then(|| (window, timeline.around(widened(window))))
        });
        if let Some((window, part)) = part {
            // Without a thread the readings stay: that costs memory, and nothing else.
            let measure = move || TotalEnergy::measure(&part, window);
            self.at_work = thread::Builder::new().name(String::from("ergo-archive")).spawn(measure).ok();
        }
    }

    /// Takes in a stretch that was measured, and lets its readings go.
    fn take_in(&mut self, sampler: &Sampler) {
        let Some(Ok(energy)) = self.at_work.take().map(JoinHandle::join) else { return };
        let before = energy.window.end() - MARGIN;
        let is_old = |event: &&Event| event.at_ns < before.nanos_since_epoch();
        sampler.with_timeline(|timeline| self.events.extend(timeline.events().iter().filter(is_old).cloned()));
        sampler.forget_before(before);
        self.done.push(energy);
    }

    /// Everything that happened, the oldest first.
    pub(crate) fn events(&self, timeline: &Timeline) -> Vec<Event> {
        self.events.iter().chain(timeline.events()).cloned().collect()
    }

    /// The energy of the whole watch. A stretch that is still being measured is among what is left.
    pub(crate) fn total(&self, timeline: &Timeline) -> Option<TotalEnergy> {
        let Some(last) = self.done.last() else { return totals::total(timeline, self.since, None) };
        let rest = totals::total(timeline, self.since, Some(last.window.end()));
        sum(self.done.iter().chain(&rest))
    }
}

fn widened(window: Window) -> Window {
    let start: Timestamp = window.start() - MARGIN;
    Window::new(start, window.end() + MARGIN).unwrap_or(window)
}

/// The energy of windows that follow each other.
fn sum<'a>(stretches: impl Iterator<Item = &'a TotalEnergy>) -> Option<TotalEnergy> {
    let stretches: Vec<&TotalEnergy> = stretches.collect();
    let (first, last) = (stretches.first()?, stretches.last()?);
    let mut devices: Vec<DeviceTotal> = Vec::new();
    for device in stretches.iter().flat_map(|stretch| &stretch.devices) {
        let place = |it: &DeviceTotal| (it.energy.device, it.energy.scope);
        match devices.iter_mut().find(|known| place(known) == place(device)) {
            None => devices.push(device.clone()),
            // It spoke for the first time.
            Some(known) if known.window.is_none() && device.window.is_some() => {
                let lacking = added(&known.energy.estimate, &device.energy.estimate, device.energy.device);
                *known = device.clone();
                known.energy.estimate = lacking;
            }
            Some(known) => {
                known.energy.estimate = added(&known.energy.estimate, &device.energy.estimate, device.energy.device);
                if let (Some(known), Some(later)) = (&mut known.window, device.window) {
                    *known = Window::between(known.start(), later.end());
                }
            }
        }
    }
    let window = Window::new(first.window.start(), last.window.end()).ok()?;
    Some(TotalEnergy { window, devices })
}

/// Two stretches of a device; where one has no estimate, the sum says that it lacks it.
fn added(
    one: &Result<Estimate, EnergyError>,
    other: &Result<Estimate, EnergyError>,
    device: DeviceId,
) -> Result<Estimate, EnergyError> {
    match (one, other) {
        (Ok(one), Ok(other)) => Estimate::sum([one, other]).ok_or(EnergyError::NoSensor),
        (Ok(known), Err(_)) | (Err(_), Ok(known)) => {
            let (mut known, lacking) = (known.clone(), Note::Incomplete(device));
            if !known.notes.contains(&lacking) {
                known.notes.push(lacking);
            }
            Ok(known)
        }
        (Err(error), Err(_)) => Err(*error),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use ergometer_sensors::replay::Replay;
    use ergometer_telemetry::{Clock, recording};

    use super::*;

    #[test]
    fn stretches_sum_to_the_whole_and_their_readings_go() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/telemetry/h200_truth_a.json.gz");
        let recorded = recording::read_file(path).unwrap();
        let whole = totals::total(&recorded, None, None).unwrap();
        let sensors = Replay::default().sensors(&recorded).unwrap();
        let sampler = Sampler::start(sensors, Arc::new(Clock::start()), None);
        assert!(sampler.wait(Duration::from_secs(60)), "all was played");

        let mut archive = Archive::new(Duration::from_secs(20), Duration::from_secs(20));
        loop {
            archive.tend(&sampler);
            let Some(at_work) = &archive.at_work else { break };
            while !at_work.is_finished() {
                thread::yield_now();
            }
        }
        assert_eq!(archive.done.len(), 4, "of 108 s the last 28 stay");
        let timeline = sampler.stop();
        assert!(timeline.len() < recorded.len() / 2, "{} of {}", timeline.len(), recorded.len());

        let total = archive.total(&timeline).unwrap();
        assert_eq!(total.window, whole.window);
        let (folded, at_once) = (total.counted().unwrap(), whole.counted().unwrap());
        let off = (folded.joules / at_once.joules - 1.0).abs();
        assert!(off < 0.001, "{folded:?} {at_once:?}");
        assert_eq!(total.devices.len(), whole.devices.len());
        assert!(total.devices.iter().all(|device| device.energy.estimate.is_ok()), "{:?}", total.devices);
    }
}
