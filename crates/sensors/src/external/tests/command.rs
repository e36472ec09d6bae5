//! Commands that work, fail, hang, are killed or cannot be killed.

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
fn a_step_of_a_coarse_counter_is_possible() {
    // The counter advances by 0.01 kWh (36 kJ) at once.
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
fn errors_of_the_shell_are_shown_only_when_opening() {
    assert!(open_error("command:hunter2-of-nobody").contains("hunter2-of-nobody"));
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
    let message = &batch.events[0].message;
    assert!(message.contains("the command failed (exit status: 1): an error of the shell"), "{message}");
    assert!(!message.contains("hunter2"), "{message}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_command_that_cannot_be_killed_is_not_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let [slow, log, process] = ["slow", "log", "pid"].map(|name| folder.path().join(name));
    // `setsid` leaves the process group, so the signal does not reach it, like a command under sudo.
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
    let message = until_event();
    assert!(message.contains("was killed"), "{message}");
    let message = until_event();
    assert!(message.contains("a process of the killed command is still running"), "{message}");
    assert!(message.contains("not started again until it ends"), "{message}");
    let start = std::time::Instant::now();
    while start.elapsed() < Duration::from_millis(100) {
        assert_eq!(bench.sample().events.len(), 0, "reported once");
    }
    assert_eq!(fs::read_to_string(&log).unwrap(), "run\n", "ten more were due");
    fs::remove_file(&slow).unwrap();
    let process = fs::read_to_string(&process).unwrap().trim().parse().unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_raw(process).unwrap(), rustix::process::Signal::KILL)
        .unwrap();
    assert_eq!(values(&bench.until_something()), [312.0], "it runs again after the killed command ended");
}

#[test]
fn a_command_without_a_value_is_an_error_when_opening() {
    let error = open_error("command[pattern='x(.)']:echo no power; echo secret >&2");
    assert!(
        error.contains("command:echo gives no value: the pattern does not match the output: `no power`"),
        "{error}"
    );
    let error = open_error("command:echo 'cannot open device' >&2; exit 3");
    assert!(error.contains("exit status: 3") && error.contains("`cannot open device`"), "{error}");
    assert!(open_error("command:nonexistent-program-of-nobody").contains("127"));
    assert!(
        open_error("command[timeout=50ms]:sleep 600")
            .contains("within 0.05 s and was killed. hint: set a longer timeout=")
    );
    assert!(open_error("command:true").contains("output: (empty)"));
}

#[test]
fn a_failing_command_is_reported_once_until_it_works_again() {
    let fixture = Fixture::new("count", "312");
    let line = format!("cat {0} 2>/dev/null || {{ echo 'no device' >&2; exit 3; }}", fixture.path.display());
    let mut bench = Bench::new(&format!("command[every=10ms,name=x]:{line}"));
    fs::remove_file(&fixture.path).unwrap();
    let batch = bench.until_something();
    assert_eq!(kinds(&batch), [EventKind::ReadFailed]);
    assert!(batch.events[0].message.contains("command:x: the command failed (exit status: 3): `no device`"));
    assert!(!batch.events[0].message.contains("cat "), "the command is not shown");
    // More failures that are not reported: sample until a later run must have ended.
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
fn long_and_binary_output_is_accepted() {
    assert_eq!(
        values(&Bench::new("command:echo 312 W; head -c 1000000 /dev/zero; echo 5 W").until_something()),
        [312.0]
    );
    assert_eq!(values(&Bench::new("command:printf '\\377\\376 312 W'").until_something()), [312.0]);
    assert!(open_error("command:head -c 1000000 /dev/zero").len() < 600);
}

#[cfg(target_os = "linux")]
#[test]
fn the_whole_process_group_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join("pid");
    let text = format!("command[timeout=300ms]:sleep 600 & echo $! > {}; wait", lock.display());
    assert!(open_error(&text).contains("was killed"));
    let process = fs::read_to_string(&lock).unwrap();
    let status = PathBuf::from("/proc").join(process.trim()).join("stat");
    // The process is gone, or a zombie that was not reaped.
    let is_gone = || fs::read_to_string(&status).map_or(true, |stat| stat.contains(") Z"));
    let start = std::time::Instant::now();
    while !is_gone() {
        assert!(start.elapsed() < Duration::from_secs(10), "it still runs");
        std::thread::yield_now();
    }
}

#[test]
fn a_background_process_does_not_delay_the_value() {
    assert_eq!(values(&Bench::new("command:sleep 600 & echo 312 W").until_something()), [312.0]);
}

/// The first check of a killed command comes before the system has ended it.
#[test]
fn a_killed_command_is_not_reported_as_running() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    // Fast on the first run, when it is opened; then it hangs, and so do the processes that it starts.
    let line = format!("echo run >> {0}; test $(wc -l < {0}) -gt 1 && sleep 600 | cat; echo 312 W", log.display());
    let mut bench = Bench::new(&format!("command[every=10ms,timeout=50ms,name=x]:{line}"));
    let mut messages = Vec::new();
    while fs::read_to_string(&log).unwrap().lines().count() < 5 {
        messages.extend(bench.sample().events.into_iter().map(|event| event.message));
    }
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert!(messages[0].contains("the command did not end within 0.05 s and was killed"), "{messages:?}");
}

