//! Perf events are used only if powercap is not available.

use ergometer_telemetry::{Batch, Clock, DeviceId, Scope};

use super::fake::{FakeEvents, FakeSource};
use super::*;
use crate::rapl::fake::{Denied, FakeCounters, FakeTree};
use crate::rapl::probe_with;

const ALL: [&str; 5] = ["energy-cores", "energy-pkg", "energy-ram", "energy-gpu", "energy-psys"];
const EACCES: i32 = 13;
const ENODEV: i32 = 19;

/// A server without powercap, with two sockets of 28 processors.
fn server(names: &[&str]) -> FakeSource {
    FakeSource::new(FakeTree::new(&[]), names, &[(0, 0, 0), (28, 1, 0)])
}

fn probe_events(source: &FakeSource, events: &FakeEvents) -> Probe {
    probe_with(&source.options(), &Denied, events)
}

fn channels(probe: &Probe) -> Vec<(DeviceId, Scope)> {
    let channels = probe.sensors.iter().flat_map(|sensor| sensor.channels());
    channels.map(|channel| (channel.device, channel.scope)).collect()
}

fn texts(probe: &Probe) -> Vec<String> {
    probe.findings.iter().map(|finding| format!("{finding:?}")).collect()
}

#[test]
fn packages_have_parts_and_the_platform_is_one_sensor() {
    let probe = probe_events(&server(&ALL), &FakeEvents::default());
    let parts = [Scope::Package, Scope::Core, Scope::Uncore, Scope::Dram];
    let mut expected = Vec::new();
    for index in 0..2 {
        expected.extend(parts.map(|scope| (DeviceId::cpu(index), scope)));
    }
    expected.push((DeviceId::host(), Scope::Psys));
    assert_eq!(channels(&probe), expected, "{:?}", probe.findings);
    let ids: Vec<&str> = probe.sensors.iter().map(|sensor| sensor.info().id.as_str()).collect();
    assert_eq!(ids, ["rapl:0", "rapl:1", "rapl:psys"]);
    assert_eq!(probe.findings.len(), 3, "no finding about powercap: {:?}", probe.findings);
    assert_eq!(
        probe.findings[0].status,
        Status::Works(
            "energy counter of package, core, uncore, dram read through perf events, updated every 1 ms".to_owned()
        )
    );
}

#[test]
fn counts_are_scaled_to_joules() {
    let mut probe = probe_events(&server(&["energy-pkg"]), &FakeEvents::default());
    let clock = Clock::start();
    let mut batch = Batch::default();
    for _ in 0..2 {
        for sensor in &mut probe.sensors {
            sensor.sample(&clock, &mut batch).unwrap();
        }
    }
    assert!(
        batch.events.iter().all(|event| event.kind == ergometer_telemetry::EventKind::ImpossibleStep),
        "{:?}",
        batch.events
    );
    let joules = batch.readings[0].value;
    assert!(joules > 0.0 && (joules / 7.0 - (joules / 7.0).round()).abs() < 1e-6, "{joules} J");
}

#[test]
fn copies_are_found_although_they_start_at_different_times() {
    let events = FakeEvents { mirrors: vec![8], ..FakeEvents::default() };
    // Two dies that show the counter of their package, as on AMD before Linux 6.10.
    let source = FakeSource::new(FakeTree::new(&[]), &["energy-pkg"], &[(0, 0, 0), (8, 0, 1)]);
    let probe = probe_events(&source, &events);
    assert_eq!(channels(&probe), [(DeviceId::cpu(0), Scope::Package)]);
    assert!(texts(&probe)[0].contains("package 0 die 1") && texts(&probe)[0].contains("is a copy of package 0 die 0"));

    let probe = probe_events(&source, &FakeEvents::default());
    assert_eq!(channels(&probe), [(DeviceId::cpu(0), Scope::Package), (DeviceId::cpu(1), Scope::Package)]);
}

#[test]
fn idle_integrated_gpus_are_kept() {
    let events = FakeEvents { still: vec![4], ..FakeEvents::default() };
    let probe = probe_events(&server(&["energy-pkg", "energy-gpu"]), &events);
    assert_eq!(channels(&probe).iter().filter(|(_, scope)| *scope == Scope::Uncore).count(), 2, "{:?}", probe.findings);
}

