//! The energy of a whole watch, by the estimator, with its interval.
//!
//! Every device over the time it has readings of: one that starts late or dies early takes nothing from the others, and its
//! own time is told. Those that differ by little are measured over one window, so that their sum is of one time.

use std::collections::BTreeMap;

use ergometer_telemetry::{
    DeviceEnergy, DeviceId, EnergyError, EnergyMeter, Estimate, Note, Provenance, Scope, Timeline, WindowEnergy,
};
use ergometer_units::{Seconds, Timestamp, Window};
use serde::Serialize;

use crate::bridge::diagnosed;
use crate::exit::Failure;
use crate::figures::{digits, joules};
use crate::report::{DeviceReport, EstimateReport};
use crate::screen::{Align, Screen, Table, Tone};

/// What one may begin later or end earlier than the others and still be measured with them: a source that is emptied once a
/// second is that late.
const SLACK: Seconds = Seconds::new(1.5);

/// The energy of a watch.
#[derive(Debug, Clone)]
pub(super) struct Total {
    /// From where the first devices have readings to where the last ones have.
    pub(super) window: Window,
    pub(super) devices: Vec<DeviceTotal>,
}

/// The energy of one device and scope over its own time.
#[derive(Debug, Clone)]
pub(super) struct DeviceTotal {
    pub(super) energy: DeviceEnergy,
    /// The time it was measured over; `None` where it has no energy.
    pub(super) window: Option<Window>,
}

impl Total {
    /// The energy in a window of a timeline, of each device where it has readings.
    pub(super) fn measure(timeline: &Timeline, window: Window) -> Self {
        let own = covered(timeline, window);
        let mut activity: Vec<Window> = own.values().copied().chain([window]).collect();
        activity.dedup();
        let meter = EnergyMeter::new(timeline, &activity);
        let mut known: Vec<WindowEnergy> = vec![meter.energy(window)];
        let places: Vec<(DeviceId, Scope)> = known[0].devices.iter().map(|it| (it.device, it.scope)).collect();
        let mut devices = Vec::new();
        for (place, key) in places.into_iter().enumerate() {
            let mut asked = own.get(&key).copied().unwrap_or(window);
            let mut energy = energy_of(&meter, &mut known, asked, place);
            // The estimator knows best where its readings reach.
            if let Err(EnergyError::Outside { first, last, .. }) = energy.estimate
                && let Ok(inner) = Window::new(first.max(asked.start()), last.min(asked.end()))
            {
                asked = inner;
                energy = energy_of(&meter, &mut known, asked, place);
            }
            let measured_over = energy.estimate.is_ok().then_some(asked);
            if let Ok(estimate) = &mut energy.estimate
                && asked != window
            {
                estimate.notes.push(Note::Gap(window.length() - asked.length()));
            }
            devices.push(DeviceTotal { energy, window: measured_over });
        }
        Self { window, devices }
    }

    /// What is measured, or where nothing is, what is modelled.
    pub(super) fn counted(&self) -> Option<Estimate> {
        let of = |is_wanted: &dyn Fn(&DeviceEnergy) -> bool| {
            let wanted = || self.devices.iter().map(|device| &device.energy).filter(|energy| is_wanted(energy));
            let mut sum = Estimate::sum(wanted().filter_map(|energy| energy.estimate.as_ref().ok()))?;
            let missing = wanted().filter(|energy| energy.estimate.is_err());
            sum.notes.extend(missing.map(|energy| Note::Incomplete(energy.device)));
            Some(sum)
        };
        of(&|energy| energy.summed).or_else(|| of(&|energy| energy.provenance == Provenance::Modelled))
    }
}

/// The energy of the device at a place; each window is asked for once.
fn energy_of(meter: &EnergyMeter<'_>, known: &mut Vec<WindowEnergy>, window: Window, place: usize) -> DeviceEnergy {
    let at = known.iter().position(|energy| energy.window == window).unwrap_or_else(|| {
        known.push(meter.energy(window));
        known.len() - 1
    });
    known[at].devices[place].clone()
}

/// Times from first to last, in nanoseconds.
type Span = (i64, i64);

/// The time that most of these share: who begins or ends about with the others narrows it, who does so much later or
/// earlier does not.
fn agreed(spans: &[Span]) -> Option<Window> {
    let first = spans.iter().map(|span| span.0).min()?;
    let last = spans.iter().map(|span| span.1).max()?;
    let slack = SLACK.as_nanos();
    let start = spans.iter().map(|span| span.0).filter(|&start| start - first <= slack).max()?;
    let end = spans.iter().map(|span| span.1).filter(|&end| last - end <= slack).min()?;
    let at = Timestamp::from_nanos_since_epoch;
    // Too short a watch to agree on anything.
    Window::new(at(start), at(end)).or_else(|_| Window::new(at(first), at(last))).ok()
}

/// Where each device and scope has readings of energy or power, from a time on: a driver may hold what it sampled
/// seconds before the watch began.
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
    channels.into_iter().filter_map(|(key, spans)| Some((key, agreed(&spans)?))).collect()
}

/// The parts of a window that each device and scope has readings of.
fn covered(timeline: &Timeline, window: Window) -> BTreeMap<(DeviceId, Scope), Window> {
    let inside = |own: Window| Window::new(own.start().max(window.start()), own.end().min(window.end())).ok();
    spans(timeline, None).into_iter().filter_map(|(key, own)| Some((key, inside(own)?))).collect()
}

/// The time of a watch.
pub(super) fn window(timeline: &Timeline, since: Option<Timestamp>) -> Option<Window> {
    let nanos = |window: &Window| (window.start().nanos_since_epoch(), window.end().nanos_since_epoch());
    agreed(&spans(timeline, since).values().map(nanos).collect::<Vec<Span>>())
}

