//! A power-supply meter that is read once per second as the only source.

use ergometer_telemetry::{
    Batch, Channel, DeviceId, EnergyEstimate, EnergyMeter, Method, Note, Provenance, Reading, Scope, SensorInfo,
    Signal, Timeline,
};
use ergometer_units::Seconds;

use crate::simulator::{time, window};

/// 300 W, read each second for 30 s; each read takes 80 ms, as with a board controller.
fn timeline() -> Timeline {
    let device = DeviceId::meter(0);
    let info = SensorInfo {
        id: "command:ipmitool".to_owned(),
        name: "ipmitool".to_owned(),
        device,
        interval: std::time::Duration::from_secs(1),
    };
    let channel = Channel {
        device,
        scope: Scope::Psys,
        signal: Signal::PowerInstant,
        provenance: Provenance::SampledPower,
        update_period: None,
    };
    let mut timeline = Timeline::default();
    let key = timeline.add_sensor(&info, &[channel]);
    let mut batch = Batch::default();
    for second in 0..=30 {
        let after = time(f64::from(second));
        batch.readings.push(Reading { channel: 0, after, at: after + Seconds::new(0.08), value: 300.0 });
    }
    timeline.append(key, &batch);
    timeline
}

fn energy(from: f64, to: f64) -> EnergyEstimate {
    let timeline = timeline();
    let requested = window(from, to);
    EnergyMeter::new(&timeline, &[requested]).energy(requested).measured.unwrap()
}

#[test]
fn energy_of_a_steady_load_is_power_times_length() {
    for (from, to) in [(10.3, 11.3), (10.3, 20.3)] {
        let energy = energy(from, to);
        let truth = 300.0 * (to - from);
        assert_eq!(energy.method, Method::Power);
        assert!((energy.joules.get() / truth - 1.0).abs() < 0.01, "{energy:?} for {truth} J");
        assert!((energy.low.get()..=energy.high.get()).contains(&truth), "{energy:?} for {truth} J");
        assert!(energy.low < energy.high, "{energy:?}: the interval has a width");
    }
}

#[test]
fn a_window_shorter_than_the_spacing_has_a_note() {
    let energy = energy(10.3, 10.35);
    assert!(energy.notes.iter().any(|note| matches!(note, Note::TooShort { .. })), "{energy:?}");
    assert!((energy.joules.get() - 15.0).abs() < 1.0, "{energy:?}");
}
