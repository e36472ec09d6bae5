//! Invariants of energy estimates, for all sensors and windows.

use ergometer_telemetry::{EnergyMeter, Timeline};
use proptest::prelude::*;

use crate::random::Random;
use crate::simulator::{COUNTER, ChannelSpec, Curve, GPU, RING, Ring, add, window};

/// The sensors of the device.
#[derive(Debug, Clone, Copy)]
enum Sensors {
    Both,
    Ring,
    Counter,
}

fn any_sensors() -> impl Strategy<Value = Sensors> {
    prop_oneof![Just(Sensors::Both), Just(Sensors::Ring), Just(Sensors::Counter)]
}

fn timeline(curve: &Curve, sensors: Sensors, ring: Ring, seed: u64) -> Timeline {
    let (mut timeline, mut random) = (Timeline::default(), Random::new(seed));
    if matches!(sensors, Sensors::Both | Sensors::Ring) {
        add(&mut timeline, ChannelSpec::ring(GPU), ring.readings(curve, &mut random));
    }
    if matches!(sensors, Sensors::Both | Sensors::Counter) {
        add(&mut timeline, ChannelSpec::counter(GPU, COUNTER.period), COUNTER.readings(curve, &mut random));
    }
    timeline
}

/// Pieces of 0 to 700 W and 10 to 600 ms, with a second of idle before and after.
fn any_curve() -> impl Strategy<Value = Curve> {
    prop::collection::vec((0.01..0.6f64, 0.0..700.0f64), 3..12).prop_map(|pieces| {
        let mut curve = Curve::default();
        curve.push(1.0, 50.0);
        for (seconds, watts) in pieces {
            curve.push(seconds, watts);
        }
        curve.push(1.0, 50.0);
        curve
    })
}

proptest! {
    // Each case fits the sensors, which takes 0.05 to 0.3 s.
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn adjacent_windows_add_up_and_intervals_contain_the_estimate(
        curve in any_curve(),
        sensors in any_sensors(),
        seed in any::<u64>(),
        cuts in prop::collection::vec(0.0..1.0f64, 1..8),
        are_known in any::<bool>(),
    ) {
        let timeline = timeline(&curve, sensors, RING, seed);
        let (first, last) = (0.3, curve.end() - 0.3);
        let mut edges: Vec<f64> = cuts.iter().map(|cut| first + cut * (last - first)).chain([first, last]).collect();
        edges.sort_by(f64::total_cmp);
        let parts: Vec<_> = edges.windows(2).map(|pair| window(pair[0], pair[1])).collect();
        let meter = EnergyMeter::new(&timeline, if are_known { &parts } else { &[] });
        let mut sum = 0.0;
        for &part in parts.iter().chain([&window(first, last)]) {
            let energy = meter.energy(part).measured.unwrap();
            prop_assert!(0.0 <= energy.low.get() && energy.low <= energy.joules && energy.joules <= energy.high);
            prop_assert!(energy.high.get().is_finite());
            sum += energy.joules.get();
        }
        let whole = meter.energy(window(first, last)).measured.unwrap().joules.get();
        prop_assert!(((sum - whole) / whole - 1.0).abs() < 1e-6, "{} of {whole} J", sum - whole);
    }

    #[test]
    fn constant_power_is_estimated_within_one_percent(
        watts in 5.0..1000.0f64,
        sensors in any_sensors(),
        seed in any::<u64>(),
        from in 0.5..3.0f64,
        length in 0.05..1.0f64,
    ) {
        let mut curve = Curve::default();
        curve.push(5.0, watts);
        let timeline = timeline(&curve, sensors, Ring { noise: 0.0, ..RING }, seed);
        let requested = window(from, from + length);
        let meter = EnergyMeter::new(&timeline, &[requested]);
        let energy = meter.energy(requested).measured.unwrap();
        // The counter has a resolution of 1 mJ, and a step is known to up to 25 ms.
        let truth = watts * length;
        prop_assert!((energy.joules.get() / truth - 1.0).abs() < 0.01, "{energy:?} for {truth} J");
        prop_assert!((energy.low.get()..=energy.high.get()).contains(&truth));
    }
}