#[test]
fn the_last_sample_does_not_wait_for_a_command_that_hangs() {
    let fixture = Fixture::new("slow", "");
    // Fast on the first run, when it is opened; then it hangs.
    let line = format!("test -s {0} && sleep 600; echo x > {0}; echo 312 W", fixture.path.display());
    let mut bench = Bench::new(&format!("command[name=x,timeout=1h]:{line}"));
    // Each sample waits for a part of a second.
    for _ in 0..10 {
        assert!(bench.sample().readings.is_empty());
    }
    assert!(bench.sensor.interval() <= Duration::from_millis(1), "the next sample follows at once");
    let mut batch = Batch::default();
    bench.sensor.sample_last(&bench.clock, &mut batch).unwrap();
    assert_eq!((values(&batch), kinds(&batch)), (vec![], vec![EventKind::ReadFailed]));
    let message = &batch.events[0].message;
    assert!(message.starts_with("command:x: the command gave no value within "), "{message}");
    assert!(message.contains(" s and was killed when the measurement ended"), "{message}");
}

#[test]
fn the_last_sample_may_interrupt_a_slow_command() {
    let mut bench = Bench::new("command[name=x]:sleep 1.2; echo 312 W");
    assert_eq!(bench.sample().events, []);
    let mut batch = Batch::default();
    bench.sensor.sample_last(&bench.clock, &mut batch).unwrap();
    assert_eq!(batch.events, [], "it took no longer than the last time");
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_outside_the_group_that_holds_the_output_is_an_error() {
    // `setsid` leaves the process group, so the signal does not reach it.
    let error = open_error("command[name=x]:setsid sleep 3 & echo 312 W");
    assert!(error.contains("keeps its output open"), "{error}");
}

#[test]
fn a_slow_command_does_not_delay_the_sampler() {
    let fixture = Fixture::new("slow", "");
    let line = format!("test -s {0} && sleep 600; echo x > {0}; echo 312 W", fixture.path.display());
    let sensors =
        open_all(&[spec(&format!("command[name=x,timeout=1h]:{line}")), spec("command:echo 300 W")], 0).unwrap();
    let sampler = ergometer_telemetry::Sampler::start(sensors, std::sync::Arc::new(Clock::start()), None);
    while sampler.with_timeline(ergometer_telemetry::Timeline::is_empty) {
        std::thread::yield_now();
    }
    let timeline = sampler.stop();
    let messages: Vec<&str> = timeline.events().iter().map(|event| event.message.as_str()).collect();
    assert!(
        messages.iter().all(|message| message.contains("was killed when the measurement ended")),
        "not abandoned: {messages:?}"
    );
    assert!(timeline.len() >= 2, "the fast one was read at the start and at the end");
}
