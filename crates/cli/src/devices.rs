//! Which sensors a command uses: what the machine has, narrowed by what the user asked for.

use ergometer_telemetry::sensors::{self, modelled::Modelled};
use ergometer_telemetry::{Finding, Sensor};

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
    let probe = sensors::probe_machine(modelled);
    let sensors = sensors::select(probe.sensors, &arguments.device).map_err(Failure::usage)?;
    Ok(Selected { sensors, findings: probe.findings })
}
