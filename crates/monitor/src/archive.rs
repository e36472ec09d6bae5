//! Bounds the memory of a long session: readings older than every graph are replaced by their energy estimate.
//!
//! The energy of each period is estimated on a separate thread; then its readings are dropped. The total is the sum
//! over all periods and the remaining readings. Periods are adjacent, so no time is lost or counted twice. A machine
//! with eight GPUs has about 80 MB of readings per hour, and at most an hour and a half of them is kept.

use std::thread::{self, JoinHandle};
use std::time::Duration;

use ergometer_telemetry::{DeviceId, EnergyError, EnergyEstimate, Event, Note, Sampler, Timeline};
use ergometer_units::{Seconds, Timestamp, Window};

use crate::totals::{self, DeviceTotal, TotalEnergy};
use crate::ui::LONGEST_SPAN;

/// The length of a period.
const PERIOD: Duration = Duration::from_secs(1800);

/// Readings kept before the end of a period: counters step up to every two seconds, and the next period needs the last
/// step.
const MARGIN: Seconds = Seconds::new(15.0);

/// The energy of past periods.
#[derive(Debug)]
pub(crate) struct Archive {
    /// When the session started; `None` for a recording, which starts when sampling started.
    since: Option<Timestamp>,
    /// How long readings are kept.
    keep: Seconds,
    period: Seconds,
    done: Vec<TotalEnergy>,
    /// The sensor events of past periods.
    events: Vec<Event>,
    running: Option<JoinHandle<TotalEnergy>>,
}

impl Default for Archive {
    fn default() -> Self {
        Self::new(LONGEST_SPAN, PERIOD)
    }
}

impl Archive {
    fn new(keep: Duration, period: Duration) -> Self {
        let [keep, period] = [keep, period].map(|time| Seconds::new(time.as_secs_f64()));
        Self { since: None, keep, period, done: Vec::new(), events: Vec::new(), running: None }
    }

    /// An archive of a session that started at this time.
    pub(crate) fn since(start: Timestamp) -> Self {
        Self { since: Some(start), ..Self::default() }
    }

    /// Archives the oldest period if it is due. Call it at every tick; it returns at once.
    pub(crate) fn update(&mut self, sampler: &Sampler) {
        if self.running.as_ref().is_some_and(JoinHandle::is_finished) {
            self.finish_period(sampler);
        }
        if self.running.is_some() {
            return;
        }
        let from = self.done.last().map(|period| period.window.end());
        let part = sampler.with_timeline(|timeline| {
            let whole = totals::window(timeline, self.since)?;
            let from = from.unwrap_or(whole.start());
            let window = Window::new(from, from + self.period).ok()?;
            (whole.end() - window.end() >= self.keep).then(|| (window, timeline.around(widened(window))))
        });
        if let Some((window, part)) = part {
            // If no thread can be started, the readings stay in memory.
            let measure = move || TotalEnergy::measure(&part, window);
            self.running = thread::Builder::new().name(String::from("ergo-archive")).spawn(measure).ok();
        }
    }

    /// Adds the measured period and drops its readings.
    fn finish_period(&mut self, sampler: &Sampler) {
        let Some(Ok(energy)) = self.running.take().map(JoinHandle::join) else { return };
        let before = energy.window.end() - MARGIN;
        let is_old = |event: &&Event| event.at_ns < before.nanos_since_epoch();
        sampler.with_timeline(|timeline| self.events.extend(timeline.events().iter().filter(is_old).cloned()));
        sampler.forget_before(before);
        self.done.push(energy);
    }

    /// All sensor events, oldest first.
    pub(crate) fn events(&self, timeline: &Timeline) -> Vec<Event> {
        self.events.iter().chain(timeline.events()).cloned().collect()
    }

    /// The energy of the whole session. A period that is still being measured counts with the remaining readings.
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

/// The energy of adjacent windows.
fn sum<'a>(periods: impl Iterator<Item = &'a TotalEnergy>) -> Option<TotalEnergy> {
    let periods: Vec<&TotalEnergy> = periods.collect();
    let (first, last) = (periods.first()?, periods.last()?);
    let mut devices: Vec<DeviceTotal> = Vec::new();
    for device in periods.iter().flat_map(|period| &period.devices) {
        let key = |it: &DeviceTotal| (it.energy.device, it.energy.scope);
        match devices.iter_mut().find(|known| key(known) == key(device)) {
            None => devices.push(device.clone()),
            // The first estimate of this device.
            Some(known) if known.window.is_none() && device.window.is_some() => {
                let lacking = add_estimates(&known.energy.estimate, &device.energy.estimate, device.energy.device);
                *known = device.clone();
                known.energy.estimate = lacking;
            }
            Some(known) => {
                known.energy.estimate =
                    add_estimates(&known.energy.estimate, &device.energy.estimate, device.energy.device);
                if let (Some(known), Some(later)) = (&mut known.window, device.window) {
                    *known = Window::between(known.start(), later.end());
                }
            }
        }
    }
    let window = Window::new(first.window.start(), last.window.end()).ok()?;
    Some(TotalEnergy { window, devices })
}

/// Adds two periods of a device. If one has no estimate, the sum is marked as incomplete.
fn add_estimates(
    one: &Result<EnergyEstimate, EnergyError>,
    other: &Result<EnergyEstimate, EnergyError>,
    device: DeviceId,
) -> Result<EnergyEstimate, EnergyError> {
    match (one, other) {
        (Ok(one), Ok(other)) => EnergyEstimate::sum([one, other]).ok_or(EnergyError::NoSensor),
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
    fn periods_sum_to_the_total_and_their_readings_are_dropped() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/telemetry/h200_truth_a.json.gz");
        let recorded = recording::read_file(path).unwrap();
        let whole = totals::total(&recorded, None, None).unwrap();
        let sensors = Replay::default().sensors(&recorded).unwrap();
        let sampler = Sampler::start(sensors, Arc::new(Clock::start()), None);
        assert!(sampler.wait(Duration::from_secs(60)), "the recording was played");

        let mut archive = Archive::new(Duration::from_secs(20), Duration::from_secs(20));
        loop {
            archive.update(&sampler);
            let Some(running) = &archive.running else { break };
            while !running.is_finished() {
                thread::yield_now();
            }
        }
        assert_eq!(archive.done.len(), 4, "the last 28 s of 108 s stay");
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
