//! Real commands: what works, what fails, hangs, is killed or cannot be.

use super::*;

#[test]
fn a_command_gives_power_between_its_start_and_its_end() {
    let mut bench = Bench::new("command[every=10ms]:printf 'Instantaneous power reading:  312 Watts\\n'");
    let channel = &bench.sensor.channels()[0];
    assert_eq!((channel.signal, channel.provenance), (Signal::PowerInstant, Provenance::SampledPower));
    assert_eq!((channel.device, channel.scope), (DeviceId::meter(0), ergometer_telemetry::Scope::Psys));
    let before = bench.clock.now();
    let batch = bench.until_something();
    assert_eq!(values(&batch), [312.0]);
    let reading = batch.readings[0];
    assert!(before <= reading.after && reading.after <= reading.at && reading.at <= bench.clock.now());
}

#[test]
fn a_command_may_be_a_pipe_and_count_energy() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("count");
    fs::write(&file, "1.5").unwrap();
    let text = format!("command[every=10ms,unit=Wh,name=pdu]:cat {} | tr -d x", file.display());
    let mut bench = Bench::new(&text);
    assert_eq!(bench.sensor.info().id, "command:pdu");
    assert_eq!(bench.sensor.channels()[0].signal, Signal::Energy);
    assert_eq!(values(&bench.until_something()), [5400.0]);
    fs::write(&file, "1.6").unwrap();
    assert_eq!(values(&bench.until_something()), [5760.0]);
    fs::write(&file, "0.1").unwrap();
    let batch = bench.until_something();
    assert_eq!((values(&batch), kinds(&batch)), (vec![0.0], vec![EventKind::CounterReset]));
}

#[test]
fn a_coarse_counter_is_no_impossible_step() {
    // A hundredth of a kWh is 36 kJ, which comes all at once.
    let fixture = Fixture::new("count", "812.34");
    let mut bench = Bench::new(&format!("command[every=10ms,unit=kWh]:cat {}", fixture.path.display()));
    bench.until_something();
    fs::write(&fixture.path, "812.35").unwrap();
    let batch = bench.until_something();
    assert_eq!(kinds(&batch), []);
    assert!((values(&batch)[0] - 812.35 * 3.6e6).abs() < 0.01);
}

#[test]
fn a_coarse_counter_may_have_its_unit_in_its_output() {
    let fixture = Fixture::new("count", "12.3 kWh");
    let mut bench = Bench::new(&format!("command[every=10ms,signal=energy]:cat {}", fixture.path.display()));
    bench.until_something();
    fs::write(&fixture.path, "12.4 kWh").unwrap();
    let batch = bench.until_something();
    assert_eq!(kinds(&batch), []);
    assert!((values(&batch)[0] - 12.4 * 3.6e6).abs() < 0.01);
}

#[test]
fn what_the_shell_says_is_told_at_the_start_only() {
    assert!(refused("command:hunter2-of-nobody").contains("hunter2-of-nobody"));
    let fixture = Fixture::new("flag", "");
    let line = format!("test -s {0} && hunter2-of-nobody || echo 312 W; test ! -s {0}", fixture.path.display());
    let mut bench = Bench::new(&format!("command[every=10ms,name=x]:{line}"));
    fs::write(&fixture.path, "x").unwrap();
    let batch = loop {
        let batch = bench.until_something();
        if !batch.events.is_empty() {
            break batch;
        }
    };
    let told = &batch.events[0].message;
    assert!(told.contains("it failed (exit status: 1) and the shell complained"), "{told}");
    assert!(!told.contains("hunter2"), "{told}");
}

#[cfg(target_os = "linux")]
#[test]
fn what_cannot_be_killed_is_waited_for_and_never_doubled() {
    let folder = tempfile::tempdir().unwrap();
    let [slow, log, process] = ["slow", "log", "pid"].map(|name| folder.path().join(name));
    // A session of its own is out of reach of the group's signal, as what runs by sudo is.
    let line = format!(
        "test -e {slow} || {{ echo 312 W; exit; }}; echo run >> {log}; setsid sleep 600 & echo $! > {process}; wait",
        slow = slow.display(),
        log = log.display(),
        process = process.display()
    );
    let mut bench = Bench::new(&format!("command[every=10ms,timeout=300ms,name=x]:{line}"));
    fs::write(&slow, "").unwrap();
    let mut until_event = || loop {
        let batch = bench.sample();
        if let Some(event) = batch.events.first() {
            return event.message.clone();
        }
    };
    let told = until_event();
    assert!(told.contains("was killed"), "{told}");
    let told = until_event();
    assert!(told.contains("no other is started until that ends"), "{told}");
    let start = std::time::Instant::now();
    while start.elapsed() < Duration::from_millis(100) {
        assert_eq!(bench.sample().events.len(), 0, "told once");
    }
    assert_eq!(fs::read_to_string(&log).unwrap(), "run\n", "ten more were due");
    fs::remove_file(&slow).unwrap();
    let process = fs::read_to_string(&process).unwrap().trim().parse().unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_raw(process).unwrap(), rustix::process::Signal::KILL)
        .unwrap();
    assert_eq!(values(&bench.until_something()), [312.0], "it goes on when that is gone");
}

