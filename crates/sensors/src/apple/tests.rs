//! Tests with recorded and scripted samples.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use ergometer_telemetry::{Batch, Clock, DeviceId, EventKind, Sensor};
use ergometer_units::{Seconds, Timestamp};

use super::*;

const ONE_DIE: &str = include_str!("../../../../fixtures/apple/one_die.json");
const TWO_DIES: &str = include_str!("../../../../fixtures/apple/two_dies.json");
const MILLISECOND: u64 = 1_000_000;

fn samples(text: &str) -> Vec<Sample> {
    serde_json::from_str(text).unwrap()
}

/// A clock that a test controls.
#[derive(Clone)]
struct Time(Arc<Mutex<Instant>>);

impl Time {
    fn now(&self) -> Now {
        let time = self.0.clone();
        Arc::new(move || *time.lock().unwrap())
    }

    fn pass(&self, length: Duration) {
        *self.0.lock().unwrap() += length;
    }
}

/// Returns the given samples. Reading one moves the clock to its time, relative to `begin_ns` at `begin`.
struct Script {
    samples: VecDeque<io::Result<Sample>>,
    reads: Arc<Mutex<usize>>,
    time: Time,
    begin: Instant,
    begin_ns: u64,
}

impl ReadSample for Script {
    fn read(&mut self) -> io::Result<Sample> {
        *self.reads.lock().unwrap() += 1;
        let sample = self.samples.pop_front().unwrap_or_else(|| Err(io::Error::other("no more samples")))?;
        *self.time.0.lock().unwrap() = self.begin + Duration::from_nanos(sample.now_ns - self.begin_ns);
        Ok(sample)
    }
}

struct Bench {
    sensors: Vec<Box<dyn Sensor>>,
    findings: Vec<ergometer_telemetry::Finding>,
    time: Time,
    begin: Instant,
    begin_ns: u64,
    reads: Arc<Mutex<usize>>,
    clock: Clock,
    batch: Batch,
}

impl Bench {
    /// The probe reads the first sample; the sensors get it again.
    fn new(samples: Vec<io::Result<Sample>>) -> Self {
        let first = samples.iter().find_map(|sample| sample.as_ref().ok()).unwrap().clone();
        let (begin, begin_ns) = (Instant::now(), first.now_ns);
        let time = Time(Arc::new(Mutex::new(begin)));
        let reads = Arc::new(Mutex::new(0));
        let script = Script {
            samples: std::iter::once(Ok(first)).chain(samples).collect(),
            reads: reads.clone(),
            time: time.clone(),
            begin,
            begin_ns,
        };
        let script = Mutex::new(Some(script));
        let machine = Machine::detect(true, Some("Apple M1 Max".to_owned()));
        let open = |channels| {
            assert_eq!(channels, ChannelSet::Totals);
            Ok(Box::new(script.lock().unwrap().take().unwrap()) as Box<dyn ReadSample>)
        };
        let Probe { sensors, findings } = probe_with(&Options { first_gpu: 2 }, &machine, &open, &time.now());
        Self { sensors, findings, time, begin, begin_ns, reads, clock: Clock::start(), batch: Batch::default() }
    }

    fn with_samples(samples: Vec<Sample>) -> Self {
        Self::new(samples.into_iter().map(Ok).collect())
    }

    /// Samples the sensor with this id.
    fn sample(&mut self, id: &str) {
        // The first sample ends when the clock starts.
        if *self.reads.lock().unwrap() > 1 {
            self.time.pass(Duration::from_millis(60));
        }
        let sensor = self.sensors.iter_mut().find(|sensor| sensor.info().id == id).unwrap();
        sensor.sample(&self.clock, &mut self.batch).unwrap();
    }

    fn values(&self, channel: usize) -> Vec<f64> {
        self.batch.readings.iter().filter(|reading| reading.channel == channel).map(|reading| reading.value).collect()
    }

