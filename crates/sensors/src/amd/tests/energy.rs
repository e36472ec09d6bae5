//! Energy counters that work, are stuck, reset, unknown or lost.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ergometer_units::Joules;

use super::super::*;
use super::*;
use crate::energy_counter::ReadCounter;

#[test]
fn the_energy_counter_of_an_mi300x_is_read() {
    let tree = mi300x(counts(1_000_000_000));
    let mut probe = probe(&Options { first_gpu: 4, ..tree.options() });
    assert_eq!(ids(&probe), ["amdgpu:4", "amdgpu-energy:4"], "{:?}", probe.findings);
    let clock = Clock::start();
    let read = values(sensor(&mut probe, "amdgpu:4"), &clock);
    assert_eq!(value(&read, Scope::Device, Signal::Temperature), Some(42.0), "the junction, because there is no edge");
    assert_eq!(value(&read, Scope::Device, Signal::TemperatureHotspot), Some(42.0));
    assert_eq!(value(&read, Scope::Device, Signal::PowerInstant), Some(142.0));
    let energy = sensor(&mut probe, "amdgpu-energy:4");
    assert_eq!(energy.info().name, "AMD Instinct MI300X OAM");
    let first = sample(energy, &clock).readings[0];
    tree.write(3, "gpu_metrics", &table((1, 4), 288, &[(24, &counts(1_000_007_500).to_le_bytes())]));
    let second = sample(energy, &clock).readings[0];
    assert!((second.value - first.value - 7.5).abs() < 1e-3, "{} {}", first.value, second.value);
    assert!(second.after < second.at);
    assert!(
        matches!(finding(&probe, ENERGY), Status::Works(text) if text.contains("15.259 µJ") && text.contains("gpu_metrics 1.4"))
    );
}

#[test]
fn a_counter_that_does_not_move_at_high_power_is_stuck() {
    let tree = mi300x(counts(124_000));
    tree.write(3, "hwmon/power1_input", b"5000000\n");
    let mut probe = probe(&tree.options());
    let sensor = sensor(&mut probe, "amdgpu-energy:0");
    let clock = Clock::start();
    let mut second = || {
        let batches: Vec<Batch> = (0..20).map(|_| sample(sensor, &clock)).collect();
        let events: Vec<EventKind> = batches.iter().flat_map(kinds).collect();
        (events, batches.iter().map(|batch| batch.readings.len()).sum::<usize>())
    };
    assert_eq!(second(), (vec![], 20), "the first count is a movement");
    assert_eq!(second(), (vec![], 20), "at 5 W the counter need not move");
    tree.write(3, "hwmon/power1_input", b"142000000\n");
    assert_eq!(second(), (vec![EventKind::CounterStuck], 20));
    assert_eq!(second(), (vec![], 0), "absent, not zero watts");
    tree.write(3, "gpu_metrics", &table((1, 4), 288, &[(24, &counts(130_000).to_le_bytes())]));
    assert_eq!(second(), (vec![], 20));
    tree.write(3, "hwmon/power1_input", b"0\n");
    tree.write(3, "gpu_busy_percent", b"88\n");
    assert_eq!(second(), (vec![EventKind::CounterStuck], 20), "a busy GPU is enough");
    tree.write(3, "gpu_metrics", &table((1, 4), 288, &[(24, &counts(2_000).to_le_bytes())]));
    assert_eq!(second(), (vec![EventKind::CounterReset], 20), "the count decreased");
}

#[test]
fn a_counter_that_is_stuck_from_the_start_has_no_sensor() {
    let tree = mi300x(counts(124_000));
    let options = Options { watch: Duration::from_micros(1), ..tree.options() };
    let stuck = probe(&options);
    assert_eq!(ids(&stuck), ["amdgpu:0"]);
    assert!(matches!(finding(&stuck, ENERGY), Status::Limited { why, .. } if why.contains("the GPU draws 142 W")));
    tree.write(3, "hwmon/power1_input", b"5000000\n");
    assert_eq!(ids(&probe(&options)), ["amdgpu:0", "amdgpu-energy:0"], "the counter of an idle GPU need not move");
}

#[test]
fn unknown_tables_are_findings_and_not_read() {
    let tree = mi300x(0);
    for (content, expected) in [
        (table((1, 6), 384, &[]), "the layout of gpu_metrics 1.6 with 384 bytes is unknown"),
        (table((1, 4), 288, &[(24, &[0xff; 8])]), "has no energy"),
        (vec![0xff], "ends after 1 bytes"),
    ] {
        tree.write(3, "gpu_metrics", &content);
        let found = probe(&tree.options());
        assert_eq!(ids(&found), ["amdgpu:0"], "{expected}");
        assert!(
            matches!(finding(&found, ENERGY), Status::Limited { why, .. } if why.contains(expected)),
            "{:?}",
            found.findings
        );
    }
    tree.spoil(3, "gpu_metrics");
    assert!(
        matches!(finding(&probe(&tree.options()), ENERGY), Status::Limited { why, .. } if why.starts_with("cannot read "))
    );
}

