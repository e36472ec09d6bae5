//! Sensors that fail: counter resets, impossible steps, gaps, stuck counters. Estimates must carry the matching notes.

use ergometer_telemetry::{
    DeviceId, EnergyError, EnergyEstimate, EnergyMeter, Method, Note, Provenance, Reading, Scope, Signal, Timeline,
};

use crate::random::Random;
use crate::simulator::{COUNTER, ChannelSpec, Curve, GPU, Memory, RING, Ring, add, time, window};

/// Ten seconds of 100 W, with 500 W from 4 s to 6 s.
fn curve() -> Curve {
    let mut curve = Curve::default();
    curve.push(4.0, 100.0);
    curve.push(2.0, 500.0);
    curve.push(4.0, 100.0);
    curve
}

fn ring() -> Vec<Reading> {
    RING.readings(&curve(), &mut Random::new(1))
}

fn counter() -> Vec<Reading> {
    COUNTER.readings(&curve(), &mut Random::new(2))
}

/// The energy from `from` to `to` of a GPU with these readings; the load is known activity.
fn energy(ring: Vec<Reading>, counter: Vec<Reading>, from: f64, to: f64) -> EnergyEstimate {
    let mut timeline = Timeline::default();
    if !ring.is_empty() {
        add(&mut timeline, ChannelSpec::ring(GPU), ring);
    }
    if !counter.is_empty() {
        add(&mut timeline, ChannelSpec::counter(GPU, COUNTER.period), counter);
    }
    let requested = window(from, to);
    EnergyMeter::new(&timeline, &[requested, window(4.0, 6.0)]).energy(requested).measured.unwrap()
}

fn assert_covers(energy: &EnergyEstimate, joules: f64) {
    assert!((energy.low.get()..=energy.high.get()).contains(&joules), "{energy:?} for {joules} J");
    assert!((energy.joules.get() / joules - 1.0).abs() < 0.02, "{energy:?} for {joules} J");
}

#[test]
fn a_counter_reset_loses_one_step_and_adds_a_note() {
    for rings in [ring(), Vec::new()] {
        let mut readings = counter();
        for reading in readings.iter_mut().filter(|reading| reading.at > time(5.0)) {
            reading.value -= 1e5 + 850.0;
        }
        let energy = energy(rings, readings, 3.5, 6.5);
        assert!(energy.notes.contains(&Note::CounterReset), "{energy:?}");
        assert_covers(&energy, 1100.0);
    }
}

#[test]
fn an_impossible_counter_step_is_rejected_with_a_note() {
    for rings in [ring(), Vec::new()] {
        let mut readings = counter();
        readings[50].value += 1e6;
        let energy = energy(rings, readings, 3.5, 6.5);
        assert!(energy.notes.contains(&Note::ImpossibleStep), "{energy:?}");
        assert_covers(&energy, 1100.0);
    }
}

#[test]
fn a_stuck_counter_is_ignored() {
    let mut stuck = counter();
    for reading in &mut stuck {
        reading.value = 1e5;
    }
    let energy = energy(ring(), stuck, 3.5, 6.5);
    assert_eq!(energy.method, Method::Power);
    assert_covers(&energy, 1100.0);
}

#[test]
fn a_counter_is_ignored_after_it_gets_stuck() {
    let mut stuck = counter();
    let last = stuck[30].value;
    for reading in &mut stuck[30..] {
        reading.value = last;
    }
    assert_covers(&energy(ring(), stuck, 3.5, 6.5), 1100.0);
}

#[test]
fn average_power_is_used_if_the_counter_is_stuck() {
    let average = Ring { memory: Memory::Boxcar(1.0), period: 0.1, lag: 0.0, jitter: 0.0, late: 0.0, noise: 1.0 };
    let spec =
        ChannelSpec { signal: Signal::PowerAverage, provenance: Provenance::AveragedPower, ..ChannelSpec::ring(GPU) };
    let energy = |counter: Vec<Reading>| {
        let mut timeline = Timeline::default();
        add(&mut timeline, spec, average.readings(&curve(), &mut Random::new(3)));
        add(&mut timeline, ChannelSpec::counter(GPU, COUNTER.period), counter);
        let requested = window(3.0, 8.5);
        EnergyMeter::new(&timeline, &[requested, window(4.0, 6.0)]).energy(requested).measured.unwrap()
    };
    let off = |energy: &EnergyEstimate| (energy.joules.get() / 1350.0 - 1.0).abs();
    // A sensor repeats the last value for a second and then stops.
    for (moves, method) in [(1, Method::Power), (45, Method::ActivityAware)] {
        let mut stuck: Vec<Reading> = counter().into_iter().take(moves + 10).collect();
        let last = stuck[moves - 1].value;
        for reading in &mut stuck[moves..] {
            reading.value = last;
        }
        let energy = energy(stuck);
        assert_eq!(energy.method, method, "{energy:?}");
        assert!(off(&energy) < 0.05, "{energy:?}");
    }
    let counted = energy(counter());
    assert_eq!(counted.method, Method::Counter, "a working counter takes precedence over an average");
    assert!(off(&counted) < 0.01, "{counted:?}");
}