    fn events(&self) -> Vec<EventKind> {
        self.batch.events.iter().map(|event| event.kind).collect()
    }

    /// Converts a time of the samples to the run's clock.
    fn at(&self, mach_ns: u64) -> Timestamp {
        let from_begin = Seconds::new(mach_ns as f64 / 1e9) - Seconds::new(self.begin_ns as f64 / 1e9);
        self.clock.at(self.begin) + from_begin
    }
}

fn is_near(left: Timestamp, right: Timestamp) -> bool {
    (left - right).abs() < Seconds::from_millis(0.01)
}

/// A sample of the CPU only, `millis` after the start, with its energy and the age of its last update.
fn cpu(millis: u64, value: i64, age_millis: Option<u64>) -> Sample {
    let now_ns = (100_000 + millis) * MILLISECOND;
    let entry = Entry {
        group: "Energy Model".to_owned(),
        subgroup: String::new(),
        name: "CPU Energy".to_owned(),
        unit: "mJ".to_owned(),
        value,
        published_ns: age_millis.map(|age| now_ns - age * MILLISECOND),
    };
    Sample { now_ns, channels: vec![entry] }
}

fn cpu_rounds(samples: Vec<Sample>) -> Bench {
    let rounds = samples.len();
    let mut bench = Bench::with_samples(samples);
    (0..rounds).for_each(|_| bench.sample("ioreport-cpu"));
    bench
}

#[test]
fn two_dies_are_summed_with_the_driver_timestamps() {
    let samples = samples(TWO_DIES);
    let rounds = samples.len();
    let mut bench = Bench::with_samples(samples);
    (0..rounds).for_each(|_| bench.sample("ioreport-cpu"));
    let package: Vec<_> = bench.batch.readings.iter().filter(|reading| reading.channel == 0).copied().collect();
    let [first, second, third] = package[..] else { panic!("one reading for each update: {package:?}") };
    let (start, step) = (first.value, |left: f64, right: f64| (right - left) * 1000.0);
    assert!((start - 212_996.111).abs() < 1e-6, "{start}");
    assert!((step(first.value, second.value) - 8_645.0).abs() < 1e-3, "6,808 and 1,837 mJ");
    assert!((step(second.value, third.value) - 30_687.0).abs() < 1e-3, "24,078 and 6,609 mJ");
    for (reading, written_ms) in [(first, 1000.0), (second, 1461.0), (third, 3083.1)] {
        let written = bench.at(5_000_000 * MILLISECOND) + Seconds::from_millis(written_ms);
        assert!(is_near(reading.at, written) && is_near(reading.after, written), "{reading:?}");
    }
    let dram = bench.values(1);
    assert_eq!(dram.len(), 3);
    assert!((dram[2] - dram[0] - 8.273).abs() < 0.01, "4 W for 2.083 s: {dram:?}");
    assert!(bench.batch.events.is_empty());
}

#[test]
fn the_gpu_is_counted_once_in_nanojoules() {
    let mut bench = Bench::with_samples(samples(TWO_DIES));
    for _ in 0..6 {
        bench.sample("ioreport-gpu");
    }
    let values = bench.values(0);
    assert_eq!(values.len(), 6, "the driver updates it at each read");
    assert!((values[5] - values[0] - 0.081 * 2.1).abs() < 1e-6, "81 mW for 2.1 s: {values:?}");
}

