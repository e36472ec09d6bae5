//! The power of a laptop by its batteries, while they alone feed it: the last measured resort.
//!
//! In goes the folder of the power supplies; out comes one sensor for all batteries together, as a meter of the
//! machine. What always holds: no reading while a charger is plugged in, and no sensor and no finding where packages or
//! the supply are measured already. Fuel gauges renew their figure every 1 to 30 s and do not say when.

mod supply;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use self::supply::{Feeding, Found, find};
use super::gauges::{Gauge, Gauges};
use ergometer_telemetry::{
    Channel, DeviceId, DeviceKind, Probe, Provenance, Scope, Sensor, SensorInfo, Signal, Status,
};

/// Where to look, and what is known already.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The folder of the power supplies.
    pub root: PathBuf,
    /// The first free number of a meter.
    pub first_meter: u32,
    /// Whether packages or the supply are measured already. Then batteries are not looked for.
    pub is_measured: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { root: PathBuf::from("/sys/class/power_supply"), first_meter: 0, is_measured: false }
    }
}

impl Options {
    /// For a machine that has these sensors already.
    #[must_use]
    pub fn beside(sensors: &[Box<dyn Sensor>]) -> Self {
        let channels = || sensors.iter().flat_map(|sensor| sensor.channels());
        let measures = |channel: &Channel| {
            let is_machine = matches!(channel.scope, Scope::Package | Scope::Module | Scope::Psys);
            is_machine && !matches!(channel.provenance, Provenance::Modelled | Provenance::Gauge)
        };
        let first_meter = super::next_index(sensors, DeviceKind::Meter);
        Self { first_meter, is_measured: channels().any(measures), ..Self::default() }
    }
}

/// Fuel gauges renew their figure every second at best.
const INTERVAL: Duration = Duration::from_secs(1);
const SOURCE: &str = "battery";

/// Looks for batteries.
///
/// ```
/// let probe = ergometer_sensors::battery::probe(&Default::default());
/// assert!(probe.sensors.len() <= 1, "all batteries are one supply");
/// ```
#[must_use]
pub fn probe(options: &Options) -> Probe {
    let mut probe = Probe::default();
    if options.is_measured {
        return probe;
    }
    let Ok(Found { supply, unusable }) = find(&options.root) else { return probe };
    for (name, error) in unusable {
        let why = format!("it tells neither its power nor its current and voltage: {error}");
        probe.find(name, SOURCE, Status::Absent { why, fix: None });
    }
    let names: Vec<&str> = supply.batteries.iter().map(|battery| battery.name.as_str()).collect();
    if names.is_empty() || !probe.findings.is_empty() {
        // Without one of them, what is left is not the machine's power.
        return probe;
    }
    let device = DeviceId::meter(options.first_meter);
    let name = names.join(" and ");
    let status = match supply.feeding() {
        Ok(Feeding::Batteries) => Status::Works(
            "power of the whole machine, read every second; gauges renew it every 1 to 30 s, too slow for single queries"
                .to_owned(),
        ),
        Ok(Feeding::Other(how)) => Status::Limited {
            why: format!("a battery tells the machine's power only while it alone feeds it: {how}"),
            fix: Some("unplug the power supply".to_owned()),
        },
        Err(error) => Status::Absent { why: format!("cannot read its status: {error}"), fix: None },
    };
    let is_there = !matches!(status, Status::Absent { .. });
    probe.find(format!("{name} ({device})"), SOURCE, status);
    if is_there {
        let info =
            SensorInfo { id: format!("battery:{}", device.index), name: name.clone(), device, interval: INTERVAL };
        let channel = Channel {
            device,
            scope: Scope::Psys,
            signal: Signal::PowerAverage,
            provenance: Provenance::AveragedPower,
            update_period: None,
        };
        let gauge = Gauge { channel, what: format!("power of {name}"), source: Box::new(supply) };
        probe.sensors.push(Box::new(Gauges::new(info, vec![gauge], "the battery was taken out")));
    }
    probe
}
