//! The report of a measured command: energy by device over all runs, gross and net of idle power.

use ergometer_statistics::Estimate;
use ergometer_telemetry::{
    DeviceId, EnergyError, EnergyEstimate, EnergyMeter, Method, Provenance, Scope, Timeline, WindowEnergy,
};
use ergometer_units::Window;
use serde::Serialize;

use super::figures::{as_mean, mean_of_runs};
use super::{EnergyFigures, Measurement};

/// The energy of a command.
#[derive(Debug, Serialize)]
pub struct MeasureReport {
    /// The command and its arguments.
    pub command: Vec<String>,
    /// The number of runs.
    pub repeat: usize,
    /// The sum over all measured devices; absent if no device is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<EnergyFigures>,
    /// Each device and scope.
    pub devices: Vec<DeviceFigures>,
    /// The devices with unknown energy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<UnknownEnergy>,
    /// The time of a run, in seconds.
    #[serde(serialize_with = "as_mean")]
    pub duration_s: Estimate,
    /// Each run.
    pub runs: Vec<RunReport>,
}

/// The energy of a device and scope.
#[derive(Debug, Serialize)]
pub struct DeviceFigures {
    /// The device.
    pub device: DeviceId,
    /// Its name.
    pub name: String,
    /// The part of the device.
    pub scope: Scope,
    /// Where the readings come from.
    pub provenance: Provenance,
    /// Whether it is in the total.
    pub summed: bool,
    /// How energy was estimated.
    pub method: String,
    /// The figures.
    #[serde(flatten)]
    pub figures: EnergyFigures,
}

/// A device with unknown energy.
#[derive(Debug, Serialize)]
pub struct UnknownEnergy {
    /// The device.
    pub device: DeviceId,
    /// Its name.
    pub name: String,
    /// The part of the device.
    pub scope: Scope,
    /// Why its energy is unknown.
    pub why: String,
}

/// One run of the command.
#[derive(Debug, Serialize)]
pub struct RunReport {
    /// When it started, in microseconds since the Unix epoch.
    pub start_us: i64,
    /// When it ended, in microseconds since the Unix epoch.
    pub end_us: i64,
    /// How long it took, in seconds.
    pub duration_s: f64,
    /// Its exit code.
    pub exit_code: u8,
    /// Its energy.
    pub energy: Option<EnergyReport>,
}

/// An energy with its 95 % interval.
#[derive(Debug, Serialize)]
pub struct EnergyReport {
    /// The energy, in joules.
    pub joules: f64,
    /// The low end of the interval.
    pub low: f64,
    /// The high end of the interval.
    pub high: f64,
    /// How it was estimated.
    pub method: Method,
    /// Notes about the estimate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl From<&EnergyEstimate> for EnergyReport {
    fn from(estimate: &EnergyEstimate) -> Self {
        Self {
            joules: estimate.joules.get(),
            low: estimate.low.get(),
            high: estimate.high.get(),
            method: estimate.method,
            notes: estimate.notes.iter().map(ToString::to_string).collect(),
        }
    }
}

impl MeasureReport {
    pub(super) fn new(measurement: &Measurement, meter: &EnergyMeter) -> Self {
        let Measurement { command, runs, rests, timeline } = measurement;
        let windows: Vec<Window> = runs.iter().map(|run| run.window).collect();
        let energies: Vec<_> = windows.iter().map(|&window| meter.energy(window)).collect();
        let all = |window: Window| meter.energy(window).measured.ok();
        let scopes = energies.first().map_or(&[][..], |energy| &energy.devices[..]);
        let devices = scopes.iter().filter_map(|scope| {
            let one = |window: Window| {
                let devices = meter.energy(window).devices;
                let same = devices.into_iter().find(|other| (other.device, other.scope) == (scope.device, scope.scope));
                same.and_then(|same| same.estimate.ok())
            };
            Some(DeviceFigures {
                device: scope.device,
                name: device_name(timeline, scope.device),
                scope: scope.scope,
                provenance: scope.provenance,
                summed: scope.summed,
                method: one(*windows.first()?)?.method.to_string(),
                figures: EnergyFigures::new(&windows, rests, &one)?,
            })
        });
        let lengths: Vec<f64> = windows.iter().map(|window| window.length().get()).collect();
        Self {
            command: command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            repeat: runs.len(),
            total: EnergyFigures::new(&windows, rests, &all),
            devices: devices.collect(),
            missing: (0..scopes.len()).filter_map(|index| UnknownEnergy::find(&energies, index, timeline)).collect(),
            duration_s: mean_of_runs(&lengths, None),
            runs: runs
                .iter()
                .zip(&energies)
                .map(|(run, energy)| RunReport {
                    start_us: run.window.start().micros_since_epoch(),
                    end_us: run.window.end().micros_since_epoch(),
                    duration_s: run.window.length().get(),
                    exit_code: run.exit_code(),
                    energy: energy.counted().ok().map(EnergyReport::from),
                })
                .collect(),
        }
    }

    /// Whether there are devices and all of them are modelled.
    #[must_use]
    pub fn is_modelled(&self) -> bool {
        let is_modelled = |device: &DeviceFigures| device.provenance == Provenance::Modelled;
        !self.devices.is_empty() && self.devices.iter().all(is_modelled)
    }

    /// The exit code of the first run that failed.
    #[must_use]
    pub fn failed_exit_code(&self) -> Option<u8> {
        self.runs.iter().map(|run| run.exit_code).find(|&code| code != 0)
    }
}

impl UnknownEnergy {
    /// Why the energy of a device and scope is unknown in one of the runs; `None` if it is known in all of them.
    fn find(runs: &[WindowEnergy], index: usize, timeline: &Timeline) -> Option<Self> {
        let mut scopes = runs.iter().zip(1..).filter_map(|(run, number)| Some((run.devices.get(index)?, number)));
        let (scope, error, number) =
            scopes.find_map(|(scope, number)| Some((scope, *scope.estimate.as_ref().err()?, number)))?;
        let why = match error {
            EnergyError::Outside { window, last, .. } if last < window.end() => {
                format!("its readings end {:.1} s before the command does", (window.end() - last).get())
            }
            EnergyError::Outside { window, first, .. } => {
                format!("its readings begin {:.1} s after the command does", (first - window.start()).get())
            }
            other => other.to_string(),
        };
        let why = if runs.len() > 1 { format!("in run {number}, {why}") } else { why };
        Some(Self { device: scope.device, name: device_name(timeline, scope.device), scope: scope.scope, why })
    }
}

fn device_name(timeline: &Timeline, device: DeviceId) -> String {
    timeline.device_name(device).unwrap_or_default().to_owned()
}