#[test]
fn without_driver_timestamps_a_step_lies_between_two_reads() {
    let mut bench = Bench::with_samples(samples(ONE_DIE));
    for _ in 0..6 {
        bench.sample("ioreport-cpu");
    }
    let values = bench.values(0);
    assert_eq!(values[0], 1702.663);
    assert!(values.windows(2).all(|pair| (pair[1] - pair[0] - 1.0).abs() < 1e-9), "1 J each: {values:?}");
    let package: Vec<_> = bench.batch.readings.iter().filter(|reading| reading.channel == 0).collect();
    assert!(package[0].at - package[0].after > Seconds::new(2.0), "the first may be old");
    for pair in package.windows(2) {
        assert!(pair[1].after <= pair[0].at && pair[1].after > pair[0].after, "{pair:?}");
    }
    let mut resting = Bench::with_samples(samples(ONE_DIE));
    for _ in 0..6 {
        resting.sample("ioreport-npu");
    }
    let values = resting.values(0);
    assert_eq!(values.len(), 6, "read although idle");
    assert!(values.iter().all(|value| (value - 52.004).abs() < 1e-9), "{values:?}");
    assert!(resting.batch.readings[1..].iter().all(|reading| reading.after == reading.at));
}

#[test]
fn sensors_have_their_devices_and_share_one_read() {
    let mut bench = Bench::with_samples(samples(ONE_DIE));
    let found: Vec<(String, DeviceId, Vec<String>)> = bench
        .sensors
        .iter()
        .map(|sensor| {
            let channels = sensor.channels().iter().map(ToString::to_string).collect();
            (sensor.info().id.clone(), sensor.info().device, channels)
        })
        .collect();
    let expected = [
        ("ioreport-cpu", DeviceId::cpu(0), vec!["cpu:0 package energy", "cpu:0 dram energy"]),
        ("ioreport-gpu", DeviceId::gpu(2), vec!["gpu:2 device energy"]),
        ("ioreport-npu", DeviceId::npu(0), vec!["npu:0 device energy"]),
    ];
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!((found.0.as_str(), found.1), (expected.0, expected.1));
        assert_eq!(found.2, expected.2);
    }
    bench.time.pass(Duration::from_millis(100));
    for sensor in &mut bench.sensors {
        sensor.sample(&bench.clock, &mut bench.batch).unwrap();
    }
    assert_eq!(*bench.reads.lock().unwrap(), 2, "one by the probe, one for all sensors");
    assert_eq!(bench.batch.readings.len(), 4);
    let lines: Vec<String> =
        bench.findings.iter().map(|found| format!("{}: {:?}", found.device, found.status)).collect();
    assert_eq!(
        lines,
        [
            "Apple M1 Max CPU (cpu:0): Works(\"energy counter of package, dram, read every 100 ms, updated every 0.1 to \
             2.2 s depending on macOS; package is the CPU clusters, not the whole chip\")",
            "Apple M1 Max GPU (gpu:2): Works(\"energy counter of device, read every 100 ms\")",
            "Apple M1 Max Neural Engine (npu:0): Works(\"energy counter of device, read every 100 ms, updated every 0.1 \
             to 2.2 s depending on macOS\")",
        ]
    );
}

#[test]
fn a_decrease_of_one_die_resets_the_sum() {
    let mut given = samples(TWO_DIES);
    for sample in &mut given[2..] {
        let die = sample.channels.iter_mut().find(|entry| entry.name == "DIE_1_CPU Energy").unwrap();
        die.value -= 63_000_000;
    }
    let mut bench = Bench::with_samples(given);
    (0..6).for_each(|_| bench.sample("ioreport-cpu"));
    let values = bench.values(0);
    assert_eq!((values.len(), values[1]), (3, 0.0));
    assert!((values[2] - 30.687).abs() < 1e-6, "{values:?}");
    assert_eq!(bench.events(), [EventKind::CounterReset]);
    assert!(bench.batch.events[0].message.contains("`DIE_1_CPU Energy` of the CPU clusters (cpu:0)"));
}

#[test]
fn a_missing_channel_is_reported_once_and_loses_no_energy() {
    let mut given = samples(ONE_DIE);
    for sample in &mut given[1..4] {
        sample.channels.retain(|entry| entry.name != "DRAM");
    }
    let mut bench = Bench::with_samples(given);
    (0..6).for_each(|_| bench.sample("ioreport-cpu"));
    assert_eq!((bench.values(0).len(), bench.values(1).len()), (6, 3), "the CPU is still read");
    assert_eq!(bench.events(), [EventKind::ReadFailed]);
    assert_eq!(bench.batch.events[0].message, "cannot read energy of DRAM (cpu:0): IOReport has no `DRAM`");
    let dram = bench.values(1);
    assert!((dram[1] - dram[0] - 0.24).abs() < 1e-9, "nothing is lost: {dram:?}");
}

