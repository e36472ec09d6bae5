//! The idle state of a machine, and the cooldown to it between two runs.

use std::collections::BTreeMap;

use ergometer_telemetry::DeviceId;
use serde::{Deserialize, Serialize};

/// The tolerance of temperatures, in degrees. Drivers report whole degrees.
const DEGREES: f64 = 2.0;

/// The tolerance of power: this share or this many watts, whichever is more.
const SHARE: f64 = 0.05;
const WATTS: f64 = 2.0;

/// The state of an idle machine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct IdleState {
    /// The temperature of each device that reports one, in degrees Celsius.
    pub temperature_c: BTreeMap<DeviceId, f64>,
    /// The power of the counted devices, in watts.
    pub power_w: Option<f64>,
}

impl IdleState {
    /// Whether no sensor reported a value.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.temperature_c.is_empty() && self.power_w.is_none()
    }

    /// Whether the machine is back in this state. It may be cooler, but every value of this state must be known again.
    #[must_use]
    pub fn is_back(&self, now: &Self) -> bool {
        let is_cool = |(device, then): (&DeviceId, &f64)| {
            now.temperature_c.get(device).is_some_and(|degrees| *degrees <= then + DEGREES)
        };
        let is_low = |then: f64| now.power_w.is_some_and(|watts| watts <= then + WATTS.max(SHARE * then));
        self.temperature_c.iter().all(is_cool) && self.power_w.is_none_or(is_low)
    }
}

/// How a cooldown ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CooldownOutcome {
    /// The machine is back in its idle state.
    Reached,
    /// The time limit was reached.
    GivenUp,
    /// The user stopped it.
    Interrupted,
}

/// A cooldown that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cooldown {
    /// How it ended.
    pub ended: CooldownOutcome,
    /// How long it took, in seconds.
    pub after_s: f64,
    /// The state of the machine at its end.
    #[serde(flatten)]
    pub rest: IdleState,
}
