//! Tests with fake trees.

use std::sync::atomic::Ordering;

use ergometer_telemetry::{Batch, Clock, EventKind, Provenance, Sensor, SensorError, Signal};

use super::fake::{Denied, FakeCounters, FakeTree};
use super::*;
use crate::example::{kinds, sample};

const LAPTOP: [(&str, &str, &str); 6] = [
    ("intel-rapl:0", "package-0", "1000000"),
    ("intel-rapl:0:0", "core", "500000"),
    ("intel-rapl:0:1", "uncore", "0"),
    ("intel-rapl:0:2", "dram", "700000"),
    ("intel-rapl:1", "psys", "9000000"),
    ("intel-rapl-mmio:0", "package-0", "1000000"),
];

fn scopes(sensor: &dyn Sensor) -> Vec<(DeviceId, Scope)> {
    sensor.channels().iter().map(|channel| (channel.device, channel.scope)).collect()
}

fn texts(probe: &Probe) -> Vec<String> {
    probe.findings.iter().map(|finding| format!("{finding:?}")).collect()
}

#[test]
fn a_laptop_has_a_package_with_parts_and_a_platform() {
    let tree = FakeTree::new(&LAPTOP);
    std::fs::create_dir(tree.root().join("intel-rapl")).unwrap();
    let probe = probe_with(&tree.options(), &FakeCounters::with_still(&["intel-rapl:0:1"]), &Kernel);
    assert_eq!(probe.sensors.len(), 2, "{:?}", probe.findings);
    let package = DeviceId::cpu(0);
    assert_eq!(
        scopes(&*probe.sensors[0]),
        [(package, Scope::Package), (package, Scope::Core), (package, Scope::Uncore), (package, Scope::Dram)],
        "an idle uncore is kept"
    );
    assert_eq!(scopes(&*probe.sensors[1]), [(DeviceId::host(), Scope::Psys)]);
    let channel = &probe.sensors[0].channels()[0];
    assert_eq!((channel.signal, channel.provenance), (Signal::Energy, Provenance::Counter));
    assert_eq!(channel.update_period.map(ergometer_units::Seconds::as_millis), Some(1.0));
    assert_eq!(probe.sensors[0].info().id, "rapl:0");
    assert_eq!(probe.sensors[1].info().id, "rapl:psys");
    assert_eq!(tree.read().mirrors, ["intel-rapl-mmio:0"]);
}

#[test]
fn the_memory_mapped_view_is_used_if_it_is_the_only_one() {
    let tree = FakeTree::new(&[("intel-rapl-mmio:0", "package-0", "5")]);
    let probe = probe_with(&tree.options(), &FakeCounters::default(), &Kernel);
    assert_eq!(scopes(&*probe.sensors[0]), [(DeviceId::cpu(0), Scope::Package)]);
}

#[test]
fn readings_are_unwrapped_joules_with_the_times_of_the_read() {
    let tree = FakeTree::new(&[("intel-rapl:0", "package-0", "262143328840")]);
    let mut probe = probe_with(&tree.options(), &FakeCounters::with_still(&[]), &Kernel);
    let clock = Clock::start();
    let sensor = &mut *probe.sensors[0];
    let start = clock.now();
    let first = sample(sensor, &clock).readings[0];
    assert!(start - sensor::UPDATE_PERIOD <= first.after && first.after <= first.at && first.at <= clock.now());
    assert!((first.value - 262_143.328_9).abs() < 1e-3);
    tree.write("intel-rapl:0", "energy_uj", b"30\n");
    let batch = sample(sensor, &clock);
    let gained = batch.readings[0].value - first.value;
    assert!(gained > 0.0 && gained < 1e-3, "{gained}");
    assert!(batch.events.is_empty());
}

#[test]
fn without_a_range_a_decrease_is_a_reset() {
    let tree = FakeTree::new(&[("intel-rapl:0", "package-0", "262143328840")]);
    tree.remove("intel-rapl:0", "max_energy_range_uj");
    let mut probe = probe_with(&tree.options(), &FakeCounters::default(), &Kernel);
    assert!(matches!(&probe.findings[0].status, Status::Limited { why, .. } if why.contains("max_energy_range_uj")));
    let clock = Clock::start();
    sample(&mut *probe.sensors[0], &clock);
    tree.write("intel-rapl:0", "energy_uj", b"30\n");
    let batch = sample(&mut *probe.sensors[0], &clock);
    assert_eq!(kinds(&batch), [EventKind::CounterReset]);
    assert_eq!(batch.readings[0].value, 0.0, "the totals start again, so the timeline shows the reset");
}

