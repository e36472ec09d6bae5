//! Prints the findings of the sensors that read kernel files, with some readings of each.
//!
//! `cargo run -p ergometer-sensors --example probe`

use ergometer_sensors::{battery, hwmon, rapl};
use ergometer_telemetry::{Batch, Clock, Probe};

fn main() {
    show("RAPL", rapl::probe(&rapl::Options::default()));
    let closed = rapl::Options { root: "/nowhere".into(), ..rapl::Options::default() };
    show("RAPL without powercap", rapl::probe(&closed));
    show("hwmon", hwmon::probe(&hwmon::Options::default()));
    show("batteries", battery::probe(&battery::Options::default()));
}

fn show(what: &str, mut probe: Probe) {
    println!("{what}: {} sensors", probe.sensors.len());
    for finding in &probe.findings {
        println!("  {} | {} | {:?}", finding.device, finding.source, finding.status);
    }
    let clock = Clock::start();
    for sensor in &mut probe.sensors {
        for _ in 0..5 {
            let mut batch = Batch::default();
            let result = sensor.sample(&clock, &mut batch);
            let values: Vec<String> = batch
                .readings
                .iter()
                .map(|reading| format!("{} = {:.6}", sensor.channels()[reading.channel], reading.value))
                .collect();
            println!("  {}: {} {:?} {result:?}", sensor.info().id, values.join(", "), batch.events);
            std::thread::sleep(sensor.interval());
        }
    }
}
