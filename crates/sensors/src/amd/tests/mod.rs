//! Tests with fake cards.

mod energy;
mod gauges;

use ergometer_telemetry::{Batch, Channel, Clock, EventKind, Probe, Scope, Sensor, Signal, Status};

use super::fake::{FakeCard, FakeTree, table};
use crate::example::{kinds, sample};

const MI300X: FakeCard = FakeCard { number: 3, address: "0001:01:00.0", chip: "0x74a1" };

/// An idle Instinct.
const INSTINCT_FILES: [(&str, &str); 7] = [
    ("product_name", "AMD Instinct MI300X OAM"),
    ("hwmon/power1_input", "142000000"),
    ("hwmon/temp2_label", "junction"),
    ("hwmon/temp2_input", "42000"),
    ("hwmon/temp3_label", "mem"),
    ("hwmon/temp3_input", "40000"),
    ("gpu_busy_percent", "0"),
];

fn ids(probe: &Probe) -> Vec<&str> {
    probe.sensors.iter().map(|sensor| sensor.info().id.as_str()).collect()
}

fn sensor<'a>(probe: &'a mut Probe, id: &str) -> &'a mut dyn Sensor {
    let found = probe.sensors.iter_mut().find(|sensor| sensor.info().id == id);
    &mut **found.unwrap_or_else(|| panic!("no {id}"))
}

fn finding<'a>(probe: &'a Probe, source: &str) -> &'a Status {
    &probe.findings.iter().find(|finding| finding.source == source).unwrap().status
}

/// The channels and values of one sample.
fn values(sensor: &mut dyn Sensor, clock: &Clock) -> Vec<(Channel, f64)> {
    let batch = sample(sensor, clock);
    batch.readings.iter().map(|reading| (sensor.channels()[reading.channel].clone(), reading.value)).collect()
}

fn value(values: &[(Channel, f64)], scope: Scope, signal: Signal) -> Option<f64> {
    values.iter().find(|(channel, _)| (channel.scope, channel.signal) == (scope, signal)).map(|(_, value)| *value)
}

/// Converts millijoules to counts of the table.
fn counts(energy_mj: u64) -> u64 {
    (energy_mj << 16) / 1000
}

fn mi300x(energy: u64) -> FakeTree {
    let tree = FakeTree::new();
    tree.add(&MI300X, &INSTINCT_FILES);
    tree.write(3, "gpu_metrics", &table((1, 4), 288, &[(24, &energy.to_le_bytes())]));
    tree
}
