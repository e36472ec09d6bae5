//! Computes modified z-scores of the logarithms of positive values.
//!
//! 0.6745 (x - median) / MAD, where MAD is the median of |x - median| (B. Iglewicz and D. Hoaglin, "How to Detect and
//! Handle Outliers", 1993). Median and MAD are robust to outliers, and the factor 0.6745 scales the score to standard
//! deviations of a normal distribution. Times and joules are skewed to the right, so the score uses their logarithms.

use ergometer_statistics as statistics;

/// A value with a larger score is an outlier (by the same authors).
pub(super) const LIMIT: f64 = 3.5;

/// Minimum number of values.
pub(super) const FEWEST: usize = 10;

/// The MAD of a normal distribution, in its standard deviations.
const NORMAL_MAD: f64 = 0.6745;

/// The median and spread of values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RobustScale {
    /// The median of the logarithms.
    median: f64,
    /// The median absolute deviation (MAD).
    mad: f64,
}

/// Why there is no score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoScore {
    /// There are too few values.
    TooFew,
    /// More than half of the values are the same, so the MAD is zero, and any other value would be infinitely far.
    NoSpread,
}

impl RobustScale {
    /// Computes median and MAD of the positive values; others are left out.
    pub(super) fn from_values(values: &[f64]) -> Result<Self, NoScore> {
        let logarithms: Vec<f64> = values
            .iter()
            .filter(|&&value| value > 0.0)
            .map(|value| value.ln())
            .filter(|value| value.is_finite())
            .collect();
        if logarithms.len() < FEWEST {
            return Err(NoScore::TooFew);
        }
        let median = statistics::median(logarithms.iter().copied()).ok_or(NoScore::TooFew)?;
        let distances = logarithms.iter().map(|value| (value - median).abs());
        let mad = statistics::median(distances).ok_or(NoScore::TooFew)?;
        // Logarithms of equal values differ at most in the last digit.
        if mad < 1e-12 { Err(NoScore::NoSpread) } else { Ok(Self { median, mad }) }
    }

    /// The median value.
    pub(super) fn value(self) -> f64 {
        self.median.exp()
    }

    /// The score of a value; `None` if it is not positive.
    pub(super) fn score(self, value: f64) -> Option<f64> {
        let score = NORMAL_MAD * (value.ln() - self.median) / self.mad;
        (value > 0.0 && score.is_finite()).then_some(score)
    }

    /// The values at which outliers begin, below and above.
    pub(super) fn fences(self) -> (f64, f64) {
        let reach = LIMIT * self.mad / NORMAL_MAD;
        ((self.median - reach).exp(), (self.median + reach).exp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// e^0 to e^10: the median of the logarithms is 5, and their distances are 0, 1, 1, 2, 2, 3, 3, … with a median of 3.
    #[test]
    fn the_score_follows_iglewicz_and_hoaglin() {
        let values: Vec<f64> = (0..=10).map(|power| f64::from(power).exp()).collect();
        let usual = RobustScale::from_values(&values).unwrap();
        assert!((usual.value() - 5_f64.exp()).abs() < 1e-9);
        assert!((usual.score(8_f64.exp()).unwrap() - 0.6745).abs() < 1e-12);
        let (low, high) = usual.fences();
        assert!((usual.score(high).unwrap() - 3.5).abs() < 1e-9 && (usual.score(low).unwrap() + 3.5).abs() < 1e-9);
    }

    #[test]
    fn values_without_spread_have_no_score() {
        let mut values = vec![3.0; 11];
        values.push(1e9);
        assert_eq!(RobustScale::from_values(&values), Err(NoScore::NoSpread));
        assert_eq!(RobustScale::from_values(&values[..9]), Err(NoScore::TooFew));
        let with_nothing: Vec<f64> = (0..20).map(|number| if number < 11 { 0.0 } else { f64::from(number) }).collect();
        assert_eq!(RobustScale::from_values(&with_nothing), Err(NoScore::TooFew), "zero has no logarithm");
        let usual = RobustScale::from_values(&(1..=20).map(f64::from).collect::<Vec<_>>()).unwrap();
        assert_eq!((usual.score(0.0), usual.score(-1.0), usual.score(f64::INFINITY)), (None, None, None));
    }
}
