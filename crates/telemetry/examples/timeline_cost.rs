//! Benchmarks the timeline and the energy meter: the memory of a million readings, the lookup of a window compared with
//! a linear scan, and ten thousand windows over an hour. It prints a table; `bench/run.sh` runs it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use ergometer_telemetry::{
    Batch, Channel, DeviceId, EnergyMeter, Provenance, Reading, Scope, SensorInfo, Signal, Timeline,
};
use ergometer_units::{Seconds, Timestamp, Window};

const READINGS: u32 = 1_000_000;
const LOOKUPS: u32 = 20_000;

fn main() {
    let before = resident_bytes();
    let timeline = a_million_readings();
    let after = resident_bytes();
    if let (Some(before), Some(after)) = (before, after) {
        println!("memory of 1,000,000 readings         {:8.1} MB", (after - before) / 1e6);
    }
    let (id, _) = timeline.channels().next().expect("one channel");
    let windows: Vec<Window> = (0..LOOKUPS).map(|index| window(f64::from(index) * 0.9, 0.1)).collect();
    let found = time(|| windows.iter().map(|&window| timeline.column(id).within(window).len()).sum::<usize>());
    let stats = time(|| windows.iter().filter(|&&window| timeline.stats(id, window).is_some()).count());
    // For comparison: a linear scan over all samples, as with a rolling buffer.
    let readings = timeline.column(id).readings();
    let scanned = windows.iter().step_by(200).map(|window| {
        let (start, end) = (window.start().nanos_since_epoch(), window.end().nanos_since_epoch());
        let started = Instant::now();
        black_box(readings.at_ns.iter().filter(|&&at| (start..end).contains(&at)).count());
        started.elapsed()
    });
    let scan: Duration = scanned.sum::<Duration>() / (LOOKUPS / 200);
    let each = |total: Duration| total / LOOKUPS;
    println!("look-up of a 100 ms window           {:8.0} ns", each(found).as_secs_f64() * 1e9);
    println!("its avg, max, median, min            {:8.0} ns", each(stats).as_secs_f64() * 1e9);
    println!("a scan of the same readings          {:8.0} ns", scan.as_secs_f64() * 1e9);
    println!("scan / look-up                       {:8.0}", scan.as_secs_f64() / each(found).as_secs_f64());
    an_hour();
}

fn window(start: f64, length: f64) -> Window {
    let at = |seconds: f64| Timestamp::from_nanos_since_epoch(0) + Seconds::new(seconds);
    Window::new(at(start), at(start + length)).expect("in order")
}

fn sensor(signals: &[(Signal, Provenance)]) -> (SensorInfo, Vec<Channel>) {
    let device = DeviceId::gpu(0);
    let info =
        SensorInfo { id: String::from("bench"), name: String::new(), device, interval: Duration::from_millis(20) };
    let channel =
        |&(signal, provenance)| Channel { device, scope: Scope::Device, signal, provenance, update_period: None };
    (info, signals.iter().map(channel).collect())
}

fn a_million_readings() -> Timeline {
    let mut timeline = Timeline::default();
    let (info, channels) = sensor(&[(Signal::PowerRing, Provenance::SampledPower)]);
    let key = timeline.add_sensor(&info, &channels);
    let mut batch = Batch::default();
    for index in 0..READINGS {
        let at = Timestamp::from_nanos_since_epoch(i64::from(index) * 20_000_000);
        batch.push(0, at, 100.0 + f64::from(index % 7));
        if batch.readings.len() == 50 {
            timeline.append(key, &batch);
            batch.clear();
        }
    }
    timeline.append(key, &batch);
    timeline
}

/// An hour of a GPU that is busy for 100 ms and idle for 260 ms, ten thousand times.
fn an_hour() {
    let windows: Vec<Window> = (0..10_000).map(|index| window(1.0 + 0.36 * f64::from(index), 0.1)).collect();
    let mut timeline = Timeline::default();
    let (info, channels) =
        sensor(&[(Signal::PowerRing, Provenance::SampledPower), (Signal::Energy, Provenance::Counter)]);
    let key = timeline.add_sensor(&info, &channels);
    let (mut batch, mut joules, mut shown) = (Batch::default(), 0.0, 120.0);
    for tick in 1..180_200_i64 {
        let seconds = tick as f64 * 0.02;
        let busy = seconds > 1.0 && (seconds - 1.0).rem_euclid(0.36) < 0.1 && seconds < 3601.0;
        shown += (if busy { 650.0 } else { 120.0 } - shown) * 0.79;
        joules += shown * 0.02;
        let at = Timestamp::from_nanos_since_epoch(tick * 20_000_000);
        batch.push(0, at, shown);
        if tick % 100 == 0 {
            batch.readings.push(Reading { channel: 1, after: at - Seconds::from_millis(5.0), at, value: joules });
        }
    }
    timeline.append(key, &batch);
    let started = Instant::now();
    let meter = EnergyMeter::new(&timeline, &windows);
    let built = started.elapsed();
    let started = Instant::now();
    let sum: f64 =
        windows.iter().filter_map(|&window| meter.energy(window).measured.ok()).map(|e| e.joules.get()).sum();
    let read = started.elapsed();
    println!("10,000 windows over an hour: curve   {:8.2} s", built.as_secs_f64());
    println!("10,000 windows over an hour: read    {:8.2} s   ({sum:.0} J)", read.as_secs_f64());
}

fn time(work: impl FnOnce() -> usize) -> Duration {
    let started = Instant::now();
    black_box(work());
    started.elapsed()
}

/// The resident memory of the process; only on Linux.
fn resident_bytes() -> Option<f64> {
    let pages: f64 = std::fs::read_to_string("/proc/self/statm").ok()?.split(' ').nth(1)?.parse().ok()?;
    Some(pages * 4096.0)
}