#[test]
fn an_invalid_unit_or_value_is_reported_and_not_a_reading() {
    let unit = |mut sample: Sample| {
        "furlongs".clone_into(&mut sample.channels[0].unit);
        sample
    };
    let given = vec![
        cpu(0, 1_000, Some(1)),
        unit(cpu(100, 1_500, Some(1))),
        cpu(200, -1, Some(1)),
        cpu(300, i64::MIN, Some(1)),
        cpu(400, 3_000, Some(1)),
    ];
    let bench = cpu_rounds(given);
    assert_eq!(bench.values(0), [1.0, 3.0]);
    assert_eq!(bench.events(), [EventKind::ReadFailed], "reported once");
    assert!(bench.batch.events[0].message.contains("`furlongs`"), "{:?}", bench.batch.events);
}

#[test]
fn an_impossible_step_is_skipped() {
    let given = vec![cpu(0, 1_000, Some(1)), cpu(100, 90_000_000, Some(1)), cpu(200, 3_000, Some(1))];
    let bench = cpu_rounds(given);
    assert_eq!(bench.values(0), [1.0, 3.0]);
    assert_eq!(bench.events(), [EventKind::ImpossibleStep]);
}

#[test]
fn failing_reads_are_reported_once_until_one_works() {
    let failed = || Err(io::Error::other("IOReport returned no sample"));
    let given = vec![Ok(cpu(0, 1_000, None)), failed(), failed(), Ok(cpu(300, 2_000, None)), failed()];
    let mut bench = Bench::new(given);
    (0..5).for_each(|_| bench.sample("ioreport-cpu"));
    assert_eq!(bench.values(0), [1.0, 2.0]);
    assert_eq!(bench.events(), [EventKind::ReadFailed; 2]);
    assert!(bench.batch.events[0].message.contains("cpu:0 from IOReport: IOReport returned no sample"));
}

#[test]
fn a_counter_without_updates_is_reported() {
    let mut given: Vec<Sample> = (0..130).map(|round| cpu(round * 100, 1_000, Some(5 + round * 100))).collect();
    given.push(cpu(13_000, 40_000, Some(500)));
    let bench = cpu_rounds(given);
    assert_eq!(bench.values(0), [1.0, 40.0]);
    assert_eq!(bench.events(), [EventKind::CounterStuck]);
    let last = bench.batch.readings[1];
    assert!(is_near(last.at, bench.at(112_500 * MILLISECOND)), "{last:?}");
}

#[test]
fn an_updated_counter_with_the_same_value_is_idle() {
    let given = (0..130).map(|round| cpu(round * 100, 1_000, Some(1))).collect();
    let bench = cpu_rounds(given);
    assert_eq!((bench.values(0).len(), bench.batch.events.len()), (130, 0));
}

#[test]
fn without_timestamps_an_unchanged_cpu_is_stuck_and_a_gpu_is_not() {
    let standing: Vec<Sample> = (0..130).map(|round| cpu(round * 100, 1_000, None)).collect();
    let bench = cpu_rounds(standing.clone());
    assert_eq!(bench.events(), [EventKind::CounterStuck]);
    assert!(bench.values(0).len() < 110, "no readings while it is stuck");
    let as_gpu = |mut sample: Sample| {
        "GPU Energy".clone_into(&mut sample.channels[0].name);
        sample
    };
    let mut bench = Bench::with_samples(standing.into_iter().map(as_gpu).collect());
    (0..130).for_each(|_| bench.sample("ioreport-gpu"));
    assert_eq!((bench.values(0).len(), bench.batch.events.len()), (130, 0));
}

