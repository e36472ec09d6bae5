//! A confidence interval: two ends and the level they are for.

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