#[test]
fn an_impossible_step_is_an_event_and_no_reading() {
    let tree = FakeTree::new(&[("intel-rapl:0", "package-0", "100")]);
    let mut probe = probe_with(&tree.options(), &FakeCounters::default(), &Kernel);
    let clock = Clock::start();
    sample(&mut *probe.sensors[0], &clock);
    tree.write("intel-rapl:0", "energy_uj", b"262143328849\n");
    let batch = sample(&mut *probe.sensors[0], &clock);
    assert_eq!(kinds(&batch), [EventKind::ImpossibleStep]);
    assert!(batch.readings.is_empty());
}

#[test]
fn garbage_is_reported_once_and_the_sensor_continues() {
    let tree = FakeTree::new(&[("intel-rapl:0", "package-0", "100"), ("intel-rapl:0:0", "dram", "100")]);
    let mut probe = probe_with(&tree.options(), &FakeCounters::default(), &Kernel);
    let clock = Clock::start();
    for content in [&b"\xff\xfe\n"[..], b"fish\n"] {
        tree.write("intel-rapl:0", "energy_uj", content);
        let batch = sample(&mut *probe.sensors[0], &clock);
        assert_eq!(kinds(&batch), [EventKind::ReadFailed]);
        assert_eq!(batch.readings.len(), 1, "dram is still read");
        assert!(sample(&mut *probe.sensors[0], &clock).events.is_empty());
        tree.write("intel-rapl:0", "energy_uj", b"200\n");
        assert_eq!(sample(&mut *probe.sensors[0], &clock).readings.len(), 2);
    }
}

#[test]
fn the_sensor_ends_when_its_last_zone_is_gone() {
    const ENODEV: u64 = 19;
    let tree = FakeTree::new(&[("intel-rapl:0", "package-0", "100"), ("intel-rapl:0:0", "dram", "100")]);
    let counters = FakeCounters::default();
    let (package, dram) = (counters.errno_of("intel-rapl:0"), counters.errno_of("intel-rapl:0:0"));
    let mut probe = probe_with(&tree.options(), &counters, &Kernel);
    let clock = Clock::start();
    sample(&mut *probe.sensors[0], &clock);
    dram.store(ENODEV, Ordering::Relaxed);
    let batch = sample(&mut *probe.sensors[0], &clock);
    assert_eq!((kinds(&batch), batch.readings.len()), (vec![EventKind::DeviceLost], 1));
    package.store(ENODEV, Ordering::Relaxed);
    let error = probe.sensors[0].sample(&clock, &mut Batch::default()).unwrap_err();
    assert!(matches!(error, SensorError::Lost { device, .. } if device == DeviceId::cpu(0)));
}

#[test]
fn a_counter_that_does_not_move_while_processors_are_busy_is_stuck() {
    let tree = FakeTree::new(&[("intel-rapl:0", "package-0", "100"), ("intel-rapl:0:0", "uncore", "1")]);
    let opened = tree.read().zones.into_iter().map(|zone| {
        let file = Sysfs.open(&zone.energy_path).unwrap();
        (zone, file)
    });
    let activity = ProcessorTime::open(&tree.options().proc_root).ok();
    let mut sensor = open_sensor(DeviceId::cpu(0), opened.collect(), activity);
    let clock = Clock::start();
    let mut windows = Vec::new();
    for (busy, idle) in [(100, 0), (110, 90), (210, 90), (310, 90)] {
        tree.write_stat(busy, idle);
        let batches: Vec<Batch> = (0..20).map(|_| sample(&mut sensor, &clock)).collect();
        let readings = batches.iter().flat_map(|batch| &batch.readings).filter(|reading| reading.channel == 0).count();
        windows.push((batches.iter().flat_map(kinds).collect::<Vec<_>>(), readings));
    }
    assert_eq!(windows[0], (vec![], 20), "the first count is a movement");
    assert_eq!(windows[1], (vec![], 20), "at 10 % busy the counter need not move");
    assert_eq!(windows[2], (vec![EventKind::CounterStuck], 20), "the package, not the uncore");
    assert_eq!(windows[3], (vec![], 0), "absent, not zero watts");
    tree.write("intel-rapl:0", "energy_uj", b"200\n");
    assert_eq!(sample(&mut sensor, &clock).readings.len(), 2);
}

