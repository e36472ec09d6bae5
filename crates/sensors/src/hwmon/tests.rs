//! Tests with fake hwmon folders of several machines.

use std::fs;

use ergometer_telemetry::{Batch, Clock, EventKind, Sensor};
use ergometer_units::Seconds;
use tempfile::TempDir;

use super::*;

/// A class folder with a link to the device of each chip, as in the kernel.
struct FakeHwmon(TempDir);

impl FakeHwmon {
    fn new() -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(tree.options().root).unwrap();
        tree
    }

    fn options(&self) -> Options {
        let [root, proc_root] = ["class", "proc"].map(|folder| self.0.path().join(folder));
        // Files do not change during a probe, so counters are not judged by default.
        Options { root, proc_root, watch: Duration::ZERO, ..Options::default() }
    }

    /// Two EPYC sockets with `amd_energy`.
    fn epyc(&self) -> PathBuf {
        let files = [
            ("name", "amd_energy"),
            ("energy1_label", "Ecore000"),
            ("energy1_input", "8123456"),
            ("energy65_label", "Esocket0"),
            ("energy65_input", "7712345678"),
            ("energy66_label", "Esocket1"),
            ("energy66_input", "6612345678"),
        ];
        self.chip(3, "amd_energy.0", &files)
    }

    /// Sets the busy and idle ticks of all processors.
    fn write_stat(&self, busy: u64, idle: u64) {
        fs::create_dir_all(self.options().proc_root).unwrap();
        fs::write(self.options().proc_root.join("stat"), format!("cpu {busy} 0 0 {idle} 0 0 0 0\n")).unwrap();
    }

    /// Adds `hwmon<number>` of this device, with these files.
    fn chip(&self, number: u32, device: &str, files: &[(&str, &str)]) -> PathBuf {
        let folder = self.options().root.join(format!("hwmon{number}"));
        let device = self.0.path().join("devices").join(device);
        fs::create_dir_all(&folder).unwrap();
        fs::create_dir_all(&device).unwrap();
        std::os::unix::fs::symlink(device, folder.join("device")).unwrap();
        for (file, text) in files {
            fs::write(folder.join(file), format!("{text}\n")).unwrap();
        }
        folder
    }

    /// A Jetson Orin NX: the input of the module and two rails of it.
    fn jetson(&self) -> PathBuf {
        let files = [
            ("name", "ina3221"),
            ("in1_label", "VDD_IN"),
            ("in1_input", "5056"),
            ("curr1_input", "1176"),
            ("in2_label", "VDD_CPU_GPU_CV"),
            ("in2_input", "5048"),
            ("curr2_input", "200"),
            ("in3_label", "VDD_SOC"),
            ("in3_input", "5048"),
            ("curr3_input", "296"),
            ("in4_input", "5880"),
            ("in7_label", "sum of shunt voltages"),
            ("in7_input", "8360"),
            ("curr4_input", "1672"),
            ("update_interval", "105"),
        ];
        self.chip(1, "1-0040", &files)
    }

    /// Adds a meter of Grace, with its files in the folder of the device, as in kernels before 6.13.
    fn grace(&self, number: u32, text: &str, microwatts: &str) {
        let folder = self.chip(number, &format!("ACPI000D:{number:02}"), &[("name", "power_meter")]);
        for (file, text) in
            [("power1_oem_info", text), ("power1_average", microwatts), ("power1_average_interval", "50")]
        {
            fs::write(folder.join("device").join(file), format!("{text}\n")).unwrap();
        }
    }
}

fn sample(sensor: &mut dyn Sensor) -> Batch {
    let mut batch = Batch::default();
    sensor.sample(&Clock::start(), &mut batch).unwrap();
    batch
}

/// The id of each sensor with its channels and values.
fn read(probe: &mut Probe) -> Vec<String> {
    let one = |sensor: &mut Box<dyn Sensor>| {
        let values: Vec<String> = sample(&mut **sensor)
            .readings
            .iter()
            .map(|reading| format!("{} {:.3}", sensor.channels()[reading.channel], reading.value))
            .collect();
        format!("{}: {}", sensor.info().id, values.join(", "))
    };
    probe.sensors.iter_mut().map(one).collect()
}

fn texts(probe: &Probe) -> Vec<String> {
    probe.findings.iter().map(|finding| format!("{finding:?}")).collect()
}

