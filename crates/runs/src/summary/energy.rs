//! The energy of a run: of each device, of all measured devices, of all modelled ones, and the balance of each.

use std::fmt;

use ergometer_statistics::Estimate;
use ergometer_telemetry::{DeviceId, Provenance, Scope};
use serde::{Deserialize, Serialize};

/// The source of energy values. Measured and modelled energy are never added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnergySource {
    /// A sensor.
    Measured,
    /// A model of CPU utilization.
    Modelled,
}

impl EnergySource {
    /// Its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Modelled => "modelled",
        }
    }
}

impl fmt::Display for EnergySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Energy over the run's duration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "two totals and their parts")]
pub struct EnergySummary {
    pub measured: Option<EnergyTotals>,
    pub modelled: Option<EnergyTotals>,
    #[serde(default)]
    pub devices: Vec<DeviceSummary>,
    #[serde(default)]
    pub queries_without_energy: u64,
    /// The processor time of the threads that ran the embedded model.
    pub processor_s: Option<f64>,
}

impl EnergySummary {
    /// The totals of one source.
    #[must_use]
    pub const fn of_source(&self, source: EnergySource) -> Option<&EnergyTotals> {
        match source {
            EnergySource::Measured => self.measured.as_ref(),
            EnergySource::Modelled => self.modelled.as_ref(),
        }
    }
}

/// The energy of several devices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "units are in the names")]
pub struct EnergyTotals {
    pub gross_j: Estimate,
    pub net_j: Option<Estimate>,
    pub mean_power_w: f64,
    /// The mean over the queries that have energy.
    pub gross_j_per_query: Estimate,
    pub net_j_per_query: Option<Estimate>,
    pub gross_j_per_output_token: Option<f64>,
    pub net_j_per_output_token: Option<f64>,
    pub gross_j_per_token: Option<f64>,
    pub net_j_per_token: Option<f64>,
    /// Net joules of prompts, over the input tokens that were computed (not taken from a cache).
    #[serde(default)]
    pub prefill_j_per_input_token: Option<f64>,
    /// Net joules of outputs, over output tokens.
    #[serde(default)]
    pub decode_j_per_output_token: Option<f64>,
    #[serde(default)]
    pub balance: BalanceSummary,
}

/// The energy of one device and scope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "units are in the names")]
pub struct DeviceSummary {
    pub device: DeviceId,
    pub name: String,
    pub scope: Scope,
    pub provenance: Provenance,
    pub summed: bool,
    /// The known energy; `None` if the device has no data while requests ran.
    pub gross_j: Option<Estimate>,
    #[serde(default)]
    pub idle_w: Vec<f64>,
    /// `None` if the energy is unknown.
    pub balance: Option<BalanceSummary>,
}

impl DeviceSummary {
    /// Whether its joules are part of the totals of a source.
    #[must_use]
    pub fn counts_for(&self, source: EnergySource) -> bool {
        match source {
            EnergySource::Measured => self.summed,
            EnergySource::Modelled => self.provenance == Provenance::Modelled,
        }
    }
}

/// The energy balance: requests + idle + unattributed = meter.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "units are in the names")]
pub struct BalanceSummary {
    pub requests_j: f64,
    pub idle_j: f64,
    pub unattributed_j: f64,
    pub meter_j: f64,
    /// The energy of requests without a record: cancelled requests, requests lost when the run was killed, and requests
    /// that reach outside the data.
    pub unrecorded_j: f64,
    /// The energy of attempts that were retried. It is in no record either.
    pub retried_j: f64,
    /// The time without data.
    pub unknown_s: f64,
}

impl std::ops::Add for BalanceSummary {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            requests_j: self.requests_j + other.requests_j,
            idle_j: self.idle_j + other.idle_j,
            unattributed_j: self.unattributed_j + other.unattributed_j,
            meter_j: self.meter_j + other.meter_j,
            unrecorded_j: self.unrecorded_j + other.unrecorded_j,
            retried_j: self.retried_j + other.retried_j,
            unknown_s: self.unknown_s + other.unknown_s,
        }
    }
}
