//! Which sensors a command uses: what the machine has, what the user brings along, narrowed by what was asked for.

use ergometer_telemetry::sensors::{self, external, modelled::Modelled};
use ergometer_telemetry::{DeviceKind, Finding, Sensor, Status};

use crate::arguments::SensorArguments;
use crate::exit::Failure;

/// The sensors to use, and what was found on the way.
pub(crate) struct Selected {
    pub(crate) sensors: Vec<Box<dyn Sensor>>,
    pub(crate) findings: Vec<Finding>,
}

/// Looks at the machine and keeps what was asked for.
pub(crate) fn select(arguments: &SensorArguments) -> Result<Selected, Failure> {
    let modelled = if arguments.no_model { Modelled::Off } else { Modelled::WhereUnmeasured };
    let mut probe = sensors::probe_machine(modelled);
    let first = sensors::next_index(&probe.sensors, DeviceKind::Meter);
    let opened = external::open_all(&arguments.sensor, first).map_err(Failure::failed)?;
    for sensor in &opened {
        let info = sensor.info();
        let (device, source) = (format!("{} ({})", info.name, info.device), info.id.clone());
        probe.find(device, source, Status::Works(format!("asked every {:.3} s", info.interval.as_secs_f64())));
    }
    probe.sensors.extend(opened);
    let sensors = sensors::select(probe.sensors, &arguments.device).map_err(Failure::usage)?;
    Ok(Selected { sensors, findings: probe.findings })
}
