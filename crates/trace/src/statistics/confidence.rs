//! How sure a statement is: intervals with their level, and p values corrected for the number of questions asked.

use serde::Serialize;

/// The level of an interval where nobody asked for another.
pub const DEFAULT_LEVEL: f64 = 0.95;

/// An interval that holds the true value in `level` of all experiments like this one, if the assumptions of its method
/// hold. The unit of its ends is that of the value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Between 0 and 1.
    pub level: f64,
}

impl Interval {
    /// Whether a value is inside; the ends are.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// P values corrected for their number, in their order: a corrected value at most alpha is a finding, and the
/// probability of any false one among all is at most alpha (S. Holm, "A simple sequentially rejective multiple test
/// procedure", 1979).
#[must_use]
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut ascending: Vec<usize> = (0..p_values.len()).collect();
    ascending.sort_by(|&one, &other| p_values[one].total_cmp(&p_values[other]));
    let mut corrected = vec![1.0; p_values.len()];
    let mut largest = 0.0_f64;
    for (place, index) in ascending.into_iter().enumerate() {
        largest = largest.max(p_values[index] * (p_values.len() - place) as f64).min(1.0);
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
