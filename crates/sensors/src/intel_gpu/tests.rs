//! Tests with fake cards.

use std::fs;
use std::os::unix::fs::symlink;

use ergometer_telemetry::{Batch, Clock, EventKind, Sensor};
use tempfile::TempDir;

use super::*;

struct FakeTree(TempDir);

impl FakeTree {
    /// Cards with this driver and these hwmon files, numbered from 0.
    fn new(cards: &[(&str, &[(&str, &str)])]) -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        for (number, (driver, files)) in cards.iter().enumerate() {
            let drivers = tree.0.path().join("drivers").join(driver);
            let folder = tree.folder(number);
            fs::create_dir_all(&drivers).unwrap();
            for made in ["hwmon/hwmon4", "power", "tile0/gt0/freq0"] {
                fs::create_dir_all(folder.join(made)).unwrap();
            }
            symlink(drivers, folder.join("driver")).unwrap();
            tree.write(number, "device", "0xe20b");
            tree.write(number, "uevent", &format!("PCI_SLOT_NAME=0000:0{}:00.0", 3 + number));
            tree.write(number, "power/runtime_status", "active");
            tree.write(number, "hwmon/hwmon4/name", driver);
            for (name, text) in *files {
                tree.write(number, &format!("hwmon/hwmon4/{name}"), text);
            }
        }
        tree
    }

    fn folder(&self, number: usize) -> PathBuf {
        self.0.path().join(format!("drm/card{number}/device"))
    }

    fn write(&self, number: usize, name: &str, text: &str) {
        fs::write(self.folder(number).join(name), format!("{text}\n")).unwrap();
    }

    fn probe(&self) -> Probe {
        probe(&Options { root: self.0.path().join("drm"), first_gpu: 2 })
    }
}

fn ids(probe: &Probe) -> Vec<&str> {
    probe.sensors.iter().map(|sensor| sensor.info().id.as_str()).collect()
}

fn sample(sensor: &mut dyn Sensor, clock: &Clock) -> Batch {
    let mut batch = Batch::default();
    sensor.sample(clock, &mut batch).unwrap();
    batch
}

/// A busy Arc B580.
const BATTLEMAGE: [(&str, &str); 8] = [
    ("energy1_label", "card"),
    ("energy1_input", "81234567890"),
    ("energy2_label", "pkg"),
    ("energy2_input", "51234567890"),
    ("temp2_label", "pkg"),
    ("temp2_input", "58000"),
    ("temp3_label", "vram"),
    ("temp3_input", "66000"),
];

#[test]
fn the_counter_of_the_card_is_preferred_to_its_package() {
    let tree = FakeTree::new(&[("xe", &BATTLEMAGE), ("xe", &BATTLEMAGE[2..4]), ("i915", &BATTLEMAGE[1..2])]);
    let mut probe = tree.probe();
    let counters = ["intel-gpu-energy:2", "intel-gpu:2", "intel-gpu-energy:3", "intel-gpu-energy:4"];
    assert_eq!(ids(&probe), counters, "{:?}", probe.findings);
    let clock = Clock::start();
    let energies = [0, 2, 3].map(|place: usize| sample(&mut *probe.sensors[place], &clock).readings[0].value);
    for (energy, expected) in energies.into_iter().zip([81_234.567_89, 51_234.567_89, 81_234.567_89]) {
        assert!((energy - expected).abs() < 1e-6, "{energy}");
    }
    let texts: Vec<String> = probe.findings.iter().map(|finding| format!("{:?}", finding.status)).collect();
    let expected = ["of the whole card", "of the package", "of the whole card"];
    assert!(texts.iter().zip(expected).all(|(text, expected)| text.contains(expected)), "{texts:?}");
    let temperatures: Vec<f64> =
        sample(&mut *probe.sensors[1], &clock).readings.iter().map(|reading| reading.value).collect();
    assert_eq!(temperatures, [58.0, 66.0]);
}

#[test]
fn a_counter_is_stuck_only_while_the_cores_run() {
    let tree = FakeTree::new(&[("xe", &BATTLEMAGE)]);
    tree.write(0, "tile0/gt0/freq0/act_freq", "0");
    let mut probe = tree.probe();
    let sensor = &mut *probe.sensors[0];
    let clock = Clock::start();
    let mut second = || -> (Vec<EventKind>, usize) {
        let batches: Vec<Batch> = (0..10).map(|_| sample(sensor, &clock)).collect();
        let events = batches.iter().flat_map(|batch| &batch.events).map(|event| event.kind).collect();
        (events, batches.iter().map(|batch| batch.readings.len()).sum())
    };
    assert_eq!(second(), (vec![], 10), "the first count is a movement");
    assert_eq!(second(), (vec![], 10), "the cores are idle");
    tree.write(0, "tile0/gt0/freq0/act_freq", "2850");
    assert_eq!(second(), (vec![EventKind::CounterStuck], 10));
    assert_eq!(second(), (vec![], 0), "absent, not zero watts");
    tree.write(0, "hwmon/hwmon4/energy1_input", "1000");
    assert_eq!(second(), (vec![EventKind::CounterReset], 10), "the count decreased");
}

#[test]
fn an_unreadable_counter_is_a_finding_and_integrated_graphics_are_skipped() {
    let inside = FakeTree::new(&[("i915", &[]), ("amdgpu", &BATTLEMAGE)]);
    fs::remove_dir_all(inside.folder(0).join("hwmon")).unwrap();
    assert!(inside.probe().findings.is_empty());
    let garbage = FakeTree::new(&[("xe", &[("energy1_label", "card"), ("energy1_input", "fish")]), ("xe", &[])]);
    let found = garbage.probe();
    assert!(found.sensors.is_empty());
    let texts: Vec<String> = found.findings.iter().map(|finding| format!("{:?}", finding.status)).collect();
    assert!(texts[0].contains("`fish` is not a number") && texts[1].contains("has no energy counter"), "{texts:?}");
}
