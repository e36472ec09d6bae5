//! The latency limits of a good request.

use serde::{Deserialize, Serialize};

/// Latency limits of a good request, in seconds. `None` sets no limit.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Slo {
    /// TTFT.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_s: Option<f64>,
    /// TTFT from when the request was due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_scheduled_s: Option<f64>,
    /// TPOT.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpot_s: Option<f64>,
    /// The longest gap between two chunks (ITL).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub itl_s: Option<f64>,
    /// E2E latency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub e2e_s: Option<f64>,
}

impl Slo {
    /// Whether no limit is set.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}
