//! A meter of the machine's supply that is read once a second, and nothing else.

use ergometer_telemetry::{
    Batch, Channel, DeviceId, EnergyMeter, Estimate, Method, Note, Provenance, Reading, Scope, SensorInfo, Signal,
    Timeline,
};
use ergometer_units::Seconds;

use crate::simulator::{time, window};

/// 300 W, read each second for 30 s, each read taking 80 ms as a board controller's does.
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

fn energy(from: f64, to: f64) -> Estimate {
    let timeline = timeline();
    let asked = window(from, to);
    EnergyMeter::new(&timeline, &[asked]).energy(asked).measured.unwrap()
}

#[test]
fn a_steady_load_is_its_power_times_its_length() {
    for (from, to) in [(10.3, 11.3), (10.3, 20.3)] {
        let energy = energy(from, to);
        let truth = 300.0 * (to - from);
        assert_eq!(energy.method, Method::Power);
        assert!((energy.joules.get() / truth - 1.0).abs() < 0.01, "{energy:?} for {truth} J");
        assert!((energy.low.get()..=energy.high.get()).contains(&truth), "{energy:?} for {truth} J");
        assert!(energy.low < energy.high, "{energy:?}: nothing is known exactly");
    }
}

#[test]
fn a_window_shorter_than_the_spacing_is_said_to_be() {
    let energy = energy(10.3, 10.35);
    assert!(energy.notes.iter().any(|note| matches!(note, Note::TooShort { .. })), "{energy:?}");
    assert!((energy.joules.get() - 15.0).abs() < 1.0, "{energy:?}");
}
