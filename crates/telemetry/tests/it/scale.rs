//! An hour of an H200 with ten thousand windows: solved at once, and right in the sum and in each.

use ergometer_telemetry::{DeviceId, EnergyMeter, Timeline};
use ergometer_units::Window;

use crate::random::Random;
use crate::simulator::{Counter, Curve, Memory, Place, Read, Ring, add, window};

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

    let memory = Memory::LowPass(0.012);
    let ring = Ring { memory, period: 0.02, lag: 0.005, jitter: 0.001, late: 0.07, noise: 2.0 };
    let read = Read::EveryStep { shortest: 0.006, longest: 0.025 };
    let counter = Counter { memory, period: 0.1, lag: 0.005, read, unit: 1e-3 };
    let (mut timeline, gpu) = (Timeline::default(), DeviceId::gpu(0));
    add(&mut timeline, Place::ring(gpu), ring.readings(&curve, &mut random));
    add(&mut timeline, Place::counter(gpu, counter.period), counter.readings(&curve, &mut random));

    let windows: Vec<Window> = known.iter().map(|&(from, to)| window(from, to)).collect();
    let meter = EnergyMeter::new(&timeline, &windows);
    let (mut sum, mut truth, mut covered) = (0.0, 0.0, 0_u32);
    for (&asked, &(from, to)) in windows.iter().zip(&known) {
        let energy = meter.energy(asked).measured.unwrap();
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
