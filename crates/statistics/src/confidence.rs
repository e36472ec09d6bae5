//! Confidence intervals that carry their level, and p values corrected for multiple comparisons.

use serde::Serialize;

/// The default confidence level.
pub const DEFAULT_LEVEL: f64 = 0.95;

/// An interval at a level that the caller chose. It contains the true value in a share `level` of repeated experiments,
/// if the assumptions of its method hold. Its ends have the unit of the value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ConfidenceInterval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The confidence level, between 0 and 1.
    pub level: f64,
}

impl ConfidenceInterval {
    /// Whether a value lies inside, ends included.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// P values corrected for multiple comparisons, in the same order (S. Holm, "A simple sequentially rejective multiple
/// test procedure", 1979). If every corrected value up to alpha counts as a difference, the probability of one or more
/// false differences is at most alpha.
#[must_use]
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut ascending: Vec<usize> = (0..p_values.len()).collect();
    ascending.sort_by(|&one, &other| p_values[one].total_cmp(&p_values[other]));
    let mut corrected = vec![1.0; p_values.len()];
    let mut largest = 0.0_f64;
    for (rank, index) in ascending.into_iter().enumerate() {
        largest = largest.max(p_values[index] * (p_values.len() - rank) as f64).min(1.0);
        corrected[index] = largest;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holm_by_hand() {
        let found = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in found.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - expected).abs() < 1e-12, "{found}, not {expected}");
        }
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
    }
}
