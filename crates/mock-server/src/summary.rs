//! Summarizes the times of many requests: TTFT and the gaps between chunks.
//!
//! Percentiles are exact, linear between order statistics. Only streams have gaps; chunks of one write have a gap of
//! zero. Fewer than 100 values have no p99.

use ergometer_statistics::{MINIMUM_FOR_P99, percentile};
use serde::Serialize;

use crate::truth::RequestTruth;

const NANOS_PER_MS: f64 = 1e6;

/// Percentiles of times, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Spread {
    /// The number of values.
    pub count: usize,
    /// The median.
    pub p50: Option<f64>,
    /// The 90th percentile.
    pub p90: Option<f64>,
    /// The 99th percentile; `None` for fewer than 100 values.
    pub p99: Option<f64>,
    /// The maximum.
    pub max: Option<f64>,
}

impl Spread {
    fn from_nanos(mut times_ns: Vec<i64>) -> Self {
        times_ns.sort_unstable();
        let at = |percent| Some(percentile(&times_ns, percent)? / NANOS_PER_MS);
        Self {
            count: times_ns.len(),
            p50: at(50.0),
            p90: at(90.0),
            p99: at(99.0).filter(|_| times_ns.len() >= MINIMUM_FOR_P99),
            max: at(100.0),
        }
    }
}

/// The times of all kept requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// From receipt of the request to its first token.
    pub ttft_ms: Spread,
    /// From each chunk with content to the next.
    pub gap_ms: Spread,
}

/// Collects the times of requests.
#[derive(Debug, Default)]
pub(crate) struct SummaryBuilder {
    ttft_ns: Vec<i64>,
    gap_ns: Vec<i64>,
}

impl SummaryBuilder {
    pub(crate) fn add(&mut self, truth: &RequestTruth) {
        self.ttft_ns.extend(truth.first_token_ns.map(|first_ns| first_ns - truth.received_ns));
        self.gap_ns.extend(truth.sent_ns.windows(2).map(|two| two[1] - two[0]));
    }

    pub(crate) fn finish(self) -> Summary {
        Summary { ttft_ms: Spread::from_nanos(self.ttft_ns), gap_ms: Spread::from_nanos(self.gap_ns) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_linear_between_order_statistics() {
        let spread = Spread::from_nanos((0..101).rev().map(|ms| ms * 1_000_000).collect());
        assert_eq!(
            (spread.count, spread.p50, spread.p90, spread.p99, spread.max),
            (101, Some(50.0), Some(90.0), Some(99.0), Some(100.0))
        );
        let spread = Spread::from_nanos(vec![2_000_000, 1_000_000]);
        assert_eq!((spread.p50, spread.p99, spread.max), (Some(1.5), None, Some(2.0)));
        assert_eq!(Spread::from_nanos(Vec::new()), Spread::default());
    }
}