#[test]
fn a_jetson_has_its_module_and_rails() {
    let tree = FakeHwmon::new();
    tree.jetson();
    let mut probe = probe(&tree.options());
    assert_eq!(
        read(&mut probe),
        [
            "hwmon-rail:0: rail:0 rail power_instant 1.010",
            "hwmon-rail:1: rail:1 rail power_instant 1.494",
            "hwmon-meter:0: meter:0 psys power_instant 5.946",
        ]
    );
    let channel = &probe.sensors[2].channels()[0];
    assert_eq!(channel.provenance, Provenance::SampledPower);
    assert_eq!(channel.update_period.map(Seconds::as_millis), Some(105.0));
    let findings = texts(&probe);
    assert_eq!(findings.len(), 2, "{findings:?}");
    assert!(findings[0].contains("VDD_IN (meter:0)") && findings[0].contains("without the rest of the board"));
    assert!(findings[1].contains("rail:0 VDD_CPU_GPU_CV, rail:1 VDD_SOC; a rail may include other rails"));
}

#[test]
fn five_volts_of_an_agx_orin_are_a_rail_and_unconnected_channels_are_skipped() {
    let tree = FakeHwmon::new();
    let folder = tree.jetson();
    for (file, text) in [("in1_label", "VIN_SYS_5V0"), ("in2_label", "NC"), ("in3_enable", "0")] {
        fs::write(folder.join(file), text).unwrap();
    }
    assert_eq!(read(&mut probe(&tree.options())), ["hwmon-rail:0: rail:0 rail power_instant 5.946"]);
    fs::write(folder.join("power1_input"), "5900000\n").unwrap();
    assert_eq!(read(&mut probe(&tree.options())), ["hwmon-rail:0: rail:0 rail power_instant 5.900"]);
}

#[test]
fn rails_are_numbered_by_device() {
    let tree = FakeHwmon::new();
    tree.chip(7, "1-0040", &[("name", "ina226"), ("power1_input", "2500000"), ("label", "VDD_A")]);
    tree.chip(2, "1-0041", &[("name", "ina238"), ("power1_input", "38000000")]);
    tree.chip(0, "0-0045", &[("name", "ina219"), ("power1_input", "125000"), ("in1_label", "VDD_C")]);
    let mut probe = probe(&Options { first_rail: 3, ..tree.options() });
    assert_eq!(Options::beside(&probe.sensors).first_rail, 6);
    let names: Vec<String> = probe.sensors.iter().map(|sensor| sensor.info().name.clone()).collect();
    assert_eq!(names, ["VDD_C", "VDD_A", "ina238 1-0041"]);
    assert_eq!(
        read(&mut probe),
        [
            "hwmon-rail:3: rail:3 rail power_instant 0.125",
            "hwmon-rail:4: rail:4 rail power_instant 2.500",
            "hwmon-rail:5: rail:5 rail power_instant 38.000",
        ]
    );
}

#[test]
fn the_meters_of_grace_are_parts_of_their_sockets() {
    let tree = FakeHwmon::new();
    let parts = [("Module", "310000000"), ("Grace", "92000000"), ("CPU", "41500000"), ("SysIO", "22000000")];
    for socket in 0..2 {
        for (place, (part, microwatts)) in (0..).zip(parts) {
            tree.grace(4 * socket + place, &format!("{part} Power Socket {socket}"), microwatts);
        }
    }
    let mut probe = probe(&tree.options());
    let values = |cpu: u32| {
        format!(
            "hwmon-cpu:{cpu}: cpu:{cpu} module power_average 310.000, cpu:{cpu} package power_average 92.000, \
             cpu:{cpu} core power_average 41.500, cpu:{cpu} uncore power_average 22.000"
        )
    };
    assert_eq!(read(&mut probe), [values(0), values(1)]);
    let channel = &probe.sensors[0].channels()[1];
    assert_eq!(channel.provenance, Provenance::AveragedPower);
    assert_eq!(channel.update_period.map(Seconds::as_millis), Some(50.0));
    assert!(texts(&probe)[0].contains("mean power of module, package, core, uncore, updated every 50 ms"));
}

