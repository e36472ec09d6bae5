//! Cards, their gauges and descriptions.

use ergometer_telemetry::{EventKind, Provenance};
use ergometer_units::{Bytes, Seconds, Watts};

use super::super::fake::fields_1_9;
use super::super::*;
use super::*;

const RX_7900: FakeCard = FakeCard { number: 1, address: "0000:03:00.0", chip: "0x744c" };
const MI250X: FakeCard = FakeCard { number: 2, address: "0000:c1:00.0", chip: "0x7408" };
const PHOENIX: FakeCard = FakeCard { number: 0, address: "0000:64:00.0", chip: "0x15bf" };

/// A busy Radeon RX 7900 XTX.
const RADEON_FILES: [(&str, &str); 16] = [
    ("product_name", ""),
    ("unique_id", "f5a8c2d10b7e3946"),
    ("hwmon/power1_average", "303000000"),
    ("hwmon/power1_cap", "339000000"),
    ("hwmon/temp1_label", "edge"),
    ("hwmon/temp1_input", "61000"),
    ("hwmon/temp2_label", "junction"),
    ("hwmon/temp2_input", "83000"),
    ("hwmon/temp3_label", "mem"),
    ("hwmon/temp3_input", "78000"),
    ("hwmon/freq1_label", "sclk"),
    ("hwmon/freq1_input", "2581000000"),
    ("mem_info_vram_used", "19327352832"),
    ("mem_info_vram_total", "25753026560"),
    ("gpu_busy_percent", "97"),
    ("pp_dpm_mclk", "0: 96Mhz\n1: 456Mhz\n2: 1249Mhz *"),
];

#[test]
fn gauges_of_a_radeon_are_converted_to_their_units() {
    let tree = FakeTree::new();
    tree.add(&RX_7900, &RADEON_FILES);
    tree.write(1, "gpu_metrics", &table((1, 3), 120, &[(24, &[7; 8]), (112, &(1_u64 << 36).to_le_bytes())]));
    let mut probe = probe(&tree.options());
    assert_eq!(ids(&probe), ["amdgpu:0"], "{:?}", probe.findings);
    let sensor = sensor(&mut probe, "amdgpu:0");
    assert_eq!((sensor.info().name.as_str(), sensor.info().device), ("AMD GPU 0x744c", DeviceId::gpu(0)));
    let read = values(sensor, &Clock::start());
    for (scope, signal, expected) in [
        (Scope::Device, Signal::PowerAverage, Some(303.0)),
        (Scope::Device, Signal::PowerInstant, None),
        (Scope::Device, Signal::Temperature, Some(61.0)),
        (Scope::Device, Signal::TemperatureHotspot, Some(83.0)),
        (Scope::Memory, Signal::Temperature, Some(78.0)),
        (Scope::Device, Signal::ClockCore, Some(2581.0)),
        (Scope::Device, Signal::ClockMemory, Some(1249.0)),
        (Scope::Device, Signal::MemoryUsed, Some(19_327_352_832.0)),
        (Scope::Device, Signal::MemoryTotal, Some(25_753_026_560.0)),
        (Scope::Device, Signal::Utilization, Some(97.0)),
        (Scope::Device, Signal::MemoryUtilization, None),
        (Scope::Device, Signal::ThrottleReasons, None),
    ] {
        let found = value(&read, scope, signal);
        assert!(
            found.zip(expected).is_none_or(|(found, expected)| (found - expected).abs() < 1e-6),
            "{signal} {found:?}"
        );
        assert_eq!(found.is_some(), expected.is_some(), "{scope} {signal}");
    }
    let power = read.iter().find(|(channel, _)| channel.signal == Signal::PowerAverage).unwrap();
    assert_eq!(power.0.provenance, Provenance::AveragedPower);
    assert_eq!(power.0.update_period.map(Seconds::as_millis), Some(100.0), "steady whole watts are not an old value");
    assert!(
        matches!(finding(&probe, ENERGY), Status::Absent { why, .. } if why.contains("no energy counter with a known unit"))
    );
    assert!(
        matches!(finding(&probe, GAUGES), Status::Works(text) if text.contains("PPT") && text.ends_with("at 0000:03:00.0"))
    );
}

