//! The energy of the whole time that a monitor ran, as estimates with intervals.
//!
//! Each device is measured over the time of its own readings, so a device that starts late or stops early does not
//! shorten the others. Devices whose times differ by little are measured over one common window, so that their sum is
//! of one time.

use std::collections::BTreeMap;

use ergometer_telemetry::{
    DeviceEnergy, DeviceId, EnergyError, EnergyEstimate, EnergyMeter, Note, Provenance, Scope, Timeline, WindowEnergy,
};
use ergometer_units::{Seconds, Timestamp, Window};

/// How much later than the others a device may start, or earlier end, and still be measured over the common window:
/// sources that are read once a second differ by this much.
const SLACK: Seconds = Seconds::new(1.5);

/// The energy of every device over the whole time.
#[derive(Debug, Clone)]
pub struct TotalEnergy {
    /// The common time of the devices.
    pub window: Window,
    /// Every device and scope.
    pub devices: Vec<DeviceTotal>,
}

/// The energy of one device and scope over the time of its readings.
#[derive(Debug, Clone)]
pub struct DeviceTotal {
    /// The energy.
    pub energy: DeviceEnergy,
    /// The time of the estimate; `None` without an estimate.
    pub window: Option<Window>,
}

impl TotalEnergy {
    /// The energy of a timeline since sampling started; `None` without readings of power or energy.
    #[must_use]
    pub fn from_timeline(timeline: &Timeline) -> Option<Self> {
        total(timeline, None, None)
    }

    /// The energy of each device in the part of a window where it has readings.
    pub(crate) fn measure(timeline: &Timeline, window: Window) -> Self {
        let covered = covered(timeline, window);
        let mut activity: Vec<Window> = covered.values().copied().chain([window]).collect();
        activity.dedup();
        let meter = EnergyMeter::new(timeline, &activity);
        let mut known: Vec<WindowEnergy> = vec![meter.energy(window)];
        let keys: Vec<(DeviceId, Scope)> = known[0].devices.iter().map(|it| (it.device, it.scope)).collect();
        let mut devices = Vec::new();
        for (index, key) in keys.into_iter().enumerate() {
            let mut own = covered.get(&key).copied().unwrap_or(window);
            let mut energy = device_energy(&meter, &mut known, own, index);
            // The estimator needs readings a little beyond the window, and its error has the time range of the
            // readings.
            if let Err(EnergyError::Outside { first, last, .. }) = energy.estimate
                && let Ok(inner) = Window::new(first.max(own.start()), last.min(own.end()))
            {
                own = inner;
                energy = device_energy(&meter, &mut known, own, index);
            }
            let measured_over = energy.estimate.is_ok().then_some(own);
            if let Ok(estimate) = &mut energy.estimate
                && own != window
            {
                estimate.notes.push(Note::Gap(window.length() - own.length()));
            }
            devices.push(DeviceTotal { energy, window: measured_over });
        }
        Self { window, devices }
    }

    /// The sum over measured devices, or, if nothing is measured, over modelled ones.
    #[must_use]
    pub fn counted(&self) -> Option<EnergyEstimate> {
        let sum = |is_wanted: &dyn Fn(&DeviceEnergy) -> bool| {
            let wanted = || self.devices.iter().map(|device| &device.energy).filter(|energy| is_wanted(energy));
            let mut total = EnergyEstimate::sum(wanted().filter_map(|energy| energy.estimate.as_ref().ok()))?;
            let missing = wanted().filter(|energy| energy.estimate.is_err());
            total.notes.extend(missing.map(|energy| Note::Incomplete(energy.device)));
            Some(total)
        };
        sum(&|energy| energy.summed).or_else(|| sum(&|energy| energy.provenance == Provenance::Modelled))
    }
}

/// The energy of the device with this index; `known` caches windows.
fn device_energy(meter: &EnergyMeter<'_>, known: &mut Vec<WindowEnergy>, window: Window, index: usize) -> DeviceEnergy {
    let at = known.iter().position(|energy| energy.window == window).unwrap_or_else(|| {
        known.push(meter.energy(window));
        known.len() - 1
    });
    known[at].devices[index].clone()
}

/// The first and the last time, in nanoseconds.
type Span = (i64, i64);

/// The time that most of these spans share. Spans within the slack of the first start or the last end narrow it; others
/// are ignored.
fn common_window(spans: &[Span]) -> Option<Window> {
    let first = spans.iter().map(|span| span.0).min()?;
    let last = spans.iter().map(|span| span.1).max()?;
    let slack = SLACK.as_nanos();
    let start = spans.iter().map(|span| span.0).filter(|&start| start - first <= slack).max()?;
    let end = spans.iter().map(|span| span.1).filter(|&end| last - end <= slack).min()?;
    let at = Timestamp::from_nanos_since_epoch;
    // In a very short time the spans may not overlap.
    Window::new(at(start), at(end)).or_else(|_| Window::new(at(first), at(last))).ok()
}

