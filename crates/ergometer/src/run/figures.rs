//! Provisional latencies for the live view. The exact figures are computed when the run is finalized.

use ergometer_units::Seconds;
use hdrhistogram::Histogram;

use super::progress::Percentiles;
use ergometer_runs::{Exchange, RequestTimes};

/// Latencies of the completed requests, in microseconds.
#[derive(Debug)]
pub(super) struct Figures {
    ttft: Option<Histogram<u64>>,
    itl: Option<Histogram<u64>>,
}

/// The longest latency recorded: one hour.
const LONGEST_US: u64 = 3_600_000_000;

impl Default for Figures {
    fn default() -> Self {
        // Two significant digits: 20 KB each.
        let histogram = || Histogram::new_with_bounds(1, LONGEST_US, 2).ok();
        Self { ttft: histogram(), itl: histogram() }
    }
}

impl Figures {
    pub(super) fn take(&mut self, exchange: &Exchange) {
        let transcript = &exchange.transcript;
        let Some(took) = RequestTimes::from(exchange).ttft() else { return };
        if let Some(ttft) = &mut self.ttft {
            ttft.saturating_record(micros(took));
        }
        if let Some(itl) = &mut self.itl {
            transcript.gaps_ns().for_each(|nanos| itl.saturating_record(nanos / 1000));
        }
    }

    pub(super) fn ttft(&self) -> Option<Percentiles> {
        percentiles(self.ttft.as_ref()?)
    }

    pub(super) fn itl(&self) -> Option<Percentiles> {
        percentiles(self.itl.as_ref()?)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of a float saturates")]
fn micros(seconds: Seconds) -> u64 {
    (seconds.get() * 1e6) as u64
}

fn percentiles(histogram: &Histogram<u64>) -> Option<Percentiles> {
    let at = |quantile| Seconds::new(histogram.value_at_quantile(quantile) as f64 / 1e6);
    (!histogram.is_empty()).then(|| Percentiles { p50: at(0.5), p99: at(0.99) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::testing::exchange;

    #[test]
    fn percentiles_match_the_chunk_times() {
        let mut figures = Figures::default();
        assert_eq!((figures.ttft(), figures.itl()), (None, None));
        // Chunks arrive 10, 20 and 25 ms after sending.
        for request in 0..10 {
            figures.take(&exchange(request, 1_000_000));
        }
        let near = |found: Seconds, wanted: f64| (found.get() - wanted).abs() < 0.01 * wanted;
        let (ttft, itl) = (figures.ttft().unwrap(), figures.itl().unwrap());
        assert!(near(ttft.p50, 0.010) && near(ttft.p99, 0.010), "{ttft:?}");
        assert!(near(itl.p50, 0.005) && near(itl.p99, 0.010), "{itl:?}");
    }
}
