//! Selects the sensors of a command: those of the machine and those of `--sensor`, filtered by `--device`.

use ergometer_diagnostics::{CommandLine, Diagnostic};
use ergometer_sensors::{external, modelled::ModelPolicy};
use ergometer_telemetry::{DeviceKind, Finding, Probe, Sensor, Status};

use crate::arguments::SensorArguments;
use crate::exit::Failure;

/// The selected sensors, and what the probe found.
pub(crate) struct SelectedSensors {
    pub(crate) sensors: Vec<Box<dyn Sensor>>,
    pub(crate) findings: Vec<Finding>,
}

/// Probes the machine and selects sensors. A `--sensor` that fails is an error.
pub(crate) fn select(arguments: &SensorArguments) -> Result<SelectedSensors, Failure> {
    let mut probe = probe_machine(arguments);
    let first = ergometer_sensors::next_index(&probe.sensors, DeviceKind::Meter);
    probe.sensors.extend(external::open_all(&arguments.sensor, first).map_err(Failure::failed)?);
    filter(probe, arguments)
}

/// Probes the machine and selects sensors. A `--sensor` that fails is a finding, for `ergo doctor`.
pub(crate) fn examine(arguments: &SensorArguments) -> Result<SelectedSensors, Failure> {
    let mut probe = probe_machine(arguments);
    let first = ergometer_sensors::next_index(&probe.sensors, DeviceKind::Meter);
    for opened in external::open_each(&arguments.sensor, first) {
        match opened {
            Ok(sensor) => {
                let info = sensor.info();
                let signals: Vec<String> = sensor.channels().iter().map(|channel| channel.signal.to_string()).collect();
                let gives = format!("{}, read every {:.3} s", signals.join(", "), info.interval.as_secs_f64());
                probe.find(format!("{} ({})", info.name, info.device), info.id.clone(), Status::Works(gives));
                probe.sensors.push(sensor);
            }
            Err(error) => {
                let fix = error.hint().map(|hint| hint.phrase(&CommandLine));
                probe.find("Your own meter", error.sensor, Status::Absent { why: error.cause.text, fix });
            }
        }
    }
    filter(probe, arguments)
}

fn probe_machine(arguments: &SensorArguments) -> Probe {
    ergometer_sensors::probe_machine(if arguments.no_model { ModelPolicy::Off } else { ModelPolicy::WhereUnmeasured })
}

fn filter(probe: Probe, arguments: &SensorArguments) -> Result<SelectedSensors, Failure> {
    let sensors = ergometer_sensors::select(probe.sensors, &arguments.device).map_err(Failure::usage)?;
    Ok(SelectedSensors { sensors, findings: probe.findings })
}