/// Where each device and scope has readings of energy or power. Readings before `since` are ignored: a driver may hold
/// samples from seconds before the monitor started.
fn spans(timeline: &Timeline, since: Option<Timestamp>) -> BTreeMap<(DeviceId, Scope), Window> {
    let since = since.map_or(i64::MIN, Timestamp::nanos_since_epoch);
    let mut channels: BTreeMap<(DeviceId, Scope), Vec<Span>> = BTreeMap::new();
    for (id, channel) in timeline.channels().filter(|(_, channel)| channel.provenance != Provenance::Gauge) {
        let times = timeline.column(id).readings().at_ns;
        if let ([first, ..], [.., last]) = (times, times)
            && times.len() > 1
        {
            channels
                .entry((channel.device, channel.scope))
                .or_default()
                .push(((*first).max(since), (*last).max(since)));
        }
    }
    channels.into_iter().filter_map(|(key, spans)| Some((key, common_window(&spans)?))).collect()
}

/// The parts of a window that each device and scope has readings of.
fn covered(timeline: &Timeline, window: Window) -> BTreeMap<(DeviceId, Scope), Window> {
    let inside = |own: Window| Window::new(own.start().max(window.start()), own.end().min(window.end())).ok();
    spans(timeline, None).into_iter().filter_map(|(key, own)| Some((key, inside(own)?))).collect()
}

/// The common time of all devices since `since`, or since sampling started.
pub(crate) fn window(timeline: &Timeline, since: Option<Timestamp>) -> Option<Window> {
    let since = since.or_else(|| timeline.sampling_start());
    let nanos = |window: &Window| (window.start().nanos_since_epoch(), window.end().nanos_since_epoch());
    common_window(&spans(timeline, since).values().map(nanos).collect::<Vec<Span>>())
}

/// The energy of a timeline since the start, or only of the part after `left`.
pub(crate) fn total(timeline: &Timeline, since: Option<Timestamp>, left: Option<Timestamp>) -> Option<TotalEnergy> {
    let whole = window(timeline, since)?;
    let window = Window::new(left.unwrap_or(whole.start()), whole.end()).ok()?;
    Some(TotalEnergy::measure(timeline, window))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ergometer_telemetry::recording;

    use super::*;
    use crate::testing::timeline;

    fn time(seconds: f64) -> Timestamp {
        Timestamp::from_nanos_since_epoch(0) + Seconds::new(seconds)
    }

    #[test]
    fn each_device_is_measured_over_its_own_time() {
        let timeline = timeline(&[(0, 180), (2, 177), (0, 20), (90, 180)]);
        let total = total(&timeline, None, None).unwrap();
        assert_eq!(
            total.window,
            Window::new(time(0.2), time(17.7)).unwrap(),
            "two devices that differ by little share a window"
        );
        let lengths: Vec<f64> = total.devices.iter().map(|it| it.window.unwrap().length().get()).collect();
        for (found, expected) in lengths.iter().zip([17.5, 17.5, 1.8, 8.7]) {
            assert!((found - expected).abs() < 0.01, "{lengths:?}");
        }
        for (device, length) in total.devices.iter().zip(&lengths) {
            let joules = device.energy.estimate.as_ref().unwrap().joules.get();
            assert!((joules / length - 100.0).abs() < 2.0, "{joules} J in {length} s");
        }
        let sum = total.counted().unwrap();
        assert!((sum.joules.get() / 4550.0 - 1.0).abs() < 0.02, "{sum:?}");
        assert!(sum.notes.iter().any(|note| matches!(note, Note::Gap(_))), "{sum:?}");
    }

    #[test]
    fn a_very_short_time_has_totals() {
        let total = total(&timeline(&[(0, 4), (6, 10)]), None, None).unwrap();
        assert!(total.devices.iter().all(|it| it.energy.estimate.is_ok()), "{total:?}");
    }

    /// The recording has power samples from 2.4 s before its start, and utilization from 14 s before.
    #[test]
    fn a_recording_starts_when_sampling_started() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/telemetry/h200_stream_b.jsonl.gz");
        let total = TotalEnergy::from_timeline(&recording::read_file(path).unwrap()).unwrap();
        let seconds = total.window.length().get();
        assert!((98.9..99.3).contains(&seconds), "{seconds} s");
        // The energy counter advanced by 37,208.7 J in 99.2 s.
        let joules = total.counted().unwrap().joules.get();
        assert!((joules / 37_208.7 - 1.0).abs() < 0.005, "{joules} J");
    }

    /// The sample buffer of a driver has two seconds of samples from before the start.
    #[test]
    fn samples_from_before_the_start_are_not_in_the_total() {
        let timeline = timeline(&[(0, 100), (31, 100)]);
        let total = total(&timeline, Some(time(3.0)), None).unwrap();
        assert_eq!(total.window, Window::new(time(3.1), time(10.0)).unwrap());
        let joules = total.counted().unwrap().joules.get();
        assert!((joules / 1380.0 - 1.0).abs() < 0.01, "{joules} J of two meters of 100 W over 6.9 s");
    }
}