#[test]
fn a_meter_without_a_description_measures_the_machine() {
    let tree = FakeHwmon::new();
    let files = [("name", "power_meter"), ("power1_average", "245000000"), ("power1_average_interval", "1000")];
    tree.chip(0, "ACPI000D:00", &files);
    let battery = [("name", "power_meter"), ("power1_average", "9000000"), ("power1_is_battery", "1")];
    tree.chip(1, "ACPI000D:01", &battery);
    tree.grace(2, "GPU Power Socket 0", "400000000");
    let mut probe = probe(&Options { first_meter: 1, ..tree.options() });
    assert_eq!(
        read(&mut probe),
        ["hwmon-rail:0: rail:0 rail power_average 400.000", "hwmon-meter:1: meter:1 psys power_average 245.000",],
        "an unknown part of a socket is a rail, a battery is skipped"
    );
    assert!(texts(&probe)[0].contains("mean power of the whole machine, updated every 1000 ms"));
}

#[test]
fn a_meter_of_the_machine_without_power_has_no_sensor() {
    let tree = FakeHwmon::new();
    tree.chip(0, "ACPI000D:00", &[("name", "power_meter"), ("power1_average", "0")]);
    tree.chip(1, "ACPI000D:01", &[("name", "power_meter"), ("power1_average", "fish")]);
    let folder = tree.chip(2, "ACPI000D:02", &[("name", "power_meter")]);
    fs::create_dir(folder.join("power1_average")).unwrap();
    let probe = probe(&tree.options());
    assert!(probe.sensors.is_empty());
    let findings = texts(&probe);
    assert!(findings[0].contains("shows 0 W") && findings[1].contains("`fish` is not a number"), "{findings:?}");
    assert!(findings[2].contains("cannot read the sensor"), "{findings:?}");
}

#[test]
fn impossible_power_is_an_error() {
    let tree = FakeHwmon::new();
    // 2^32 - 1 milliwatts and milliseconds: the firmware failed.
    let unknown = ("power1_average_interval", "4294967295");
    tree.chip(0, "ACPI000D:00", &[("name", "power_meter"), ("power1_average", "4294967295000"), unknown]);
    let folder = tree.chip(1, "ACPI000D:01", &[("name", "power_meter"), ("power1_average", "245000000"), unknown]);
    let mut probe = probe(&tree.options());
    let findings = texts(&probe);
    assert!(findings[0].contains("it shows 4294967 W, more than the device can draw"), "{findings:?}");
    assert_eq!(probe.sensors.len(), 1, "{findings:?}");
    let meter = &mut *probe.sensors[0];
    assert_eq!(meter.channels()[0].update_period, None);
    fs::write(folder.join("power1_average"), "4294967295000\n").unwrap();
    let batch = sample(meter);
    assert_eq!((batch.readings.len(), batch.events[0].kind), (0, EventKind::ReadFailed));
}

#[test]
fn the_firmware_of_an_arm_machine_has_power_and_energy() {
    let tree = FakeHwmon::new();
    let files = [
        ("name", "scpi_sensors"),
        ("power1_label", "A53"),
        ("power1_input", "187000"),
        ("power2_label", "A57"),
        ("power2_input", "1350000"),
        ("energy1_label", "A57"),
        ("energy1_input", "81234567"),
        ("energy10_input", "1000"),
        ("temp1_input", "38000"),
    ];
    tree.chip(0, "scpi", &files);
    let mut probe = probe(&tree.options());
    assert_eq!(
        read(&mut probe),
        [
            "hwmon-rail:0: rail:0 rail power_instant 0.187",
            "hwmon-rail:1: rail:1 rail power_instant 1.350",
            "hwmon-energy-rail:1: rail:1 rail energy 81.235",
            "hwmon-energy-rail:2: rail:2 rail energy 0.001",
        ]
    );
    assert_eq!(probe.sensors[2].channels()[0].provenance, Provenance::Counter);
}

#[test]
fn amd_energy_is_used_for_sockets_without_another_sensor() {
    let tree = FakeHwmon::new();
    let folder = tree.epyc();
    assert_eq!(
        read(&mut probe(&tree.options())),
        ["hwmon-energy-cpu:0: cpu:0 package energy 7712.346", "hwmon-energy-cpu:1: cpu:1 package energy 6612.346"]
    );
    let measured = Options { measured: vec![DeviceId::cpu(0), DeviceId::gpu(1)], ..tree.options() };
    assert_eq!(read(&mut probe(&measured)).len(), 1);
    let beside = Options::beside(&probe(&measured).sensors);
    assert_eq!((beside.measured, beside.first_meter, beside.first_rail), (vec![DeviceId::cpu(1)], 0, 0));

    let denied = probe_with(&tree.options(), &|_| Err(io::ErrorKind::PermissionDenied.into()));
    assert!(denied.sensors.is_empty());
    let Status::Absent { why, fix: Some(fix) } = &denied.findings[0].status else { panic!("{:?}", denied.findings) };
    assert!(why.contains("energy65_input and 1 others; the fix lasts until reboot"), "{why}");
    let folder = folder.display();
    assert_eq!(*fix, format!("sudo chmod a+r {folder}/energy65_input {folder}/energy66_input"));
}

