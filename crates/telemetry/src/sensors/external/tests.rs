//! Real commands and real files: what works, and what goes wrong.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use ergometer_units::Timestamp;

use super::*;
use crate::{Batch, Clock, EventKind, Provenance, Signal};

fn spec(text: &str) -> Spec {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn open(spec: &Spec, number: u32) -> Result<Box<dyn Sensor>, ExternalError> {
    open_each(std::slice::from_ref(spec), number).remove(0)
}

fn refused(text: &str) -> String {
    match open(&spec(text), 0) {
        Ok(_) => panic!("{text} opens"),
        Err(error) => error.to_string(),
    }
}

/// A sensor with its clock.
struct Bench {
    sensor: Box<dyn Sensor>,
    clock: Clock,
}

impl Bench {
    fn new(text: &str) -> Self {
        let sensor = open(&spec(text), 0).unwrap_or_else(|error| panic!("{text}: {error}"));
        Self { sensor, clock: Clock::start() }
    }

    fn sample(&mut self) -> Batch {
        let mut batch = Batch::default();
        self.sensor.sample(&self.clock, &mut batch).unwrap();
        batch
    }

    fn values(&mut self) -> Vec<f64> {
        values(&self.sample())
    }

    /// Samples until something comes: a command takes its time.
    fn until_something(&mut self) -> Batch {
        loop {
            let batch = self.sample();
            if !batch.readings.is_empty() || !batch.events.is_empty() {
                return batch;
            }
        }
    }

    /// Seconds since the epoch, so many from now.
    fn time(&self, seconds: f64) -> String {
        let now = self.clock.now().nanos_since_epoch() as f64 / 1e9;
        format!("{:.6}", now + seconds)
    }
}

fn values(batch: &Batch) -> Vec<f64> {
    batch.readings.iter().map(|reading| reading.value).collect()
}

fn kinds(batch: &Batch) -> Vec<EventKind> {
    batch.events.iter().map(|event| event.kind).collect()
}

/// A folder with one file.
struct Fixture {
    folder: tempfile::TempDir,
    path: PathBuf,
}

impl Fixture {
    fn new(name: &str, text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        Self { folder, path }
    }

    fn append(&self, text: impl AsRef<[u8]>) {
        OpenOptions::new().append(true).open(&self.path).unwrap().write_all(text.as_ref()).unwrap();
    }

    /// Puts another file in its place, as a rotation or an atomic writer does.
    fn replace(&self, text: &str) {
        let other = self.folder.path().join("other");
        fs::write(&other, text).unwrap();
        fs::rename(&other, &self.path).unwrap();
    }

    fn spec(&self, start: &str) -> String {
        format!("{start}:{}", self.path.display())
    }
}

#[test]
fn a_command_gives_power_between_its_start_and_its_end() {
    let mut bench = Bench::new("command[every=10ms]:printf 'Instantaneous power reading:  312 Watts\\n'");
    let channel = &bench.sensor.channels()[0];
    assert_eq!((channel.signal, channel.provenance), (Signal::PowerInstant, Provenance::SampledPower));
    assert_eq!((channel.device, channel.scope), (DeviceId::meter(0), crate::Scope::Psys));
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

#[test]
fn a_table_gives_the_rows_that_are_appended_with_their_times() {
    let fixture = Fixture::new("meter.csv", "time,power_w\n1794730772,100\n");
    let mut bench = Bench::new(&fixture.spec("csv"));
    assert_eq!(bench.sensor.info().id, "csv:meter.csv");
    assert_eq!(bench.values(), [0.0; 0], "an old row is not a reading");
    let first = bench.time(-0.5);
    fixture.append(format!("{first},312\n{},31", bench.time(-0.25)));
    let batch = bench.sample();
    assert_eq!(values(&batch), [312.0], "half a line waits");
    let at = batch.readings[0].at.nanos_since_epoch() as f64 / 1e9;
    assert!((at - first.parse::<f64>().unwrap()).abs() < 0.01, "the row's own time");
    fixture.append("3\r\n");
    assert_eq!(bench.values(), [313.0]);
    assert_eq!(bench.values(), [0.0; 0]);
}

#[test]
fn the_last_row_counts_where_it_is_fresh() {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
    let fixture = Fixture::new("meter.csv", &format!("time,power_w\n{:.3},312\n", now - 1.0));
    let mut bench = Bench::new(&fixture.spec("csv"));
    assert_eq!(bench.values(), [312.0]);
    assert_eq!(bench.values(), [0.0; 0]);
}

#[test]
fn rows_without_a_time_have_that_of_the_look() {
    let fixture = Fixture::new("meter.csv", "power_w\n");
    let mut bench = Bench::new(&fixture.spec("csv"));
    bench.sample();
    let before = bench.clock.now();
    fixture.append("300\n310\n");
    let batch = bench.sample();
    assert_eq!(values(&batch), [305.0]);
    assert!(batch.readings[0].after <= before && before <= batch.readings[0].at);
}

#[test]
fn garbage_and_rows_out_of_order_are_told_once() {
    let fixture = Fixture::new("meter.csv", "time,power_w\n");
    let mut bench = Bench::new(&fixture.spec("csv"));
    let (early, late) = (bench.time(-2.0), bench.time(-1.0));
    fixture.append(format!("{late},312\nfish\n{early},5\n\n{early},6\n").as_bytes());
    fixture.append(b"\xff\xfe,\xff\n");
    let batch = bench.sample();
    assert_eq!(values(&batch), [312.0]);
    assert_eq!(kinds(&batch), [EventKind::ReadFailed; 2]);
    fixture.append("fish\n");
    assert_eq!(bench.sample().events.len(), 0);
    let mut batch = Batch::default();
    bench.sensor.sample_last(&bench.clock, &mut batch).unwrap();
    assert!(batch.events[0].message.contains("3 rows were no readings and 2 were out of order"), "{:?}", batch.events);
}

#[test]
fn a_line_without_end_is_thrown_away() {
    let fixture = Fixture::new("meter.csv", "power_w\n");
    let mut bench = Bench::new(&fixture.spec("csv"));
    fixture.append("9".repeat(100_000));
    assert_eq!(kinds(&bench.sample()), [EventKind::ReadFailed]);
    fixture.append("9\n312\n");
    assert_eq!(bench.values(), [312.0]);
}

#[test]
fn a_clock_of_another_time_zone_is_told() {
    let fixture = Fixture::new("meter.csv", "time,power_w\n");
    let mut bench = Bench::new(&fixture.spec("csv"));
    fixture.append(format!("{},312\n", bench.time(3600.0)));
    let batch = bench.sample();
    assert_eq!(values(&batch), [0.0; 0]);
    assert!(batch.events[0].message.contains("3600 s ahead of this machine's"), "{:?}", batch.events);
}

#[test]
fn a_table_that_is_rotated_or_cut_is_read_from_its_start() {
    let fixture = Fixture::new("meter.csv", "power_w\n100\n200\n");
    let mut bench = Bench::new(&fixture.spec("csv"));
    fixture.append("300\n");
    fixture.replace("volts,power_w\n230,310\n");
    // What the old file had to the end, and the new one: without times, their mean.
    let batch = bench.sample();
    assert_eq!((values(&batch), kinds(&batch)), (vec![305.0], vec![EventKind::SamplesLost]));
    File::create(&fixture.path).unwrap().write_all(b"power_w\n").unwrap();
    assert_eq!(kinds(&bench.sample()), [EventKind::SamplesLost]);
    fixture.append("320\n");
    assert_eq!(bench.values(), [320.0]);
    fs::remove_file(&fixture.path).unwrap();
    assert_eq!(bench.sample().events.len(), 0, "between the steps of a rotation");
    fs::write(&fixture.path, "volts\n").unwrap();
    let batch = bench.sample();
    assert_eq!(kinds(&batch), [EventKind::SamplesLost, EventKind::ReadFailed], "the new one has no such column");
    fixture.append("230\n");
    assert_eq!(bench.values(), [0.0; 0], "volts are no watts");
}

#[test]
fn a_table_that_is_none_is_refused() {
    let fixture = Fixture::new("meter.csv", "volts,amperes\n230,1.5\n");
    assert!(refused(&fixture.spec("csv")).contains("give value= one of `volts`, `amperes`"));
    assert!(refused(&fixture.spec("csv[value=watts]")).contains("no column `watts`"));
    fs::write(&fixture.path, "").unwrap();
    assert!(refused(&fixture.spec("csv")).contains("start the meter first"));
    fs::write(&fixture.path, "power_w\nfish\n").unwrap();
    assert!(refused(&fixture.spec("csv")).contains("`fish` is no value"));
    fs::write(&fixture.path, "time,power_w\n0.1,300\n").unwrap();
    assert!(refused(&fixture.spec("csv")).contains("time=none leaves it out"));
    assert!(open(&spec(&fixture.spec("csv[time=none]")), 0).is_ok());
    assert!(refused("csv:/nonexistent/meter.csv").contains("cannot read /nonexistent/meter.csv"));
    assert!(refused(&format!("csv:{}", fixture.folder.path().display())).contains("no plain file"));
    fs::write(&fixture.path, [b"power_w\n".to_vec(), b"300\n".repeat(100_000)].concat()).unwrap();
    assert_eq!(Bench::new(&fixture.spec("csv")).values(), [0.0; 0], "a long history is skipped");
}

#[test]
fn a_metric_is_read_when_its_file_was_rewritten() {
    let fixture = Fixture::new("power.prom", "node_power_watts 300\n");
    let mut bench = Bench::new(&fixture.spec("prometheus"));
    assert_eq!(bench.values(), [300.0], "it was written just now");
    assert_eq!(bench.values(), [0.0; 0], "nobody wrote it again");
    fixture.replace("node_power_watts 300\n");
    assert_eq!(bench.values(), [300.0], "the same value, written again");
    fixture.replace("node_power_watts 31");
    let batch = bench.sample();
    assert_eq!((values(&batch), kinds(&batch)), (vec![], vec![EventKind::ReadFailed]));
    fixture.replace("node_power_watts{");
    assert_eq!(bench.sample().events.len(), 0, "told once");
    fixture.replace("node_power_watts 312\n");
    assert_eq!(bench.values(), [312.0]);
    fs::remove_file(&fixture.path).unwrap();
    assert_eq!(kinds(&bench.sample()), [EventKind::ReadFailed]);
}

#[test]
fn an_old_metric_is_no_reading() {
    let fixture = Fixture::new("power.prom", "node_power_watts 300\n");
    let hour_ago = SystemTime::now() - Duration::from_secs(3600);
    File::options().write(true).open(&fixture.path).unwrap().set_modified(hour_ago).unwrap();
    let mut bench = Bench::new(&fixture.spec("prometheus"));
    assert_eq!(bench.values(), [0.0; 0]);
    fixture.replace("node_power_watts 312\n");
    assert_eq!(bench.values(), [312.0]);
}

#[test]
fn a_metric_with_a_time_counts_once() {
    let fixture = Fixture::new("power.prom", "a_joules_total 0\n");
    let mut bench = Bench::new(&fixture.spec("prometheus"));
    assert_eq!(bench.sensor.channels()[0].signal, Signal::Energy);
    bench.sample();
    let time_ms = bench.clock.now().nanos_since_epoch() / 1_000_000 + 20;
    fixture.replace(&format!("a_joules_total 7 {time_ms}\n"));
    let batch = bench.sample();
    assert_eq!(values(&batch), [7.0]);
    assert_eq!(batch.readings[0].at, Timestamp::from_nanos_since_epoch(time_ms * 1_000_000));
    fixture.replace(&format!("a_joules_total 7 {time_ms}\n# again\n"));
    assert_eq!(bench.values(), [0.0; 0]);
}

#[test]
fn a_metric_whose_time_goes_back_is_left_out_and_told_once() {
    let fixture = Fixture::new("power.prom", "a_watts 300\n");
    let mut bench = Bench::new(&fixture.spec("prometheus"));
    bench.sample();
    let now_ms = bench.clock.now().nanos_since_epoch() / 1_000_000 + 5000;
    let mut write = |text: String| {
        fixture.replace(&text);
        let batch = bench.sample();
        (values(&batch), kinds(&batch))
    };
    assert_eq!(write(format!("a_watts 312 {now_ms}\n")), (vec![312.0], vec![]));
    assert_eq!(write(format!("a_watts 5 {}\n", now_ms - 1000)), (vec![], vec![EventKind::ReadFailed]));
    assert_eq!(write(format!("a_watts 6 {}\n", now_ms - 999)), (vec![], vec![]));
    assert_eq!(write(format!("a_watts 313 {}\n", now_ms + 1000)), (vec![313.0], vec![]));
}

#[test]
fn a_file_of_metrics_that_does_not_fit_is_refused() {
    let fixture = Fixture::new("power.prom", "a_watts{n=\"1\"} 5\na_watts{n=\"2\"} 6\n");
    assert!(refused(&fixture.spec("prometheus")).contains("2 samples fit"));
    assert_eq!(Bench::new(&fixture.spec("prometheus[metric='a_watts{n=\"2\"}']")).values(), [6.0]);
    fs::write(&fixture.path, format!("#{}\n", "x".repeat(2_000_000))).unwrap();
    assert!(refused(&fixture.spec("prometheus")).contains("larger than 1 MiB"));
}

#[test]
fn ids_are_unique_and_meters_counted_on() {
    let specs = ["command:echo 1 W", "command[name=echo-2]:echo 2 W", "command:echo 3 W"].map(spec);
    let sensors = open_all(&specs, 4).unwrap();
    let found: Vec<(&str, u32)> =
        sensors.iter().map(|sensor| (sensor.info().id.as_str(), sensor.info().device.index)).collect();
    assert_eq!(found, [("command:echo", 4), ("command:echo-2", 5), ("command:echo-3", 6)]);
    let wrong = ["command:echo 1 W", "command:false"].map(spec);
    assert!(open_all(&wrong, 0).is_err_and(|error| error.sensor == "command:false"));
}

#[test]
fn each_is_told_of_with_the_id_and_number_it_would_have() {
    let specs = ["command:echo fish. hint: eat it", "command:echo 2 W", "command:echo 3 W"].map(spec);
    let found: Vec<String> = open_each(&specs, 1)
        .into_iter()
        .map(|opened| match opened {
            Ok(sensor) => format!("{} {}", sensor.info().id, sensor.info().device),
            Err(error) => {
                assert_eq!(error.hint.as_deref(), Some("give pattern='…([0-9.]+)…' that finds the value"));
                assert!(error.why.ends_with("`fish. hint: eat it`"), "an output is no hint: {}", error.why);
                assert_eq!(
                    error.to_string(),
                    format!("command:echo gives no value: {}. hint: {}", error.why, error.hint.unwrap())
                );
                error.sensor
            }
        })
        .collect();
    assert_eq!(found, ["command:echo", "command:echo-2 meter:2", "command:echo-3 meter:3"]);
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
    let sampler = crate::Sampler::start(sensors, std::sync::Arc::new(Clock::start()), None);
    while sampler.with_timeline(crate::Timeline::is_empty) {
        std::thread::yield_now();
    }
    let timeline = sampler.stop();
    assert_eq!(timeline.events(), [], "nobody was left behind");
    assert!(timeline.len() >= 2, "the quick one was read at the start and at the end");
}
