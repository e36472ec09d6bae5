//! The state of an idle machine, and the wait for it between two runs.

use std::collections::BTreeMap;

use ergometer_telemetry::DeviceId;
use serde::{Deserialize, Serialize};

/// How far above what it was a temperature may be. Drivers tell whole degrees.
const DEGREES: f64 = 2.0;

/// How far above what it was power may be: this share of it, or so many watts, whichever is more.
const SHARE: f64 = 0.05;
const WATTS: f64 = 2.0;

/// A machine as it is when nothing is asked of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Rest {
    /// The temperature of each device that has one, in degrees Celsius.
    pub temperature_c: BTreeMap<DeviceId, f64>,
    /// The power of all devices that count, in watts.
    pub power_w: Option<f64>,
}

impl Rest {
    /// Whether nothing tells.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.temperature_c.is_empty() && self.power_w.is_none()
    }

    /// Whether the machine is like this again. Cooler is as good; what does not tell any more is not.
    #[must_use]
    pub fn is_back(&self, now: &Self) -> bool {
        let is_cool = |(device, then): (&DeviceId, &f64)| {
            now.temperature_c.get(device).is_some_and(|degrees| *degrees <= then + DEGREES)
        };
        let is_low = |then: f64| now.power_w.is_some_and(|watts| watts <= then + WATTS.max(SHARE * then));
        self.temperature_c.iter().all(is_cool) && self.power_w.is_none_or(is_low)
    }
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cooling {
    /// The machine is as it was.
    Reached,
    /// It was not, and the time for it was over.
    GivenUp,
    /// The user stopped it.
    Interrupted,
}

/// A wait that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CooledDown {
    /// How.
    pub ended: Cooling,
    /// After how many seconds.
    pub after_s: f64,
    /// What the machine was like then.
    #[serde(flatten)]
    pub rest: Rest,
}