#[test]
fn chmod_is_suggested_only_if_the_mode_is_the_cause() {
    let path = "/sys/class/drm/card3/device/gpu_metrics";
    let fix = |why: fn(String, io::Error) -> NoCounter, errno: i32| {
        let status = without_counter(&why(path.to_owned(), io::Error::from_raw_os_error(errno)));
        let Status::Limited { why, fix } = status else { panic!("{status:?}") };
        (fix, why.contains("being reset or asleep"))
    };
    assert_eq!(fix(NoCounter::Closed, 13), (Some(format!("sudo chmod a+r {path}")), false));
    assert_eq!(fix(NoCounter::Closed, 1), (None, false));
    assert_eq!(fix(NoCounter::Unreadable, 1), (None, true), "the mode is 0444 while the GPU is reset");
    let tree = mi300x(counts(10_000));
    let open = || open_counter(&find_cards(&tree.root()).unwrap()[0]).err();
    tree.spoil(3, "gpu_metrics");
    assert!(matches!(open(), Some(NoCounter::Unreadable(..))), "a folder opens");
    std::fs::remove_dir(tree.path(3, "gpu_metrics")).unwrap();
    std::os::unix::fs::symlink("gpu_metrics", tree.path(3, "gpu_metrics")).unwrap();
    assert!(matches!(open(), Some(NoCounter::Closed(..))), "a link to itself does not");
}

#[test]
fn a_malformed_table_is_reported_and_later_ones_are_read() {
    let tree = mi300x(counts(10_000));
    let mut probe = probe(&tree.options());
    let sensor = sensor(&mut probe, "amdgpu-energy:0");
    let clock = Clock::start();
    sample(sensor, &clock);
    for content in [&b"\xff\xfe"[..], &table((1, 4), 288, &[(24, &[0xff; 8])])] {
        tree.write(3, "gpu_metrics", content);
        let batch = sample(sensor, &clock);
        assert_eq!((kinds(&batch), batch.readings.len()), (vec![EventKind::ReadFailed], 0));
        tree.write(3, "gpu_metrics", &table((1, 4), 288, &[(24, &counts(10_500).to_le_bytes())]));
        assert_eq!(sample(sensor, &clock).readings.len(), 1);
    }
}

#[test]
fn the_counter_of_hwmon_is_preferred() {
    let tree = mi300x(counts(10_000));
    tree.write(3, "hwmon/energy1_input", b"93214567890\n");
    let mut probe = probe(&tree.options());
    let first = sample(sensor(&mut probe, "amdgpu-energy:0"), &Clock::start()).readings[0];
    assert!((first.value - 93_214.567_89).abs() < 1e-6);
    assert!(matches!(finding(&probe, ENERGY), Status::Works(text) if text.contains("1.000 µJ")));
}

/// A counter that fails with the error a test stores.
struct Failing(Arc<AtomicU64>);

impl ReadCounter for Failing {
    fn read(&mut self) -> io::Result<u64> {
        match self.0.load(Ordering::Relaxed) {
            0 => Ok(5),
            errno => Err(io::Error::from_raw_os_error(i32::try_from(errno).unwrap())),
        }
    }
}

#[test]
fn a_lost_gpu_ends_its_sensor_and_a_forbidden_read_does_not() {
    let tree = mi300x(counts(10_000));
    let card = &find_cards(&tree.root()).unwrap()[0];
    let errno = Arc::new(AtomicU64::new(0));
    let counter = GpuCounter {
        file: Box::new(Failing(errno.clone())),
        unit: Joules::new(1e-6),
        update_period: Seconds::new(0.01),
        activity: Box::new(CardActivity::open(card)),
        scope: Scope::Device,
        gone: gone(),
    };
    let (id, name) = ("amdgpu-energy:0".to_owned(), card.name.clone());
    let mut sensor = GpuEnergy::new(SensorInfo { id, name, device: DeviceId::gpu(0), interval: INTERVAL }, counter);
    let clock = Clock::start();
    sample(&mut sensor, &clock);
    errno.store(1, Ordering::Relaxed);
    assert_eq!(kinds(&sample(&mut sensor, &clock)), [EventKind::ReadFailed], "EPERM, as during a reset");
    errno.store(19, Ordering::Relaxed);
    let lost = sensor.sample(&clock, &mut Batch::default()).unwrap_err();
    assert!(lost.to_string().starts_with("gpu:0 is lost: its files in /sys are gone"), "{lost}");
}
