//! A laptop's battery as the only source: a mean power that is updated every 10 s and read every second.
//!
//! A window shorter than the update period cannot be resolved, and its estimate must have a note.

use ergometer_telemetry::{DeviceId, EnergyEstimate, EnergyMeter, Note, Provenance, Reading, Scope, Signal, Timeline};

use crate::simulator::{ChannelSpec, Curve, add, time, window};

/// The update period of the gauge, in seconds.
const UPDATE_PERIOD: f64 = 10.0;

/// Two minutes at 8 W, with 30 W from 43 s to 46 s: a query between two updates.
fn curve() -> Curve {
    let mut curve = Curve::default();
    curve.push(43.0, 8.0);
    curve.push(3.0, 30.0);
    curve.push(74.0, 8.0);
    curve
}

/// One reading per second: the mean of the last full update period, plus up to 40 mW that changes with each update.
fn readings(curve: &Curve) -> Vec<Reading> {
    let reading = |second: u32| {
        let updated = (f64::from(second) / UPDATE_PERIOD).floor() * UPDATE_PERIOD;
        let mean = curve.joules(updated - UPDATE_PERIOD, updated) / UPDATE_PERIOD;
        let noise = 0.01 * (f64::from(second / 10) * 7.0 % 5.0);
        Reading { channel: 0, after: time(f64::from(second)), at: time(f64::from(second) + 0.001), value: mean + noise }
    };
    (0..120).map(reading).collect()
}

fn energy(from: f64, to: f64) -> EnergyEstimate {
    let mut timeline = Timeline::default();
    let battery = ChannelSpec {
        device: DeviceId::meter(0),
        scope: Scope::Psys,
        signal: Signal::PowerAverage,
        provenance: Provenance::AveragedPower,
        update_period: None,
    };
    add(&mut timeline, battery, readings(&curve()));
    let requested = window(from, to);
    EnergyMeter::new(&timeline, &[requested]).energy(requested).measured.unwrap()
}

fn is_too_short(estimate: &EnergyEstimate) -> bool {
    estimate.notes.iter().any(|note| matches!(note, Note::TooShort { .. }))
}

#[test]
fn a_query_between_two_updates_is_too_short_and_its_interval_covers_the_truth() {
    for (from, to) in [(43.0, 46.0), (43.5, 45.5), (44.0, 44.4), (62.0, 65.0)] {
        let estimate = energy(from, to);
        let truth = curve().joules(from, to);
        assert!(is_too_short(&estimate), "{estimate:?}");
        assert!((estimate.low.get()..=estimate.high.get()).contains(&truth), "{truth} J, {estimate:?}");
    }
}

#[test]
fn a_window_of_a_minute_is_accurate() {
    for (from, to) in [(20.0, 80.0), (60.0, 110.0)] {
        let estimate = energy(from, to);
        let truth = curve().joules(from, to);
        assert!(!is_too_short(&estimate), "{estimate:?}");
        assert!((estimate.joules.get() / truth - 1.0).abs() < 0.05, "{truth} J, {estimate:?}");
        assert!((estimate.low.get()..=estimate.high.get()).contains(&truth), "{truth} J, {estimate:?}");
    }
}