#[test]
fn a_platform_counter_that_does_not_move_has_no_sensor() {
    let source = FakeSource::new(FakeTree::new(&[]), &["energy-psys"], &[(0, 0, 0)]);
    let probe = probe_events(&source, &FakeEvents { still: vec![5], ..FakeEvents::default() });
    assert!(probe.sensors.is_empty());
    assert!(texts(&probe)[0].contains("modprobe"), "the finding about powercap comes first: {:?}", probe.findings);
    let last = texts(&probe).pop().unwrap();
    assert!(last.contains("the counter read through perf events does not change although a CPU is busy"), "{last}");
}

#[test]
fn events_are_not_opened_if_powercap_works() {
    struct Never;
    impl OpenEvent for Never {
        fn open(&self, _: Event) -> io::Result<Box<dyn ReadCounter>> {
            panic!("opened although powercap works")
        }
    }
    let zones = [("intel-rapl:0", "package-0", "1000000")];
    let source = FakeSource::new(FakeTree::new(&zones), &ALL, &[(0, 0, 0)]);
    let probe = probe_with(&source.options(), &FakeCounters::default(), &Never);
    assert_eq!(channels(&probe), [(DeviceId::cpu(0), Scope::Package)]);
    assert_eq!(probe.findings.len(), 1, "{:?}", probe.findings);

    // A powercap counter that does not move is not replaced by perf events.
    let still = FakeCounters::with_still(&["intel-rapl:0"]);
    assert!(probe_with(&source.options(), &still, &Never).sensors.is_empty());
}

#[test]
fn zones_that_only_powercap_has_are_a_finding_with_its_fix() {
    let zones = [("intel-rapl:0", "package-0", "1"), ("intel-rapl:0:0", "core", "1"), ("intel-rapl:1", "psys", "1")];
    let less = FakeSource::new(FakeTree::new(&zones), &["energy-pkg"], &[(0, 0, 0)]);
    let probe = probe_events(&less, &FakeEvents::default());
    let [works, Status::Limited { why, fix: Some(fix) }] = [&probe.findings[0].status, &probe.findings[1].status]
    else {
        panic!("{:?}", probe.findings)
    };
    assert!(matches!(works, Status::Works(_)) && why.contains("would add platform (psys), package 0 core,"), "{why}");
    assert!(fix.starts_with("sudo chmod a+r "), "{fix}");

    let alike = FakeSource::new(FakeTree::new(&zones), &ALL, &[(0, 0, 0)]);
    let probe = probe_events(&alike, &FakeEvents::default());
    assert!(probe.findings.iter().all(|finding| matches!(finding.status, Status::Works(_))), "{:?}", probe.findings);
}

#[test]
fn missing_permission_is_a_finding_with_its_fix() {
    let source = server(&ALL);
    let settings = source.options().proc_root.join("sys/kernel");
    std::fs::create_dir_all(&settings).unwrap();
    std::fs::write(settings.join("perf_event_paranoid"), "2\n").unwrap();
    let probe = probe_events(&source, &FakeEvents { open_error: Some(EACCES), ..FakeEvents::default() });
    assert!(probe.sensors.is_empty());
    let Some(Status::Absent { why, fix: Some(fix) }) = probe.findings.last().map(|finding| &finding.status) else {
        panic!("{:?}", probe.findings)
    };
    assert!(why.contains("kernel.perf_event_paranoid is 2"), "{why}");
    assert_eq!(fix, "sudo sysctl kernel.perf_event_paranoid=0", "this test is not ergo");
    assert_eq!(probe.findings.len(), 2, "one line for all events: {:?}", probe.findings);

    let filtered = probe_events(&source, &FakeEvents { open_error: Some(1), ..FakeEvents::default() });
    assert!(texts(&filtered)[1].contains("--cap-add PERFMON"));
    let gone = probe_events(&source, &FakeEvents { open_error: Some(ENODEV), ..FakeEvents::default() });
    assert!(gone.sensors.is_empty() && texts(&gone)[1].contains("cannot open the perf event"), "{:?}", gone.findings);
}

