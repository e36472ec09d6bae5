//! Which sensors a command uses: what the machine has, narrowed by what the user asked for.

use std::convert::Infallible;
use std::str::FromStr;

use ergometer_telemetry::sensors::{self, modelled::Modelled};
use ergometer_telemetry::{DeviceId, DeviceKind, Finding, Provenance, Sensor};

use crate::arguments::SensorArguments;
use crate::exit::Failure;

/// What `--device` names: a device, all devices of a kind, or a sensor by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Selector {
    Device(DeviceId),
    Kind(DeviceKind),
    Sensor(String),
}

impl FromStr for Selector {
    type Err = Infallible;

    /// Whether a name exists is only known when the machine has been looked at.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "gpu" => Self::Kind(DeviceKind::Gpu),
            "cpu" => Self::Kind(DeviceKind::Cpu),
            "host" => Self::Kind(DeviceKind::Host),
            _ => text.parse().map_or_else(|_| Self::Sensor(text.to_owned()), Self::Device),
        })
    }
}

impl Selector {
    fn matches(&self, sensor: &dyn Sensor) -> bool {
        let info = sensor.info();
        match self {
            Self::Device(device) => info.device == *device,
            Self::Kind(kind) => info.device.kind == *kind,
            Self::Sensor(id) => info.id == *id,
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Device(device) => device.to_string(),
            Self::Kind(kind) => kind.name().to_owned(),
            Self::Sensor(id) => id.clone(),
        }
    }
}

/// The sensors to use, and what was found on the way.
pub(crate) struct Selected {
    pub(crate) sensors: Vec<Box<dyn Sensor>>,
    pub(crate) findings: Vec<Finding>,
}

/// Looks at the machine and keeps what was asked for.
pub(crate) fn select(arguments: &SensorArguments) -> Result<Selected, Failure> {
    let modelled = if arguments.no_model { Modelled::Off } else { Modelled::WhereUnmeasured };
    let probe = sensors::probe_machine(modelled);
    for selector in &arguments.device {
        if !probe.sensors.iter().any(|sensor| selector.matches(&**sensor)) {
            return Err(unknown(selector, &probe.sensors));
        }
    }
    let wanted = |sensor: &dyn Sensor| {
        arguments.device.is_empty() || arguments.device.iter().any(|selector| selector.matches(sensor))
    };
    let sensors = probe.sensors.into_iter().filter(|sensor| wanted(&**sensor)).collect();
    Ok(Selected { sensors, findings: probe.findings })
}

fn unknown(selector: &Selector, sensors: &[Box<dyn Sensor>]) -> Failure {
    let mut devices: Vec<DeviceId> = sensors.iter().map(|sensor| sensor.info().device).collect();
    devices.sort_unstable();
    devices.dedup();
    let devices: Vec<String> = devices.iter().map(ToString::to_string).collect();
    let ids: Vec<&str> = sensors.iter().map(|sensor| sensor.info().id.as_str()).collect();
    Failure::usage(format!("no device or sensor `{}` on this machine", selector.name())).hint(format!(
        "there are the devices {} and the sensors {}; `ergo doctor` says what is missing, and why",
        devices.join(", "),
        ids.join(", ")
    ))
}

/// Whether any of the sensors knows of energy or power, measured or modelled.
pub(crate) fn have_energy(sensors: &[Box<dyn Sensor>]) -> bool {
    sensors.iter().flat_map(|sensor| sensor.channels()).any(|channel| channel.provenance != Provenance::Gauge)
}