#[test]
fn a_gap_adds_a_note_and_widens_the_interval() {
    let with_gap = |readings: Vec<Reading>| -> Vec<Reading> {
        readings.into_iter().filter(|reading| !window(4.5, 5.5).contains(reading.at)).collect()
    };
    let whole = energy(ring(), Vec::new(), 4.0, 6.0);
    let gapped = energy(with_gap(ring()), Vec::new(), 4.0, 6.0);
    let is_gap = |note: &Note| matches!(note, Note::Gap(gap) if (gap.get() - 1.0).abs() < 0.1);
    assert!(gapped.notes.iter().any(is_gap) && !whole.notes.iter().any(is_gap), "{gapped:?}");
    assert!((gapped.high - gapped.low) > (whole.high - whole.low) * 3.0, "{gapped:?} {whole:?}");

    // A counter that continues after the gap gives its total energy, but not when the energy was used.
    let bridged = energy(with_gap(ring()), with_gap(counter()), 4.0, 6.0);
    assert!(bridged.notes.iter().any(is_gap), "{bridged:?}");
    assert_covers(&bridged, 1000.0);
    let inside = energy(with_gap(ring()), with_gap(counter()), 4.0, 5.0);
    assert!(inside.relative_margin() > 3.0 * bridged.relative_margin(), "{inside:?} {bridged:?}");
}

#[test]
fn outside_the_data_and_without_data_there_is_no_energy() {
    let mut timeline = Timeline::default();
    assert_eq!(EnergyMeter::new(&timeline, &[]).energy(window(1.0, 2.0)).measured, Err(EnergyError::NoSensor));
    add(&mut timeline, ChannelSpec::ring(GPU), ring());
    let meter = EnergyMeter::new(&timeline, &[]);
    for (from, to) in [(-2.0, -1.0), (-1.0, 1.0), (9.0, 11.0), (20.0, 21.0)] {
        let energy = meter.energy(window(from, to));
        assert!(matches!(energy.measured, Err(EnergyError::Outside { .. })), "{energy:?}");
    }
    assert!(meter.energy(window(1.0, 9.0)).measured.is_ok());
}

#[test]
fn a_device_without_data_for_the_window_is_named_in_a_note() {
    let mut timeline = Timeline::default();
    add(&mut timeline, ChannelSpec::ring(GPU), ring());
    add(&mut timeline, ChannelSpec::ring(DeviceId::gpu(1)), ring().into_iter().skip(200).take(50).collect());
    let energy = EnergyMeter::new(&timeline, &[]).energy(window(1.0, 9.0)).measured.unwrap();
    assert_eq!(energy.notes, [Note::Incomplete(DeviceId::gpu(1))]);
}

#[test]
fn contained_scopes_and_modelled_power_are_not_summed() {
    let cpu = DeviceId::cpu(0);
    let mut timeline = Timeline::default();
    add(&mut timeline, ChannelSpec::ring(GPU), ring());
    add(&mut timeline, ChannelSpec::ring(GPU).with_scope(Scope::Memory), ring());
    for scope in [Scope::Psys, Scope::Package, Scope::Core, Scope::Dram] {
        add(&mut timeline, ChannelSpec::counter(cpu, COUNTER.period).with_scope(scope), counter());
    }
    let modelled = ChannelSpec {
        signal: Signal::PowerModelled,
        provenance: Provenance::Modelled,
        ..ChannelSpec::ring(DeviceId::host())
    };
    add(&mut timeline, modelled, ring());
    let requested = window(4.0, 6.0);
    let energy = EnergyMeter::new(&timeline, &[requested]).energy(requested);
    let summed = |device, scope| {
        energy.devices.iter().find(|found| (found.device, found.scope) == (device, scope)).unwrap().summed
    };
    assert!(summed(GPU, Scope::Device) && !summed(GPU, Scope::Memory));
    assert!(summed(cpu, Scope::Package) && summed(cpu, Scope::Dram));
    assert!(!summed(cpu, Scope::Psys) && !summed(cpu, Scope::Core));
    assert_covers(energy.measured.as_ref().unwrap(), 3000.0);
    let modelled = energy.modelled.unwrap();
    assert_eq!(modelled.method, Method::Modelled);
    assert_covers(&modelled, 1000.0);
}

