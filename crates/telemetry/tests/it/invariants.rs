//! What holds of every energy, whatever the sensors and the windows.

use ergometer_telemetry::{EnergyMeter, Timeline};
use proptest::prelude::*;

use crate::random::Random;
use crate::simulator::{COUNTER, Curve, GPU, Place, RING, Ring, add, window};

/// Which sensors there are.
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
        add(&mut timeline, Place::ring(GPU), ring.readings(curve, &mut random));
    }
    if matches!(sensors, Sensors::Both | Sensors::Counter) {
        add(&mut timeline, Place::counter(GPU, COUNTER.period), COUNTER.readings(curve, &mut random));
    }
    timeline
}

/// Pieces of power between 0 and 700 W, 10 to 600 ms long, on a second of idle at either end.
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
    // A case is a fit of the sensors, 0.05 to 0.3 s.
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parts_sum_to_the_whole_and_lie_in_their_intervals(
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
    fn a_constant_power_is_itself(
        watts in 5.0..1000.0f64,
        sensors in any_sensors(),
        seed in any::<u64>(),
        from in 0.5..3.0f64,
        length in 0.05..1.0f64,
    ) {
        let mut curve = Curve::default();
        curve.push(5.0, watts);
        let timeline = timeline(&curve, sensors, Ring { noise: 0.0, ..RING }, seed);
        let asked = window(from, from + length);
        let meter = EnergyMeter::new(&timeline, &[asked]);
        let energy = meter.energy(asked).measured.unwrap();
        // A step of the counter is a millijoule coarse, a bracket without a clock 25 ms wide.
        prop_assert!((energy.joules.get() / (watts * length) - 1.0).abs() < 0.01, "{energy:?} for {} J", watts * length);
        prop_assert!((energy.low.get()..=energy.high.get()).contains(&(watts * length)));
    }
}
