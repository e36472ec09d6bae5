//! Fits a trend to values over time: Theil-Sen slope with its interval, and a verdict.
//!
//! Consecutive readings are autocorrelated, so an interval from single readings would be far too narrow. Values are therefore
//! averaged in at most 30 blocks of equal time, and the line is fitted to the blocks. If neighbouring blocks are still
//! correlated (correlation r), the interval is widened by √((1 + r) / (1 - r)) to account for the smaller effective sample
//! size (S. Yue and C. Wang, "The Mann-Kendall test modified by effective sample size", 2004).

use ergometer_statistics::{Interval, TheilSen, median};
use serde::Serialize;

/// Maximum number of blocks.
const BLOCKS: usize = 30;

/// Minimum number of blocks for a verdict.
pub(super) const FEWEST_BLOCKS: usize = 8;

/// Minimum mean number of values per block.
pub(super) const VALUES_PER_BLOCK: usize = 3;

/// The correlation of neighbouring blocks is capped here, because 30 blocks do not determine it better.
const MOST_CORRELATED: f64 = 0.9;

/// How the values of a block are averaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockAverage {
    /// The mean, for readings.
    Mean,
    /// The median, for queries, which have outliers.
    Median,
}

/// The smallest change that counts as drift.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum SmallestChange {
    /// In the unit of the values.
    Absolute(f64),
    /// As a share of the median.
    Share(f64),
}

/// How to fit a trend.
#[derive(Debug, Clone, Copy)]
pub(super) struct TrendOptions {
    pub(super) average: BlockAverage,
    pub(super) smallest_change: SmallestChange,
    /// Length of the time range in seconds. Times of values count from its start.
    pub(super) seconds: f64,
}

/// A fitted trend.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Trend {
    /// Number of values.
    pub(super) values: usize,
    /// Number of blocks.
    pub(super) blocks: usize,
    /// The means of the first and the last tenth of the time.
    pub(super) first_tenth: Option<f64>,
    pub(super) last_tenth: Option<f64>,
    pub(super) median: Option<f64>,
    pub(super) per_minute: Option<f64>,
    pub(super) per_minute_interval: Option<Interval>,
    /// Slope x length of the time range.
    pub(super) change: Option<f64>,
    /// Correlation of the residuals of neighbouring blocks.
    #[serde(rename = "alike")]
    pub(super) correlation: Option<f64>,
    pub(super) verdict: Verdict,
}

/// Whether there is drift.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// A significant increase that is large enough to matter.
    Rises,
    /// A significant decrease that is large enough to matter.
    Falls,
    /// A significant but small change.
    Small,
    /// There is no evidence of drift.
    Steady,
    /// Too few values for a verdict.
    TooFew,
}

impl Verdict {
    pub(super) const fn is_drift(self) -> bool {
        matches!(self, Self::Rises | Self::Falls)
    }

    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Rises => "rises",
            Self::Falls => "falls",
            Self::Small => "small change",
            Self::Steady => "no evidence of drift",
            Self::TooFew => "too few values",
        }
    }
}

impl Trend {
    /// Fits a trend to (seconds since the start, value) points in any order.
    pub(super) fn fit(points: &[(f64, f64)], options: TrendOptions) -> Self {
        let blocks = blocks(points, options);
        let mean_between = |from: f64, to: f64| {
            let inside = points.iter().filter(|(at, _)| (from..=to).contains(at)).map(|point| point.1);
            average(inside.collect(), BlockAverage::Mean)
        };
        let mut trend = Self {
            values: points.len(),
            blocks: blocks.len(),
            first_tenth: mean_between(0.0, 0.1 * options.seconds),
            last_tenth: mean_between(0.9 * options.seconds, options.seconds),
            median: average(points.iter().map(|point| point.1).collect(), BlockAverage::Median),
            per_minute: None,
            per_minute_interval: None,
            change: None,
            correlation: None,
            verdict: Verdict::TooFew,
        };
        if blocks.len() < FEWEST_BLOCKS {
            return trend;
        }
        let Ok(line) = TheilSen::fit(&blocks) else { return trend };
        let correlation = neighbours(&blocks, &line);
        let factor = ((1.0 + correlation) / (1.0 - correlation)).sqrt();
        // Values that are all the same have no interval, and do not drift.
        let interval = line.interval.map(|found| Interval {
            low: line.slope - factor * (line.slope - found.low),
            high: line.slope + factor * (found.high - line.slope),
        });
        let change = line.slope * options.seconds;
        let smallest_change = match options.smallest_change {
            SmallestChange::Absolute(least) => least,
            SmallestChange::Share(share) => share * trend.median.unwrap_or(0.0).abs(),
        };
        trend.correlation = Some(correlation);
        trend.per_minute = Some(line.slope * 60.0);
        trend.per_minute_interval = interval.map(|found| Interval { low: found.low * 60.0, high: found.high * 60.0 });
        trend.change = Some(change);
        trend.verdict = match interval {
            None => Verdict::Steady,
            Some(interval) if interval.contains(0.0) => Verdict::Steady,
            Some(_) if change.abs() <= smallest_change => Verdict::Small,
            Some(_) if change > 0.0 => Verdict::Rises,
            Some(_) => Verdict::Falls,
        };
        trend
    }
}