#[test]
fn a_command_that_does_not_work_is_refused_at_the_start() {
    let told = refused("command[pattern='x(.)']:echo no power; echo secret >&2");
    assert!(told.contains("command:echo gives no value: the pattern is not found in its output: `no power`"), "{told}");
    let told = refused("command:echo 'cannot open device' >&2; exit 3");
    assert!(told.contains("exit status: 3") && told.contains("`cannot open device`"), "{told}");
    assert!(refused("command:nonexistent-program-of-nobody").contains("127"));
    assert!(
        refused("command[timeout=50ms]:sleep 600")
            .contains("within 0.05 s and was killed. hint: give a longer timeout=")
    );
    assert!(refused("command:true").contains("output: nothing"));
}

#[test]
fn a_command_that_fails_is_told_once_until_it_works_again() {
    let fixture = Fixture::new("count", "312");
    let line = format!("cat {0} 2>/dev/null || {{ echo 'no device' >&2; exit 3; }}", fixture.path.display());
    let mut bench = Bench::new(&format!("command[every=10ms,name=x]:{line}"));
    fs::remove_file(&fixture.path).unwrap();
    let batch = bench.until_something();
    assert_eq!(kinds(&batch), [EventKind::ReadFailed]);
    assert!(batch.events[0].message.contains("command:x: it failed (exit status: 3) and said `no device`"));
    assert!(!batch.events[0].message.contains("cat "), "the command line is not told");
    // Some more failures that are not told: the sensor is asked until a later run must have ended.
    let start = std::time::Instant::now();
    while start.elapsed() < Duration::from_millis(300) {
        assert_eq!(bench.sample().events.len(), 0);
    }
    fs::write(&fixture.path, "313").unwrap();
    assert_eq!(values(&bench.until_something()), [313.0]);
    fs::remove_file(&fixture.path).unwrap();
    assert_eq!(kinds(&bench.until_something()), [EventKind::ReadFailed]);
}

#[test]
fn a_long_output_and_bytes_of_any_kind_are_borne() {
    assert_eq!(
        values(&Bench::new("command:echo 312 W; head -c 1000000 /dev/zero; echo 5 W").until_something()),
        [312.0]
    );
    assert_eq!(values(&Bench::new("command:printf '\\377\\376 312 W'").until_something()), [312.0]);
    assert!(refused("command:head -c 1000000 /dev/zero").len() < 600);
}

#[cfg(target_os = "linux")]
#[test]
fn a_command_is_killed_with_all_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join("pid");
    let text = format!("command[timeout=300ms]:sleep 600 & echo $! > {}; wait", lock.display());
    assert!(refused(&text).contains("was killed"));
    let process = fs::read_to_string(&lock).unwrap();
    let status = PathBuf::from("/proc").join(process.trim()).join("stat");
    // Killing is not waiting: it is gone, or a zombie that nobody has taken in.
    let is_gone = || fs::read_to_string(&status).map_or(true, |stat| stat.contains(") Z"));
    let start = std::time::Instant::now();
    while !is_gone() {
        assert!(start.elapsed() < Duration::from_secs(10), "it lives on");
        std::thread::yield_now();
    }
}

#[test]
fn what_is_left_behind_does_not_hold_a_command() {
    assert_eq!(values(&Bench::new("command:sleep 600 & echo 312 W").until_something()), [312.0]);
}

#[test]
fn the_last_sample_does_not_wait_for_a_slow_command() {
    let fixture = Fixture::new("slow", "");
    // Quick the first time, when it is tried; then slow.
    let line = format!("test -s {0} && sleep 600; echo x > {0}; echo 312 W", fixture.path.display());
    let mut bench = Bench::new(&format!("command[name=x,timeout=1h]:{line}"));
    assert!(bench.sample().readings.is_empty());
    assert!(bench.sensor.interval() <= Duration::from_millis(1), "it is looked at again at once");
    let mut batch = Batch::default();
    bench.sensor.sample_last(&bench.clock, &mut batch).unwrap();
    assert_eq!((values(&batch), kinds(&batch)), (vec![], vec![]));
}

#[cfg(target_os = "linux")]
#[test]
fn what_escapes_and_holds_the_output_ends_the_sensor() {
    // A session of its own is out of reach of the group's signal.
    let told = refused("command[name=x]:setsid sleep 3 & echo 312 W");
    assert!(told.contains("keeps its output open"), "{told}");
}

#[test]
fn a_sampler_is_not_held_by_a_slow_command() {
    let fixture = Fixture::new("slow", "");
    let line = format!("test -s {0} && sleep 600; echo x > {0}; echo 312 W", fixture.path.display());
    let sensors =
        open_all(&[spec(&format!("command[name=x,timeout=1h]:{line}")), spec("command:echo 300 W")], 0).unwrap();
    let sampler = ergometer_telemetry::Sampler::start(sensors, std::sync::Arc::new(Clock::start()), None);
    while sampler.with_timeline(ergometer_telemetry::Timeline::is_empty) {
        std::thread::yield_now();
    }
    let timeline = sampler.stop();
    assert_eq!(timeline.events(), [], "nobody was left behind");
    assert!(timeline.len() >= 2, "the quick one was read at the start and at the end");
}
