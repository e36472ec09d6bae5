//! Tests with fake power supply folders.

use std::fs;

use ergometer_telemetry::{Batch, Clock, EventKind, SensorError};
use tempfile::TempDir;

use super::*;

struct FakeSupplies(TempDir);

impl FakeSupplies {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn options(&self) -> Options {
        Options { root: self.0.path().to_owned(), ..Options::default() }
    }

    fn add(&self, name: &str, files: &[(&str, &str)]) {
        fs::create_dir_all(self.0.path().join(name)).unwrap();
        for (file, text) in files {
            self.write(name, file, format!("{text}\n").as_bytes());
        }
    }

    fn write(&self, name: &str, file: &str, content: &[u8]) {
        fs::write(self.0.path().join(name).join(file), content).unwrap();
    }

    /// A laptop that runs on battery.
    fn laptop() -> Self {
        let supplies = Self::new();
        supplies.add("AC", &[("type", "Mains"), ("online", "0")]);
        supplies.add(
            "BAT0",
            &[("type", "Battery"), ("status", "Discharging"), ("present", "1"), ("power_now", "11480000")],
        );
        supplies
    }
}

fn sample(probe: &mut Probe) -> Batch {
    let mut batch = Batch::default();
    probe.sensors[0].sample(&Clock::start(), &mut batch).unwrap();
    batch
}

fn watts(probe: &mut Probe) -> Option<f64> {
    sample(probe).readings.first().map(|reading| (reading.value * 1000.0).round() / 1000.0)
}

#[test]
fn a_discharging_battery_measures_the_machine() {
    let supplies = FakeSupplies::laptop();
    let mut probe = probe(&Options { first_meter: 2, ..supplies.options() });
    assert_eq!(watts(&mut probe), Some(11.48));
    let sensor = &probe.sensors[0];
    assert_eq!((sensor.info().id.as_str(), sensor.interval()), ("battery:2", Duration::from_secs(1)));
    let channel = &sensor.channels()[0];
    assert_eq!((channel.device, channel.scope), (DeviceId::meter(2), Scope::Psys));
    assert_eq!((channel.signal, channel.provenance), (Signal::PowerAverage, Provenance::AveragedPower));
    assert_eq!(channel.update_period, None);
    assert!(matches!(&probe.findings[0].status, Status::Works(text) if text.starts_with("power of the whole machine")));
}

#[test]
fn batteries_add_up_and_current_times_voltage_is_power() {
    let supplies = FakeSupplies::new();
    let half =
        [("type", "Battery"), ("status", "Discharging"), ("current_now", "-820000"), ("voltage_now", "11600000")];
    supplies.add("BAT0", &half);
    supplies.add("BAT1", &[("type", "Battery"), ("status", "Discharging"), ("power_now", "2000000")]);
    let mut probe = probe(&supplies.options());
    assert_eq!(probe.findings[0].device, "BAT0 and BAT1 (meter:0)");
    assert_eq!(watts(&mut probe), Some(11.512));
    supplies.write("BAT1", "status", b"Not charging\n");
    assert_eq!(watts(&mut probe), Some(9.512), "one is idle");
    supplies.write("BAT1", "status", b"Charging\n");
    assert_eq!(watts(&mut probe), None);
}

#[test]
fn with_a_charger_there_is_no_reading_and_a_fix() {
    let supplies = FakeSupplies::laptop();
    supplies.write("BAT0", "status", b"Charging\n");
    for (online, why) in [(&b"1\n"[..], "AC is plugged in"), (b"0\n", "BAT0 is charging")] {
        supplies.write("AC", "online", online);
        let mut probe = probe(&supplies.options());
        assert_eq!(watts(&mut probe), None);
        let Status::Limited { why: found, fix } = &probe.findings[0].status else { panic!("{:?}", probe.findings) };
        assert!(found.ends_with(why), "{found}");
        assert_eq!(fix.as_deref(), Some("unplug the power supply"));
        supplies.write("AC", "online", b"0\n");
        supplies.write("BAT0", "status", b"Discharging\n");
        assert_eq!(watts(&mut probe), Some(11.48), "unplugged later");
        supplies.write("AC", "online", b"1\n");
        assert_eq!(watts(&mut probe), None, "a weak charger supplies a part");
        supplies.write("BAT0", "status", b"Charging\n");
    }
}

#[test]
fn zero_garbage_and_removal_are_handled() {
    let supplies = FakeSupplies::laptop();
    let mut probe = probe(&supplies.options());
    supplies.write("BAT0", "power_now", b"0\n");
    assert_eq!(watts(&mut probe), None, "a running machine draws power");
    for content in [&b"\xff\xfe\n"[..], b"fish\n"] {
        supplies.write("BAT0", "power_now", content);
        assert_eq!(sample(&mut probe).events[0].kind, EventKind::ReadFailed);
        supplies.write("BAT0", "power_now", b"9000000\n");
        assert_eq!(watts(&mut probe), Some(9.0));
    }
    supplies.write("BAT0", "status", b"\xff\n");
    assert_eq!(watts(&mut probe), None);
    fs::remove_file(supplies.0.path().join("BAT0/status")).unwrap();
    let error = probe.sensors[0].sample(&Clock::start(), &mut Batch::default()).unwrap_err();
    assert!(matches!(error, SensorError::Lost { reason, .. } if reason.text == "the battery was removed"));
}

#[test]
fn a_mouse_an_empty_bay_and_a_desktop_give_no_findings() {
    let supplies = FakeSupplies::new();
    supplies.add("AC", &[("type", "Mains"), ("online", "1")]);
    supplies.add("BAT1", &[("type", "Battery"), ("status", "Unknown"), ("present", "0")]);
    let mouse = [("type", "Battery"), ("scope", "Device"), ("status", "Discharging"), ("power_now", "9000")];
    supplies.add("hidpp_battery_0", &mouse);
    for options in [supplies.options(), Options { root: supplies.0.path().join("nowhere"), ..supplies.options() }] {
        let probe = probe(&options);
        assert!(probe.sensors.is_empty() && probe.findings.is_empty(), "{:?}", probe.findings);
    }
}

#[test]
fn batteries_are_not_used_if_the_machine_is_measured() {
    let supplies = FakeSupplies::laptop();
    let measured = probe(&Options { is_measured: true, ..supplies.options() });
    assert!(measured.sensors.is_empty() && measured.findings.is_empty());

    let battery = probe(&supplies.options());
    let beside = Options::beside(&battery.sensors);
    assert_eq!((beside.is_measured, beside.first_meter), (true, 1));
    let alone = Options::beside(&[]);
    assert_eq!((alone.is_measured, alone.first_meter), (false, 0));
}

#[test]
fn a_battery_without_power_is_a_finding_and_no_sensor() {
    let supplies = FakeSupplies::laptop();
    supplies.add("BAT1", &[("type", "Battery"), ("status", "Discharging"), ("capacity", "80")]);
    let found = probe(&supplies.options());
    assert!(found.sensors.is_empty());
    assert!(matches!(&found.findings[0].status, Status::Absent { why, .. } if why.contains("neither power")));
    fs::remove_dir_all(supplies.0.path().join("BAT1")).unwrap();
    fs::remove_file(supplies.0.path().join("BAT0/status")).unwrap();
    let found = probe(&supplies.options());
    assert!(found.sensors.is_empty() && format!("{:?}", found.findings).contains("cannot read the battery status"));
}
