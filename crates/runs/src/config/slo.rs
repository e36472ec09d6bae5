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
    /// The longest time between two token events of an answer (ITL).
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

    /// The limit of a metric, in seconds.
    #[must_use]
    pub const fn limit(&self, metric: LimitedMetric) -> Option<f64> {
        match metric {
            LimitedMetric::Ttft => self.ttft_s,
            LimitedMetric::TtftScheduled => self.ttft_scheduled_s,
            LimitedMetric::Tpot => self.tpot_s,
            LimitedMetric::Itl => self.itl_s,
            LimitedMetric::E2e => self.e2e_s,
        }
    }

    /// Sets the limit of a metric, in seconds. Returns the limit it had.
    pub const fn set_limit(&mut self, metric: LimitedMetric, seconds: f64) -> Option<f64> {
        let limit = match metric {
            LimitedMetric::Ttft => &mut self.ttft_s,
            LimitedMetric::TtftScheduled => &mut self.ttft_scheduled_s,
            LimitedMetric::Tpot => &mut self.tpot_s,
            LimitedMetric::Itl => &mut self.itl_s,
            LimitedMetric::E2e => &mut self.e2e_s,
        };
        limit.replace(seconds)
    }
}

/// A metric that can be limited, in the order of [`Slo`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitedMetric {
    /// TTFT.
    Ttft,
    /// TTFT from when the request was due.
    TtftScheduled,
    /// TPOT.
    Tpot,
    /// The longest time between two token events of an answer (ITL).
    Itl,
    /// E2E latency.
    E2e,
}

impl LimitedMetric {
    /// Every metric, in the order of [`Slo`].
    pub const ALL: [Self; 5] = [Self::Ttft, Self::TtftScheduled, Self::Tpot, Self::Itl, Self::E2e];

    /// The metric of this name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// The name on the command line and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ttft => "ttft",
            Self::TtftScheduled => "ttft_scheduled",
            Self::Tpot => "tpot",
            Self::Itl => "itl",
            Self::E2e => "e2e",
        }
    }

    /// The label in tables.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Ttft => "TTFT",
            Self::TtftScheduled => "TTFT from scheduled time",
            Self::Tpot => "TPOT",
            Self::Itl => "longest ITL",
            Self::E2e => "E2E latency",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_metric_has_its_own_limit_and_name() {
        let mut limits = Slo::default();
        for (metric, seconds) in LimitedMetric::ALL.into_iter().zip([0.5, 1.0, 1.5, 2.0, 2.5]) {
            assert_eq!(LimitedMetric::find(metric.name()), Some(metric));
            assert_eq!((limits.limit(metric), limits.set_limit(metric, 9.0)), (None, None));
            assert_eq!((limits.set_limit(metric, seconds), limits.limit(metric)), (Some(9.0), Some(seconds)));
            assert_eq!(json!(limits)[format!("{}_s", metric.name())], seconds);
        }
        assert_eq!(LimitedMetric::find("TTFT"), None);
    }
}
