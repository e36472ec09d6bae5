//! A laptop's battery as the only source: a mean power that is renewed every 10 s and read every second.
//!
//! What is shorter than the gauge's own period cannot be told from what is around it, and has to say so.

use ergometer_telemetry::{DeviceId, EnergyMeter, Estimate, Note, Provenance, Reading, Scope, Signal, Timeline};

use crate::simulator::{Curve, Place, add, time, window};

/// How often the gauge renews its figure, in seconds.
const RENEWAL: f64 = 10.0;

/// Two minutes at 8 W, with 30 W from 43 s to 46 s: a query between two renewals.
fn curve() -> Curve {
    let mut curve = Curve::default();
    curve.push(43.0, 8.0);
    curve.push(3.0, 30.0);
    curve.push(74.0, 8.0);
    curve
}

/// Each second what the gauge last worked out: the mean of its last period, to 10 mW and never twice the same.
fn readings(curve: &Curve) -> Vec<Reading> {
    let shown = |second: u32| {
        let renewed = (f64::from(second) / RENEWAL).floor() * RENEWAL;
        let mean = curve.joules(renewed - RENEWAL, renewed) / RENEWAL;
        let noise = 0.01 * (f64::from(second / 10) * 7.0 % 5.0);
        Reading { channel: 0, after: time(f64::from(second)), at: time(f64::from(second) + 0.001), value: mean + noise }
    };
    (0..120).map(shown).collect()
}

fn energy(from: f64, to: f64) -> Estimate {
    let mut timeline = Timeline::default();
    let battery = Place {
        device: DeviceId::meter(0),
        scope: Scope::Psys,
        signal: Signal::PowerAverage,
        provenance: Provenance::AveragedPower,
        update_period: None,
    };
    add(&mut timeline, battery, readings(&curve()));
    let asked = window(from, to);
    EnergyMeter::new(&timeline, &[asked]).energy(asked).measured.unwrap()
}

fn is_too_short(estimate: &Estimate) -> bool {
    estimate.notes.iter().any(|note| matches!(note, Note::TooShort { .. }))
}

#[test]
fn a_query_between_two_renewals_is_too_short_and_its_interval_holds_the_truth() {
    for (from, to) in [(43.0, 46.0), (43.5, 45.5), (44.0, 44.4), (62.0, 65.0)] {
        let estimate = energy(from, to);
        let truth = curve().joules(from, to);
        assert!(is_too_short(&estimate), "{estimate:?}");
        assert!((estimate.low.get()..=estimate.high.get()).contains(&truth), "{truth} J, {estimate:?}");
    }
}

#[test]
fn a_minute_is_measured() {
    for (from, to) in [(20.0, 80.0), (60.0, 110.0)] {
        let estimate = energy(from, to);
        let truth = curve().joules(from, to);
        assert!(!is_too_short(&estimate), "{estimate:?}");
        assert!((estimate.joules.get() / truth - 1.0).abs() < 0.05, "{truth} J, {estimate:?}");
        assert!((estimate.low.get()..=estimate.high.get()).contains(&truth), "{truth} J, {estimate:?}");
    }
}