/// The energy of a timeline since a watch began, or of what is left of it from a later time on.
pub(super) fn total(timeline: &Timeline, since: Option<Timestamp>, left: Option<Timestamp>) -> Option<Total> {
    let whole = window(timeline, since)?;
    let window = Window::new(left.unwrap_or(whole.start()), whole.end()).ok()?;
    Some(Total::measure(timeline, window))
}

#[derive(Serialize)]
struct Line {
    totals: TotalReport,
}

#[derive(Serialize)]
struct TotalReport {
    start_us: i64,
    end_us: i64,
    #[serde(flatten)]
    energy: Option<EstimateReport>,
    devices: Vec<DeviceTotalReport>,
}

#[derive(Serialize)]
struct DeviceTotalReport {
    #[serde(flatten)]
    device: DeviceReport,
    /// The time it was measured over.
    start_us: Option<i64>,
    end_us: Option<i64>,
}

pub(super) fn as_json(total: Option<&Total>) -> Result<String, Failure> {
    let Some(total) = total else { return Ok(String::new()) };
    let device = |it: &DeviceTotal| DeviceTotalReport {
        device: DeviceReport::from(&it.energy),
        start_us: it.window.map(|window| window.start().micros_since_epoch()),
        end_us: it.window.map(|window| window.end().micros_since_epoch()),
    };
    let totals = TotalReport {
        start_us: total.window.start().micros_since_epoch(),
        end_us: total.window.end().micros_since_epoch(),
        energy: total.counted().as_ref().map(EstimateReport::from),
        devices: total.devices.iter().map(device).collect(),
    };
    let mut line = serde_json::to_string(&Line { totals }).map_err(|error| Failure::failed(diagnosed!(error)))?;
    line.push('\n');
    Ok(line)
}

pub(super) fn as_table(total: Option<&Total>, screen: Screen) -> String {
    let Some(total) = total else { return String::new() };
    let length = total.window.length();
    let mut table = Table::new([Align::Left, Align::Left, Align::Right, Align::Right, Align::Left, Align::Left]);
    table.row(vec![
        (Tone::Faint, String::from("total")),
        (Tone::Faint, String::new()),
        (Tone::Faint, format!("over {:.2} s", length.get())),
    ]);
    for device in &total.devices {
        let (Ok(estimate), Some(own)) = (&device.energy.estimate, device.window) else { continue };
        let is_part = own != total.window;
        let time = format!("{:.1} of {:.1} s", own.length().get(), length.get());
        table.row(vec![
            (Tone::Strong, device.energy.device.to_string()),
            (Tone::Faint, device.energy.scope.to_string()),
            (Tone::Strong, joules(estimate)),
            (Tone::Plain, format!("{} W", digits((estimate.joules / own.length()).get()))),
            (Tone::Faint, estimate.method.to_string()),
            (Tone::Warning, if is_part { time } else { String::new() }),
        ]);
    }
    format!("\n{}", table.render(screen))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ergometer_telemetry::{Batch, Channel, SensorInfo, Signal};

    use super::*;

    fn time(seconds: f64) -> Timestamp {
        Timestamp::from_nanos_since_epoch(0) + Seconds::new(seconds)
    }

    /// Meters of 100 W, read every 100 ms from a time to another, in tenths of a second.
    fn timeline(meters: &[(u32, u32)]) -> Timeline {
        let mut timeline = Timeline::default();
        for (index, &(from, to)) in (0..).zip(meters) {
            let device = DeviceId::gpu(index);
            let (signal, provenance) = (Signal::PowerInstant, Provenance::SampledPower);
            let channel = Channel { device, scope: Scope::Device, signal, provenance, update_period: None };
            let interval = Duration::from_millis(100);
            let info = SensorInfo { id: format!("power:{index}"), name: String::from("meter"), device, interval };
            let key = timeline.add_sensor(&info, &[channel]);
            let mut batch = Batch::default();
            for tenth in from..=to {
                batch.push(0, time(f64::from(tenth) / 10.0), 100.0);
            }
            timeline.append(key, &batch);
        }
        timeline
    }

    #[test]
    fn each_device_has_its_own_time() {
        let timeline = timeline(&[(0, 180), (2, 177), (0, 20), (90, 180)]);
        let total = total(&timeline, None, None).unwrap();
        assert_eq!(total.window, Window::new(time(0.2), time(17.7)).unwrap(), "two that differ by little agree");
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
        let table = as_table(Some(&total), Screen::PLAIN);
        assert!(table.contains("1.8 of 17.5 s") && table.contains("8.7 of 17.5 s"), "{table}");
        assert_eq!(table.matches(" of ").count(), 2, "{table}");
        let line: serde_json::Value = serde_json::from_str(&as_json(Some(&total)).unwrap()).unwrap();
        assert_eq!(line["totals"]["devices"][2]["end_us"], 2_000_000);
        assert_eq!(line["totals"]["end_us"], 17_700_000);
    }

    #[test]
    fn a_watch_too_short_to_agree_has_its_totals() {
        let total = total(&timeline(&[(0, 4), (6, 10)]), None, None).unwrap();
        assert!(total.devices.iter().all(|it| it.energy.estimate.is_ok()), "{total:?}");
    }

    /// A power ring holds two seconds: they were not watched.
    #[test]
    fn what_a_driver_held_before_the_watch_is_not_in_its_total() {
        let timeline = timeline(&[(0, 100), (31, 100)]);
        let total = total(&timeline, Some(time(3.0)), None).unwrap();
        assert_eq!(total.window, Window::new(time(3.1), time(10.0)).unwrap());
        let joules = total.counted().unwrap().joules.get();
        assert!((joules / 1380.0 - 1.0).abs() < 0.01, "{joules} J of two meters of 100 W over 6.9 s");
    }
}
