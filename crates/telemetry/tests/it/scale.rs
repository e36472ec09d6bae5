//! Many windows: ten thousand over an hour, and fifteen thousand that overlap. Their sum and each window must be
//! accurate.

use ergometer_telemetry::{EnergyMeter, Timeline};
use ergometer_units::Window;

use crate::random::Random;
use crate::simulator::{COUNTER, ChannelSpec, Counter, Curve, GPU, RING, add, window};

const WINDOWS: usize = 10_000;

#[test]
fn an_hour_of_ten_thousand_windows() {
    let (mut random, mut curve, mut known) = (Random::new(3), Curve::default(), Vec::with_capacity(WINDOWS));
    curve.push(1.0, 120.0);
    for _ in 0..WINDOWS {
        let from = curve.end();
        curve.push(random.between(0.05, 0.25), random.between(300.0, 700.0));
        known.push((from, curve.end()));
        curve.push(random.between(0.1, 0.32), 120.0);
    }
    curve.push(1.0, 120.0);
    assert!(curve.end() > 3500.0, "{} s", curve.end());

    let timeline = h200_timeline(&curve, &mut random);
    let windows: Vec<Window> = known.iter().map(|&(from, to)| window(from, to)).collect();
    let meter = EnergyMeter::new(&timeline, &windows);
    let (mut sum, mut truth, mut covered) = (0.0, 0.0, 0_u32);
    for (&requested, &(from, to)) in windows.iter().zip(&known) {
        let energy = meter.energy(requested).measured.unwrap();
        let joules = curve.joules(from, to);
        covered += u32::from((energy.low.get()..=energy.high.get()).contains(&joules));
        sum += energy.joules.get();
        truth += joules;
    }
    assert!((sum / truth - 1.0).abs() < 0.002, "{sum} of {truth} J");
    assert!(f64::from(covered) >= 0.95 * WINDOWS as f64, "{covered} of {WINDOWS} windows");
    let whole = meter.energy(window(0.5, curve.end() - 0.5)).measured.unwrap();
    let truth = curve.joules(0.5, curve.end() - 0.5);
    assert!((whole.joules.get() / truth - 1.0).abs() < 0.001, "{whole:?} for {truth} J");
}

/// Overlapping requests have edges milliseconds apart: 500 in flight, of about two seconds each.
#[test]
fn many_edges_per_sensor_period() {
    let (mut random, mut curve) = (Random::new(3), Curve::default());
    curve.push(1.0, 120.0);
    for _ in 0..600 {
        curve.push(0.1, random.between(500.0, 700.0));
    }
    curve.push(1.0, 120.0);
    let timeline = h200_timeline(&curve, &mut random);
    let known: Vec<(f64, f64)> =
        (0..15_000).map(|_| random.between(1.0, 59.0)).map(|from| (from, from + 1.5 + 0.5 * from.fract())).collect();
    let windows: Vec<Window> = known.iter().map(|&(from, to)| window(from, to)).collect();
    let meter = EnergyMeter::new(&timeline, &windows);
    for (&requested, &(from, to)) in windows.iter().zip(&known).step_by(50) {
        let (energy, truth) = (meter.energy(requested).measured.unwrap(), curve.joules(from, to));
        assert!((energy.joules.get() / truth - 1.0).abs() < 0.02, "{energy:?} for {truth} J");
    }
}

fn h200_timeline(curve: &Curve, random: &mut Random) -> Timeline {
    let counter = Counter { memory: RING.memory, lag: RING.lag, ..COUNTER };
    let mut timeline = Timeline::default();
    add(&mut timeline, ChannelSpec::ring(GPU), RING.readings(curve, random));
    add(&mut timeline, ChannelSpec::counter(GPU, counter.period), counter.readings(curve, random));
    timeline
}