#[test]
fn a_cpu_counter_that_does_not_move_is_stuck() {
    let tree = FakeHwmon::new();
    let folder = tree.epyc();
    tree.write_stat(0, 0);
    let mut probe = probe(&tree.options());
    let sensor = &mut *probe.sensors[0];
    let mut windows = Vec::new();
    for (busy, idle) in [(100, 0), (110, 90), (210, 90), (310, 90)] {
        tree.write_stat(busy, idle);
        let batches: Vec<Batch> = (0..10).map(|_| sample(sensor)).collect();
        let events: Vec<EventKind> = batches.iter().flat_map(|batch| &batch.events).map(|event| event.kind).collect();
        windows.push((events, batches.iter().map(|batch| batch.readings.len()).sum::<usize>()));
    }
    assert_eq!(windows[0], (vec![], 10), "the first count is a movement");
    assert_eq!(windows[1], (vec![], 10), "at 10 % busy the counter need not move");
    assert_eq!(windows[2], (vec![EventKind::CounterStuck], 10));
    assert_eq!(windows[3], (vec![], 0), "absent, not zero watts");
    fs::write(folder.join("energy65_input"), "7712345778\n").unwrap();
    assert_eq!(sample(sensor).readings.len(), 1);
}

#[test]
fn counters_that_are_unreadable_or_do_not_move_have_no_sensor() {
    let tree = FakeHwmon::new();
    let folder = tree.epyc();
    fs::write(folder.join("energy66_input"), "fish\n").unwrap();
    tree.chip(0, "scpi", &[("name", "scpi_sensors"), ("energy1_input", "81234567"), ("energy2_input", "")]);
    let mut probe = probe(&Options { watch: Duration::from_nanos(1), ..tree.options() });
    assert_eq!(read(&mut probe), ["hwmon-energy-rail:0: rail:0 rail energy 81.235"], "a rail need not move");
    let findings = texts(&probe);
    assert!(findings[0].contains("(cpu:0)") && findings[0].contains("does not change"), "{findings:?}");
    assert!(findings[1].contains("(cpu:1)") && findings[1].contains("`fish` is not a number"), "{findings:?}");
    assert!(findings[2].contains("(rail:1)") && findings[2].contains("cannot read the sensor"), "{findings:?}");
}

#[test]
fn a_later_failure_is_reported_and_readings_resume() {
    let tree = FakeHwmon::new();
    let folder = tree.jetson();
    let mut probe = probe(&tree.options());
    let meter = &mut *probe.sensors[2];
    for content in [&b"\xff\xfe\n"[..], b"fish\n"] {
        fs::write(folder.join("in1_input"), content).unwrap();
        let batch = sample(meter);
        assert_eq!((batch.readings.len(), batch.events[0].kind), (0, EventKind::ReadFailed));
        fs::write(folder.join("in1_input"), "5056\n").unwrap();
        assert_eq!(sample(meter).readings.len(), 1);
    }
}

#[test]
fn other_chips_and_no_chips_give_no_findings() {
    let tree = FakeHwmon::new();
    tree.chip(0, "nct6798", &[("name", "nct6798"), ("in1_input", "1024"), ("curr1_input", "3")]);
    tree.chip(1, "amdgpu", &[("name", "amdgpu"), ("power1_average", "31000000")]);
    let folder = tree.chip(2, "odd", &[("power1_input", "3")]);
    fs::write(folder.join("name"), b"\xff\xfe").unwrap();
    tree.chip(3, "2-0040", &[("name", "ina3221"), ("in1_label", "VDD")]);
    for options in [tree.options(), Options { root: tree.0.path().join("nowhere"), ..tree.options() }] {
        let probe = probe(&options);
        assert!(probe.sensors.is_empty() && probe.findings.is_empty(), "{:?}", probe.findings);
    }
}