#[test]
fn counters_that_never_move_have_no_sensor() {
    let tree = FakeTree::new(&[("intel-rapl:0", "psys", "0")]);
    let probe = probe_with(&tree.options(), &Sysfs, &Kernel);
    assert!(probe.sensors.is_empty());
    assert!(texts(&probe)[0].contains("counter does not change"), "{:?}", probe.findings);
}

#[test]
fn missing_permission_is_one_finding_with_its_fix() {
    let tree = FakeTree::new(&LAPTOP);
    let probe = probe_with(&tree.options(), &Denied, &Kernel);
    assert!(probe.sensors.is_empty());
    let Some(Status::Absent { why, fix: Some(fix) }) = probe.findings.last().map(|finding| &finding.status) else {
        panic!("{:?}", probe.findings)
    };
    assert!(why.starts_with("no permission to read ") && why.contains("until reboot"), "{why}");
    assert_eq!(*fix, format!("sudo chmod a+r {}/intel-rapl*:*/energy_uj", tree.root().display()));
}

#[test]
fn dies_are_devices_and_mirrors_are_not() {
    let dies = [("intel-rapl:0", "package-0-die-0", "100000"), ("intel-rapl:1", "package-0-die-1", "990000")];
    let probe = probe_with(&FakeTree::new(&dies).options(), &FakeCounters::default(), &Kernel);
    let devices: Vec<DeviceId> = probe.sensors.iter().map(|sensor| sensor.info().device).collect();
    assert_eq!(devices, [DeviceId::cpu(0), DeviceId::cpu(1)]);

    let same_count = [("intel-rapl:0", "package-0-die-0", "100000"), ("intel-rapl:1", "package-0-die-1", "100000")];
    let probe = probe_with(&FakeTree::new(&same_count).options(), &FakeCounters::default(), &Kernel);
    assert_eq!(probe.sensors.len(), 1);
    assert!(texts(&probe)[0].contains("is a copy of package 0 die 0"), "{:?}", probe.findings);

    let same_name = FakeTree::new(&[("intel-rapl:0", "package-0", "100000"), ("intel-rapl:1", "package-0", "7")]);
    let probe = probe_with(&same_name.options(), &FakeCounters::default(), &Kernel);
    assert_eq!(probe.sensors.len(), 1);
    assert_eq!(same_name.read().mirrors, ["intel-rapl:1"]);
}

#[test]
fn a_machine_without_rapl_gets_no_findings() {
    let tree = FakeTree::new(&[]);
    for root in [tree.root(), tree.root().join("nowhere")] {
        let other = Options { root, driver: None, ..tree.options() };
        let findings = probe(&other).findings;
        assert!(findings.is_empty(), "{findings:?}");
    }
    let may = cfg!(target_os = "linux") && (cfg!(target_arch = "x86") || cfg!(target_arch = "x86_64"));
    assert_eq!(Options::default().driver.is_some(), may);
}

#[test]
fn missing_zones_are_findings() {
    let tree = FakeTree::new(&[]);
    assert!(texts(&probe(&tree.options()))[0].contains("modprobe intel_rapl_msr"));
    let nowhere = Options { root: tree.root().join("nowhere"), ..tree.options() };
    assert!(texts(&probe(&nowhere))[0].contains("nowhere"));

    let masked = FakeTree::new(&[("intel-rapl:0", "package-0", "1")]);
    masked.remove("intel-rapl:0", "name");
    assert!(texts(&probe(&masked.options()))[0].contains("container"));

    let unknown = FakeTree::new(&[("intel-rapl:0", "pack\u{e9}", "1"), ("intel-rapl:1:0", "core", "1")]);
    unknown.write("intel-rapl:0", "name", b"\xff\xfe");
    let found = probe(&unknown.options());
    assert!(found.sensors.is_empty() && texts(&found)[0].contains("unknown zones"), "{:?}", found.findings);

    let unreadable = FakeTree::new(&[("intel-rapl:0", "package-0", "fish")]);
    assert!(texts(&probe(&unreadable.options()))[0].contains("`fish` is not a number"));
    let gone = FakeTree::new(&[("intel-rapl:0", "package-0", "1")]);
    gone.remove("intel-rapl:0", "energy_uj");
    assert!(texts(&probe(&gone.options()))[0].contains("cannot open"));
}