#[test]
fn a_capability_is_suggested_for_ergo_and_not_for_python() {
    let finding = |program: Option<&str>| {
        let error = io::Error::from_raw_os_error(EACCES);
        let status = denied_status(&error, Path::new("/nowhere"), program.map(Path::new));
        let Status::Absent { why, fix: Some(fix) } = status else { panic!("{status:?}") };
        (why, fix)
    };
    let (why, fix) = finding(Some("/usr/local/bin/ergo"));
    assert!(why.ends_with("; the first fix is for all users until reboot, the second only for ergo"), "{why}");
    let both = r#"sudo sysctl kernel.perf_event_paranoid=0   or   sudo setcap cap_perfmon=ep "$(readlink -f "$(command -v ergo)")""#;
    assert_eq!(fix, both);
    for program in [Some("/usr/bin/python3.12"), None] {
        let (why, fix) = finding(program);
        assert!(why.ends_with("; the fix is for all users until reboot"), "{why}");
        assert_eq!(fix, "sudo sysctl kernel.perf_event_paranoid=0");
    }
}

#[test]
fn unusable_events_are_a_finding_and_the_others_are_used() {
    let source = server(&ALL);
    source.write("events/energy-cores.unit", "Watts");
    source.write("events/energy-ram", "config=3");
    source.write("events/energy-gpu.scale", "-1");
    std::fs::remove_file(source.options().event_root.join("power/events/energy-psys.unit")).unwrap();
    let probe = probe_events(&source, &FakeEvents::default());
    assert_eq!(channels(&probe), [(DeviceId::cpu(0), Scope::Package), (DeviceId::cpu(1), Scope::Package)]);
    let last = texts(&probe).pop().unwrap();
    for part in ["`Watts`, not Joules", "`config=3` is not", "scale `-1`", "energy-psys: .unit"] {
        assert!(last.contains(part), "{part} in {last}");
    }
    source.write("cpumask", "all of them");
    let probe = probe_events(&source, &FakeEvents::default());
    assert!(
        probe.sensors.is_empty() && texts(&probe)[1].contains("`all of them` is not a list"),
        "{:?}",
        probe.findings
    );
}

#[test]
fn without_a_topology_each_listed_processor_is_a_package() {
    let source = server(&["energy-pkg"]);
    std::fs::remove_dir_all(source.options().processor_root).unwrap();
    let probe = probe_events(&source, &FakeEvents::default());
    assert_eq!(channels(&probe), [(DeviceId::cpu(0), Scope::Package), (DeviceId::cpu(1), Scope::Package)]);
}

/// A test with this machine's kernel, if it permits perf events. A processor's clock, read as nanojoules, is a package
/// of 1 W. Alignment faults, of which there are none, are a platform counter that does not move.
#[cfg(target_os = "linux")]
#[test]
fn real_events_move_or_are_stuck_or_denied() {
    let source = FakeSource::new(FakeTree::new(&[]), &["energy-pkg", "energy-psys"], &[(0, 0, 0)]);
    for (file, text) in [
        ("type", "1"),
        ("events/energy-pkg", "event=0x00"),
        ("events/energy-pkg.scale", "1e-9"),
        ("events/energy-psys", "event=0x07"),
    ] {
        source.write(file, text);
    }
    let mut probe = probe_with(&source.options(), &Denied, &Kernel);
    if probe.sensors.is_empty() {
        let last = texts(&probe).pop().unwrap();
        assert!(last.contains("perf_event_paranoid=0") || last.contains("--cap-add PERFMON"), "{last}");
        return;
    }
    assert_eq!(channels(&probe), [(DeviceId::cpu(0), Scope::Package)], "{:?}", probe.findings);
    assert!(texts(&probe)[0].contains("CPU platform (psys)") && texts(&probe)[0].contains("does not change"));
    let clock = Clock::start();
    let mut batch = Batch::default();
    while batch.readings.len() < 3 {
        probe.sensors[0].sample(&clock, &mut batch).unwrap();
    }
    assert!(batch.events.is_empty(), "{:?}", batch.events);
    assert!(batch.readings.windows(2).all(|pair| pair[0].value < pair[1].value), "{:?}", batch.readings);
}