/// Averages the values of each block, at the mean of their times. Empty blocks are left out.
fn blocks(points: &[(f64, f64)], options: TrendOptions) -> Vec<(f64, f64)> {
    let count = BLOCKS.min(points.len() / VALUES_PER_BLOCK);
    if count == 0 || options.seconds <= 0.0 {
        return Vec::new();
    }
    let mut blocks: Vec<(Vec<f64>, Vec<f64>)> = vec![(Vec::new(), Vec::new()); count];
    for &(at, value) in points.iter().filter(|(at, value)| at.is_finite() && value.is_finite()) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the blocks")]
        let place = (at / options.seconds * count as f64).clamp(0.0, count as f64 - 1.0) as usize;
        blocks[place].0.push(at);
        blocks[place].1.push(value);
    }
    let of_block = |(times, values): (Vec<f64>, Vec<f64>)| {
        Some((average(times, BlockAverage::Mean)?, average(values, options.average)?))
    };
    blocks.into_iter().filter_map(of_block).collect()
}

fn average(values: Vec<f64>, kind: BlockAverage) -> Option<f64> {
    let count = values.len() as f64;
    match kind {
        BlockAverage::Mean => (count > 0.0).then(|| values.iter().map(|value| value / count).sum()),
        BlockAverage::Median => median(values),
    }
}

/// The correlation of the residuals of neighbouring blocks, at least 0: a negative one must not narrow the interval.
fn neighbours(blocks: &[(f64, f64)], line: &TheilSen) -> f64 {
    let rests: Vec<f64> = blocks.iter().map(|(at, value)| value - line.intercept - line.slope * at).collect();
    let squares: f64 = rests.iter().map(|rest| rest * rest).sum();
    let products: f64 = rests.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let correlation = products / squares;
    if correlation.is_finite() { correlation.clamp(0.0, MOST_CORRELATED) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: TrendOptions =
        TrendOptions { average: BlockAverage::Mean, smallest_change: SmallestChange::Share(0.01), seconds: 300.0 };

    /// Evenly spaced over five minutes: `base` + slope per minute + noise with an autocorrelation of `memory`.
    fn readings(count: u32, slope: f64, memory: f64, seed: u64) -> Vec<(f64, f64)> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut uniform = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
        };
        let mut noise = 0.0;
        let each = (0..count).map(|number| {
            noise = memory * noise + uniform();
            let at = 300.0 * f64::from(number) / f64::from(count);
            (at, 100.0 + slope * at / 60.0 + noise)
        });
        each.collect()
    }

    #[test]
    fn a_slope_is_found_with_its_interval() {
        let found = Trend::fit(&readings(1500, 2.0, 0.0, 3), OPTIONS);
        assert_eq!((found.blocks, found.verdict), (30, Verdict::Rises));
        let interval = found.per_minute_interval.unwrap();
        assert!(interval.contains(2.0) && interval.width() < 0.2, "{interval:?}");
        assert!((found.change.unwrap() - 10.0).abs() < 0.5);
        assert!((found.last_tenth.unwrap() - found.first_tenth.unwrap() - 9.0).abs() < 0.3);
        assert_eq!(Trend::fit(&readings(1500, -2.0, 0.0, 3), OPTIONS).verdict, Verdict::Falls);
        assert_eq!(Trend::fit(&readings(1500, 0.1, 0.0, 3), OPTIONS).verdict, Verdict::Small, "0.5 of 100");
    }

    /// Of 200 series of five minutes without drift, whose noise is correlated over 25 s, the interval excludes zero in
    /// 82 % if fitted to single readings, and in 13 % if fitted to blocks.
    #[test]
    fn autocorrelated_readings_are_no_evidence_of_drift() {
        let zero_is_out = |points: &[(f64, f64)], interval: fn(&[(f64, f64)]) -> Option<Interval>| {
            interval(points).is_some_and(|interval| !interval.contains(0.0))
        };
        let naive = |points: &[(f64, f64)]| TheilSen::fit(points).ok()?.interval;
        let ours = |points: &[(f64, f64)]| Trend::fit(points, OPTIONS).per_minute_interval;
        let all: Vec<Vec<(f64, f64)>> = (1..=200).map(|seed| readings(600, 0.0, 0.98, seed)).collect();
        let share = |interval| all.iter().filter(|points| zero_is_out(points, interval)).count() as f64 / 200.0;
        let (each, blocks) = (share(naive), share(ours));
        assert!(each > 0.5, "reading by reading: {each}");
        assert!(blocks < 0.2, "in blocks: {blocks}");
    }

    #[test]
    fn constant_or_few_values_do_not_drift() {
        let flat: Vec<(f64, f64)> = (0..300).map(|second| (f64::from(second), 40.0)).collect();
        assert_eq!(Trend::fit(&flat, OPTIONS).verdict, Verdict::Steady);
        assert_eq!(Trend::fit(&flat[..20], OPTIONS).verdict, Verdict::TooFew);
        let nothing = Trend::fit(&[], TrendOptions { seconds: 0.0, ..OPTIONS });
        assert_eq!((nothing.verdict, nothing.first_tenth, nothing.median), (Verdict::TooFew, None, None));
    }

    #[test]
    fn one_stall_among_queries_is_no_drift() {
        let mut points: Vec<(f64, f64)> =
            (0..300).map(|second| (f64::from(second), 20.0 + f64::from(second % 7))).collect();
        points[290..].iter_mut().for_each(|point| point.1 *= 50.0);
        let found = Trend::fit(&points, TrendOptions { average: BlockAverage::Median, ..OPTIONS });
        assert!(!found.verdict.is_drift(), "{found:?}");
    }
}