#[test]
fn throttling_of_an_mi300x_is_measured_between_two_reads() {
    let tree = mi300x(0);
    tree.write(3, "gpu_metrics", &fields_1_9(counts(500_000_000), [55_257_356, 0, 749_905, 0, 0, 0]));
    let mut probe = probe(&tree.options());
    let mut reasons = |cycles: u32, power: u32| {
        tree.write(3, "gpu_metrics", &fields_1_9(counts(500_000_000), [cycles, 0, power, 0, 0, 0]));
        let read = values(sensor(&mut probe, "amdgpu:0"), &Clock::start());
        value(&read, Scope::Device, Signal::ThrottleReasons)
    };
    assert_eq!(reasons(55_257_406, 749_950), None, "cycles before the first read do not count");
    assert_eq!(reasons(55_257_456, 749_990), Some(4.0));
    assert_eq!(reasons(55_257_556, 749_990), Some(0.0));
}

#[test]
fn the_second_die_of_an_mi250_has_no_power() {
    let tree = FakeTree::new();
    let second = FakeCard { number: 5, address: "0000:c6:00.0", ..MI250X };
    let files = [("hwmon/power1_average", "93000000"), ("mem_info_vram_used", "10989568")];
    tree.add(&MI250X, &files);
    tree.add(&second, &[("hwmon/power1_average", "0"), files[1]]);
    tree.write(2, "gpu_metrics", &table((1, 3), 120, &[(24, &counts(20_000_000_000).to_le_bytes()), (112, &[1])]));
    tree.write(5, "gpu_metrics", &table((1, 3), 120, &[]));
    let mut probe = probe(&tree.options());
    assert_eq!(ids(&probe), ["amdgpu:0", "amdgpu-energy:0", "amdgpu:1"], "{:?}", probe.findings);
    let read = values(sensor(&mut probe, "amdgpu:0"), &Clock::start());
    assert_eq!(value(&read, Scope::Device, Signal::ThrottleReasons), Some(4.0), "the power limit");
    let read = values(sensor(&mut probe, "amdgpu:1"), &Clock::start());
    assert_eq!(value(&read, Scope::Device, Signal::PowerAverage), None);
    assert_eq!(value(&read, Scope::Device, Signal::MemoryUsed), Some(10_989_568.0));
}

#[test]
fn the_power_of_a_cpu_with_graphics_belongs_to_the_module() {
    let tree = FakeTree::new();
    tree.add(
        &PHOENIX,
        &[("hwmon/power1_average", "28125000"), ("hwmon/in1_label", "vddnb"), ("gpu_busy_percent", "31")],
    );
    let mut probe = probe(&tree.options());
    assert_eq!(ids(&probe), ["amdgpu-socket:0", "amdgpu:0"]);
    let read = values(sensor(&mut probe, "amdgpu-socket:0"), &Clock::start());
    assert_eq!(read.len(), 1);
    assert_eq!(
        (read[0].0.device, read[0].0.scope),
        (DeviceId::cpu(0), Scope::Module),
        "RAPL's package includes it too"
    );
    assert!((read[0].1 - 28.125).abs() < 1e-9);
    let read = values(sensor(&mut probe, "amdgpu:0"), &Clock::start());
    assert_eq!(read.len(), 1, "no dedicated memory, no clocks: {read:?}");
    // Without the voltage label, the table identifies it.
    let newer = FakeTree::new();
    newer.add(&PHOENIX, &[("hwmon/power1_input", "28125000")]);
    newer.write(0, "gpu_metrics", &table((3, 0), 264, &[]));
    assert_eq!(ids(&crate::amd::probe(&newer.options())), ["amdgpu-socket:0"]);
}

#[test]
fn cards_are_ordered_by_address_and_others_are_skipped() {
    let tree = FakeTree::new();
    for (number, address) in [(0, "0000:c1:00.0"), (1, "10000:01:00.0"), (2, "0000:03:00.0")] {
        let card = FakeCard { number, address, ..RX_7900 };
        tree.add(&card, &[("product_name", address), ("gpu_busy_percent", "1")]);
    }
    let other = FakeCard { number: 3, address: "0000:00:02.0", chip: "0x56a0" };
    tree.add_driven_by("i915", &other, &[("gpu_busy_percent", "1")]);
    tree.add_driven_by("amdgpu_xcp_drv", &FakeCard { number: 4, ..MI300X }, &[("gpu_busy_percent", "1")]);
    for other in ["card0-DP-1", "renderD128", "version"] {
        std::fs::create_dir(tree.root().join(other)).unwrap();
    }
    let names: Vec<String> = system_gpus(&tree.options()).into_iter().map(|gpu| gpu.name).collect();
    assert_eq!(names, ["AMD 0000:03:00.0", "AMD 0000:c1:00.0", "AMD 10000:01:00.0"]);
    assert_eq!(ids(&probe(&tree.options())), ["amdgpu:0", "amdgpu:1", "amdgpu:2"]);
}

