//! Measures the power of a laptop by its batteries while it runs on battery.
//!
//! All batteries together are one sensor, a meter of the whole machine. There are no readings while a charger is
//! plugged in. If CPU packages or the whole machine are already measured, there is no battery sensor and no finding.
//! Fuel gauges update their value every 1 to 30 s.

mod supply;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use ergometer_telemetry::{
    Channel, DeviceId, DeviceKind, Probe, Provenance, Scope, Sensor, SensorInfo, Signal, Status,
};

use self::supply::{PowerSource, Supplies, find};
use crate::gauges::{Gauge, Gauges};

/// Options of [`probe`].
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The folder of the power supplies.
    pub root: PathBuf,
    /// The index of the meter.
    pub first_meter: u32,
    /// Whether CPU packages or the whole machine are already measured. Then batteries are not used.
    pub is_measured: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { root: PathBuf::from("/sys/class/power_supply"), first_meter: 0, is_measured: false }
    }
}

impl Options {
    /// The options for a machine that already has these sensors.
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

/// Fuel gauges update at most once a second.
const INTERVAL: Duration = Duration::from_secs(1);
const SOURCE: &str = "battery";

/// Opens the batteries of this machine as one sensor.
///
/// ```
/// let probe = ergometer_sensors::battery::probe(&Default::default());
/// assert!(probe.sensors.len() <= 1, "all batteries are one sensor");
/// ```
#[must_use]
pub fn probe(options: &Options) -> Probe {
    let mut probe = Probe::default();
    if options.is_measured {
        return probe;
    }
    let Ok(Supplies { supply, unusable }) = find(&options.root) else { return probe };
    for (name, error) in unusable {
        let why = format!("the battery reports neither power nor current and voltage: {error}");
        probe.find(name, SOURCE, Status::Absent { why, fix: None });
    }
    let names: Vec<&str> = supply.batteries.iter().map(|battery| battery.name.as_str()).collect();
    if names.is_empty() || !probe.findings.is_empty() {
        // If one battery is missing, the sum is not the machine's power.
        return probe;
    }
    let device = DeviceId::meter(options.first_meter);
    let name = names.join(" and ");
    let status = match supply.power_source() {
        Ok(PowerSource::Batteries) => Status::Works(
            "power of the whole machine, read every second; the battery updates it every 1 to 30 s, too slow for single queries"
                .to_owned(),
        ),
        Ok(PowerSource::Other(how)) => Status::Limited {
            why: format!("the battery measures the machine's power only while no charger is connected: {how}"),
            fix: Some("unplug the power supply".to_owned()),
        },
        Err(error) => Status::Absent { why: format!("cannot read the battery status: {error}"), fix: None },
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
        probe.sensors.push(Box::new(Gauges::new(info, vec![gauge], "the battery was removed")));
    }
    probe
}
