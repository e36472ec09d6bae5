//! Statistics of repeated times: mean with interval, median, 90th percentile, minimum and maximum.

use ergometer_statistics::{Mean, percentile};
use ergometer_units::Picos;
use serde::Serialize;

use super::cell::whole;
use crate::figures::{digits, margin, time_unit};

/// Statistics of repeated times, in picoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Spread {
    #[serde(serialize_with = "whole")]
    pub(super) mean: f64,
    #[serde(serialize_with = "whole")]
    pub(super) median: f64,
    /// The 90th percentile.
    #[serde(serialize_with = "whole")]
    pub(super) p90: f64,
    pub(super) min: i64,
    pub(super) max: i64,
    /// Half of the 95 % interval of the mean; absent below two times.
    pub(super) half_width: Option<f64>,
}

impl Spread {
    /// `None` without times.
    pub(super) fn from_times(times: &[Picos]) -> Option<Self> {
        let mut sorted: Vec<i64> = times.iter().map(|time| time.get()).collect();
        sorted.sort_unstable();
        let values: Vec<f64> = sorted.iter().map(|&time| time as f64).collect();
        let mean = Mean::from_values(&values)?;
        Some(Self {
            mean: mean.value,
            median: percentile(&sorted, 50.0)?,
            p90: percentile(&sorted, 90.0)?,
            min: *sorted.first()?,
            max: *sorted.last()?,
            half_width: mean.half_width,
        })
    }

    /// `1.490 ms ±0.004`
    pub(super) fn shown(&self) -> String {
        let (factor, unit) = time_unit(self.mean);
        let mean = self.mean / factor;
        match self.half_width {
            Some(half) => format!("{} {unit} {}", digits(mean), margin_of(half / factor, mean)),
            None => format!("{} {unit}", digits(mean)),
        }
    }
}

/// Formats half of an interval with the precision of the mean, and at least one significant digit.
fn margin_of(half: f64, mean: f64) -> String {
    let usual = margin(half, mean);
    if half == 0.0 || usual.contains(|character: char| character.is_ascii_digit() && character != '0') {
        return usual;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some tens at most")]
    let decimals = (-half.log10()).ceil().clamp(0.0, 12.0) as usize;
    format!("±{half:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_run_has_no_interval() {
        let spread =
            |times: &[i64]| Spread::from_times(&times.iter().map(|&time| Picos::new(time)).collect::<Vec<_>>());
        assert_eq!(spread(&[]), None);
        let one = spread(&[1_500_000]).unwrap();
        assert_eq!((one.half_width, one.shown()), (None, "1.500 us".to_owned()));
        let three = spread(&[9_000_000, 11_000_000, 10_000_000]).unwrap();
        assert_eq!((three.median, three.min, three.max), (10_000_000.0, 9_000_000, 11_000_000));
        assert_eq!(three.shown(), "10.00 us ±2.48");
        assert_eq!(margin_of(0.0312, 500.3), "±0.03");
        assert_eq!(margin_of(0.0, 500.3), "±0.0");
    }
}