#[test]
fn a_machine_without_an_amd_gpu_has_no_finding() {
    let tree = FakeTree::new();
    assert!(probe(&tree.options()).findings.is_empty());
    assert!(probe(&Options { root: tree.root().join("none"), ..tree.options() }).findings.is_empty());
    let file = tree.root().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(matches!(&probe(&Options { root: file, ..tree.options() }).findings[0].status, Status::Absent { .. }));
}

#[test]
fn a_sleeping_gpu_is_not_read_and_reported_once() {
    let tree = mi300x(counts(10_000));
    let mut probe = probe(&tree.options());
    let clock = Clock::start();
    for id in ["amdgpu:0", "amdgpu-energy:0"] {
        let sensor = sensor(&mut probe, id);
        assert!(!sample(sensor, &clock).readings.is_empty());
        tree.write(3, "power/runtime_status", b"suspended\n");
        let asleep = sample(sensor, &clock);
        assert_eq!((asleep.readings.len(), kinds(&asleep)), (0, vec![EventKind::ReadFailed]), "{id}");
        assert!(asleep.events[0].message.contains("not woken"), "{}", asleep.events[0].message);
        assert!(sample(sensor, &clock).events.is_empty(), "once");
        tree.write(3, "power/runtime_status", b"active\n");
        assert!(!sample(sensor, &clock).readings.is_empty());
    }
    tree.write(3, "power/runtime_status", b"suspended\n");
    tree.spoil(3, "hwmon/power1_input");
    let asleep = crate::amd::probe(&tree.options());
    assert_eq!(ids(&asleep), ["amdgpu:0"], "its files are not read, so they give no error");
    assert!(
        matches!(finding(&asleep, ENERGY), Status::Limited { fix: Some(fix), .. } if fix.ends_with("power/control"))
    );
}

#[test]
fn unreadable_files_are_named_and_the_others_are_used() {
    let tree = mi300x(counts(10_000));
    tree.spoil(3, "hwmon/power1_input");
    tree.write(3, "hwmon/temp3_input", b"\xff\xfe\n");
    let mut probe = probe(&tree.options());
    let read = values(sensor(&mut probe, "amdgpu:0"), &Clock::start());
    assert_eq!(value(&read, Scope::Device, Signal::Utilization), Some(0.0));
    let texts: Vec<String> = probe.findings.iter().map(|finding| format!("{:?}", finding.status)).collect();
    assert!(texts[0].contains("no power, so no energy"), "{texts:?}");
    assert!(texts[1].contains("power_instant (") && texts[1].contains("temperature ("), "{texts:?}");
}

#[test]
fn gpus_are_described_for_the_record_of_a_run() {
    let tree = FakeTree::new();
    tree.add(&RX_7900, &RADEON_FILES);
    std::fs::write(&tree.options().driver_version, "6.10.5\n").unwrap();
    let gpus = system_gpus(&Options { first_gpu: 2, ..tree.options() });
    assert_eq!((gpus.len(), gpus[0].device), (1, DeviceId::gpu(2)));
    assert_eq!(gpus[0].uuid.as_deref(), Some("f5a8c2d10b7e3946"));
    assert_eq!(gpus[0].driver_version.as_deref(), Some("6.10.5"));
    assert_eq!(gpus[0].power_limit, Some(Watts::new(339.0)));
    assert_eq!(gpus[0].memory_total, Some(Bytes::new(25_753_026_560)));
}

#[test]
fn partitions_are_measured_as_one_gpu() {
    let tree = mi300x(counts(10_000));
    tree.write(3, "current_compute_partition", b"CPX\n");
    let probe = probe(&tree.options());
    assert!(
        matches!(finding(&probe, GAUGES), Status::Works(text) if text.contains("partitions (CPX) are measured as one GPU"))
    );
}
