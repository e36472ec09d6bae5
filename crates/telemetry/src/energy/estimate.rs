//! Defines an energy estimate: joules, a 95 % interval, the method and notes.

use std::fmt;

use ergometer_diagnostics::{Diagnostic, Hint, command, hint};
use ergometer_units::{Joules, Seconds, Timestamp, Window};
use serde::{Deserialize, Serialize};

use crate::{DeviceId, Provenance, Scope};

/// How an energy was estimated, from the most to the least accurate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Counter and power samples together, with the window's edges known as edges of activity.
    ActivityAware,
    /// Counter and power samples together, the window's edges unknown to the curve.
    CounterAndPower,
    /// The energy counter alone.
    Counter,
    /// Power samples alone.
    Power,
    /// A model of the device's power; nothing was measured.
    Modelled,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::ActivityAware => "activity_aware",
            Self::CounterAndPower => "counter_and_power",
            Self::Counter => "counter",
            Self::Power => "power",
            Self::Modelled => "modelled",
        })
    }
}

/// A caveat of an estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Note {
    /// The window is shorter than the resolution of its sensor: only the interval is meaningful.
    TooShort {
        /// The shortest window the sensor can resolve.
        resolution: Seconds,
    },
    /// The counter was reset in the window; the energy just before the reset is unknown.
    CounterReset,
    /// A counter step in the window was rejected as impossible.
    ImpossibleStep,
    /// The sensor had no readings for this long in the window.
    Gap(Seconds),
    /// A device has no estimate, so it is missing from the sum.
    Incomplete(DeviceId),
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { resolution } => {
                write!(f, "shorter than the sensor can resolve ({:.1} ms)", resolution.as_millis())
            }
            Self::CounterReset => f.write_str("the energy counter was reset inside the window"),
            Self::ImpossibleStep => f.write_str("an impossible step of the energy counter was rejected"),
            Self::Gap(gap) => write!(f, "the sensor had no readings for {:.2} s", gap.get()),
            Self::Incomplete(device) => write!(f, "{device} is not included: it has no data in the window"),
        }
    }
}

/// The energy of a window: `low..high` is a 95 % interval.
#[derive(Debug, Clone, PartialEq)]
pub struct EnergyEstimate {
    /// The energy.
    pub joules: Joules,
    /// The lower end of the interval.
    pub low: Joules,
    /// The upper end of the interval.
    pub high: Joules,
    /// The method.
    pub method: Method,
    /// The caveats.
    pub notes: Vec<Note>,
}

impl EnergyEstimate {
    /// Creates an estimate from the energy and half the width of its interval.
    pub(super) fn new(joules: Joules, margin: Joules, method: Method) -> Self {
        let low = (joules - margin).max(Joules::ZERO);
        Self { joules, low, high: joules + margin, method, notes: Vec::new() }
    }

    /// Half the width of the interval over the energy; infinite for no energy.
    #[must_use]
    pub fn relative_margin(&self) -> f64 {
        (self.high - self.low) / 2.0 / self.joules
    }

    /// The sum of several estimates, `None` without any. The interval bounds are added, because errors of sensors of
    /// the same model are correlated. The method is the least accurate one.
    #[must_use]
    pub fn sum<'a>(estimates: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        let mut estimates = estimates.into_iter();
        let first = estimates.next()?.clone();
        Some(estimates.fold(first, |mut sum, next| {
            sum.joules += next.joules;
            sum.low += next.low;
            sum.high += next.high;
            sum.method = sum.method.max(next.method);
            for note in &next.notes {
                if !sum.notes.contains(note) {
                    sum.notes.push(*note);
                }
            }
            sum
        }))
    }
}

/// The energy of one device and scope in a window.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceEnergy {
    /// The device.
    pub device: DeviceId,
    /// The part of it.
    pub scope: Scope,
    /// Whether it is measured or modelled, and how.
    pub provenance: Provenance,
    /// Whether it is part of the sum; a scope contained in another is not.
    pub summed: bool,
    /// The energy, or why there is none.
    pub estimate: Result<EnergyEstimate, EnergyError>,
}

/// The energy of a window on all devices. Measured and modelled energy are never added together.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowEnergy {
    /// The window.
    pub window: Window,
    /// The sum over the disjoint scopes of the measured devices.
    pub measured: Result<EnergyEstimate, EnergyError>,
    /// The sum over the modelled devices, if there are any.
    pub modelled: Option<EnergyEstimate>,
    /// Each device and scope.
    pub devices: Vec<DeviceEnergy>,
}

impl WindowEnergy {
    /// The measured energy, or the modelled energy if there is no sensor. A sensor without data for the window is an
    /// error, because the model of another device cannot replace it.
    pub fn counted(&self) -> Result<&EnergyEstimate, EnergyError> {
        match (&self.measured, &self.modelled) {
            (Ok(measured), _) => Ok(measured),
            (Err(EnergyError::NoSensor), Some(modelled)) => Ok(modelled),
            (Err(missing), _) => Err(*missing),
        }
    }
}

/// Why there is no energy for a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EnergyError {
    /// The window extends beyond the recorded data.
    #[error(
        "the window {}..{} us lies outside the data, which covers {}..{} us",
        .window.start().micros_since_epoch(), .window.end().micros_since_epoch(),
        .first.micros_since_epoch(), .last.micros_since_epoch()
    )]
    Outside {
        /// The requested window.
        window: Window,
        /// The start of the data.
        first: Timestamp,
        /// The end of the data.
        last: Timestamp,
    },
    /// No sensor measured energy or power.
    #[error("no sensor measured energy or power")]
    NoSensor,
    /// There are too few readings for an estimate.
    #[error("too few readings of energy or power")]
    TooFewReadings,
}

impl Diagnostic for EnergyError {
    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::Outside { .. } => hint!("give times in microseconds since the Unix epoch, inside the recording"),
            Self::NoSensor | Self::TooFewReadings => {
                hint!(command("doctor"), " lists the sensors that can be recorded")
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modelled_energy_counts_only_without_a_sensor() {
        let at = Timestamp::from_nanos_since_epoch;
        let window = Window::new(at(0), at(1_000_000_000)).unwrap();
        let estimate = |joules, method| EnergyEstimate::new(Joules::new(joules), Joules::new(1.0), method);
        let energy = |measured, modelled| WindowEnergy { window, measured, modelled, devices: Vec::new() };
        let model = || Some(estimate(5.0, Method::Modelled));
        let counted = |energy: &WindowEnergy| energy.counted().map(|found| found.joules.get());
        assert_eq!(counted(&energy(Ok(estimate(9.0, Method::Counter)), model())), Ok(9.0));
        assert_eq!(counted(&energy(Err(EnergyError::NoSensor), model())), Ok(5.0));
        assert_eq!(counted(&energy(Err(EnergyError::NoSensor), None)), Err(EnergyError::NoSensor));
        assert_eq!(counted(&energy(Err(EnergyError::TooFewReadings), model())), Err(EnergyError::TooFewReadings));
    }
}