#[test]
fn invalid_timestamps_are_replaced_by_the_times_of_the_reads() {
    // The timestamp does not change with the value. Later ones are valid, but not trusted any more.
    let given = vec![
        cpu(0, 1_000, Some(10)),
        cpu(100, 2_000, Some(110)),
        cpu(200, 3_000, Some(60)),
        cpu(300, 3_000, Some(160)),
    ];
    let bench = cpu_rounds(given);
    assert_eq!(bench.values(0), [1.0, 2.0, 3.0, 3.0]);
    assert!(is_near(bench.batch.readings[2].at, bench.at(100_200 * MILLISECOND)));
    // A timestamp after the read is from another clock.
    let mut ahead = vec![cpu(0, 1_000, Some(0)), cpu(100, 2_000, Some(0))];
    for sample in &mut ahead {
        sample.channels[0].published_ns = Some(sample.now_ns + 1);
    }
    let bench = cpu_rounds(ahead);
    assert_eq!(bench.values(0), [1.0, 2.0]);
    assert!(is_near(bench.batch.readings[1].at, bench.at(100_100 * MILLISECOND)));
}

#[test]
fn an_update_long_before_the_run_is_not_a_reading() {
    // As on an M5 Ultra without a display: updated minutes before, and again much later.
    let bench = cpu_rounds(vec![cpu(0, 1_000, Some(90_000)), cpu(100, 2_000, Some(20)), cpu(200, 2_500, Some(20))]);
    assert_eq!(bench.values(0), [2.0, 2.5]);
    assert!(bench.batch.events.is_empty());
}

#[test]
fn other_machines_have_a_finding_with_the_reason() {
    let closed = |_| Err(io::Error::new(io::ErrorKind::NotFound, "there is no group `Energy Model`"));
    let now: Now = Arc::new(Instant::now);
    let finding = |arm: bool, brand: Option<&str>| {
        let machine = Machine::detect(arm, brand.map(ToOwned::to_owned));
        let mut probe = probe_with(&Options::default(), &machine, &closed, &now);
        assert!(probe.sensors.is_empty() && probe.findings.len() == 1);
        match probe.findings.remove(0).status {
            Status::Absent { why, fix } => (why, fix),
            other => panic!("{other:?}"),
        }
    };
    let (why, fix) = finding(false, Some("Intel(R) Core(TM) i9-9880H CPU @ 2.30GHz"));
    assert_eq!(fix, None);
    assert!(why.ends_with("is for Apple Silicon, and this is Intel(R) Core(TM) i9-9880H CPU @ 2.30GHz"), "{why}");
    let (_, fix) = finding(false, Some("VirtualApple @ 2.50GHz"));
    assert!(fix.is_some_and(|fix| fix.contains("aarch64-apple-darwin")));
    let (why, _) = finding(true, None);
    assert!(why.contains("there is no group") && why.contains("virtual machine"), "{why}");
}

#[cfg(not(target_os = "macos"))]
#[test]
fn other_systems_have_no_sensors_and_no_findings() {
    let probe = probe(&Options::default());
    assert!(probe.sensors.is_empty() && probe.findings.is_empty());
    assert!(open(ChannelSet::All).err().is_some_and(|error| error.kind() == io::ErrorKind::Unsupported));
}

#[test]
fn a_chip_with_unknown_names_is_a_finding_with_its_names() {
    let mut sample = cpu(0, 1, None);
    "ZPU Energy\u{fffd}".clone_into(&mut sample.channels[0].name);
    let bench = Bench::with_samples(vec![sample]);
    assert!(bench.sensors.is_empty());
    assert_eq!(bench.findings.len(), 3);
    assert!(
        matches!(&bench.findings[0].status, Status::Absent { why, .. } if why.ends_with("the channels are: ZPU Energy\u{fffd}"))
    );
}
