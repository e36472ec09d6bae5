//! What a request must keep to, to count as good.

use serde::{Deserialize, Serialize};

/// The most a request may take for what, in seconds. `None` sets no limit.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Slo {
    /// To its first token, from sending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_s: Option<f64>,
    /// To its first token, from when it was due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_scheduled_s: Option<f64>,
    /// For each further token, on average.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpot_s: Option<f64>,
    /// Between any two chunks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub itl_s: Option<f64>,
    /// To its last token, from sending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub e2e_s: Option<f64>,
}

impl Slo {
    /// Whether there is no limit at all.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}
