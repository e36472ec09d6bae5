//! Which sensors a command uses: what the machine has, what the user brings along, narrowed by what was asked for.

use ergometer_diagnostics::{CommandLine, Diagnostic};
use ergometer_sensors::{external, modelled::Modelled};
use ergometer_telemetry::{DeviceKind, Finding, Probe, Sensor, Status};

use crate::arguments::SensorArguments;
use crate::bridge::diagnosed;
use crate::exit::Failure;

/// The sensors to use, and what was found on the way.
pub(crate) struct Selected {
    pub(crate) sensors: Vec<Box<dyn Sensor>>,
    pub(crate) findings: Vec<Finding>,
}

/// Looks at the machine and keeps what was asked for.
pub(crate) fn select(arguments: &SensorArguments) -> Result<Selected, Failure> {
    let mut probe = look(arguments);
    let first = ergometer_sensors::next_index(&probe.sensors, DeviceKind::Meter);
    probe
        .sensors
        .extend(external::open_all(&arguments.sensor, first).map_err(|error| Failure::failed(diagnosed!(error)))?);
    narrow(probe, arguments)
}

/// The same, for who wants to know what does not work: a meter of the user's own that gives no value is a finding.
pub(crate) fn examine(arguments: &SensorArguments) -> Result<Selected, Failure> {
    let mut probe = look(arguments);
    let first = ergometer_sensors::next_index(&probe.sensors, DeviceKind::Meter);
    for opened in external::open_each(&arguments.sensor, first) {
        match opened {
            Ok(sensor) => {
                let info = sensor.info();
                let signals: Vec<String> = sensor.channels().iter().map(|channel| channel.signal.to_string()).collect();
                let gives = format!("{}, asked every {:.3} s", signals.join(", "), info.interval.as_secs_f64());
                probe.find(format!("{} ({})", info.name, info.device), info.id.clone(), Status::Works(gives));
                probe.sensors.push(sensor);
            }
            Err(error) => {
                let fix = error.hint().map(|hint| hint.phrase(&CommandLine));
                probe.find("Your own meter", error.sensor, Status::Absent { why: error.cause.text, fix });
            }
        }
    }
    narrow(probe, arguments)
}

fn look(arguments: &SensorArguments) -> Probe {
    ergometer_sensors::probe_machine(if arguments.no_model { Modelled::Off } else { Modelled::WhereUnmeasured })
}

fn narrow(probe: Probe, arguments: &SensorArguments) -> Result<Selected, Failure> {
    let sensors = ergometer_sensors::select(probe.sensors, &arguments.device)
        .map_err(|error| Failure::usage(diagnosed!(error)))?;
    Ok(Selected { sensors, findings: probe.findings })
}