/// A timeline of one counter: a reading every `period`, with the value `count(index)`.
fn counter_timeline(period: f64, readings: u32, count: impl Fn(u32) -> f64) -> Timeline {
    let mut timeline = Timeline::default();
    let readings = (0..readings).map(|index| {
        let at = time(f64::from(index) * period);
        Reading { channel: 0, after: at, at, value: count(index) }
    });
    add(&mut timeline, ChannelSpec::counter(GPU, period), readings.collect());
    timeline
}

/// Regression: time after the last reading was counted as 0 W with a narrow interval.
#[test]
fn power_beyond_the_readings_is_not_zero() {
    let timeline = counter_timeline(1.0, 30, |index| 100.0 * f64::from(index));
    for (from, to) in [(29.0, 29.9), (28.0, 29.9), (-0.9, 0.0), (-0.9, 1.0)] {
        let requested = window(from, to);
        let energy = EnergyMeter::new(&timeline, &[requested]).energy(requested).measured.unwrap();
        let truth = 100.0 * (to - from);
        assert!(energy.low.get() <= truth && truth <= energy.high.get(), "{from}..{to}: {energy:?} for {truth} J");
        assert!((energy.joules.get() / truth - 1.0).abs() < 0.3, "{from}..{to}: {energy:?} for {truth} J");
    }
}

#[test]
fn a_counter_that_only_decreases_gives_no_energy() {
    for step in [-3.0, 1e9] {
        let timeline = counter_timeline(0.1, 50, |index| 1e6 + step * f64::from(index));
        let requested = window(1.0, 2.0);
        let energy = EnergyMeter::new(&timeline, &[requested]).energy(requested).measured;
        assert_eq!(energy, Err(EnergyError::TooFewReadings), "steps of {step} J");
    }
}

/// Regression: a single wrong timestamp or a gap of days created one cell per sensor period.
#[test]
fn a_wrong_timestamp_does_not_create_too_many_cells() {
    for stray in [-4e8, 3e6, 7e9] {
        let (mut timeline, mut random) = (Timeline::default(), Random::new(1));
        let mut readings = RING.readings(&curve(), &mut random);
        let at = time(stray);
        readings.push(Reading { channel: 0, after: at, at, value: 100.0 });
        add(&mut timeline, ChannelSpec::ring(GPU), readings);
        let requested = window(4.0, 6.0);
        let energy = EnergyMeter::new(&timeline, &[requested]).energy(requested).measured.unwrap();
        assert!((energy.joules.get() / 1000.0 - 1.0).abs() < 0.05, "{stray}: {energy:?}");
    }
}

/// Psys contains the cores and, on most machines, the memory. If no package is measured, it is used for all.
#[test]
fn the_platform_is_not_added_to_the_scopes_it_contains() {
    let mut timeline = Timeline::default();
    let scopes = [
        (DeviceId::host(), Scope::Psys, 100.0),
        (DeviceId::cpu(0), Scope::Core, 40.0),
        (DeviceId::cpu(0), Scope::Dram, 10.0),
    ];
    for (device, scope, watts) in scopes {
        let readings = (0..200).map(|index| {
            let at = time(f64::from(index) * 0.05);
            Reading { channel: 0, after: at, at, value: watts * 0.05 * f64::from(index) }
        });
        add(&mut timeline, ChannelSpec { scope, ..ChannelSpec::counter(device, 0.05) }, readings.collect());
    }
    let requested = window(2.0, 8.0);
    let energy = EnergyMeter::new(&timeline, &[requested]).energy(requested);
    let joules = energy.measured.unwrap().joules.get();
    assert!((joules / 600.0 - 1.0).abs() < 0.02, "{joules} J for 600");
}
