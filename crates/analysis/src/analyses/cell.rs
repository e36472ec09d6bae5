//! Figures as cells of tables: a value, its interval and its unit go in; what people read comes out.

use ergometer_charts::Cell;
use ergometer_statistics::{Coefficient, Interval};
use ergometer_units::shown;

/// A unit that gets a prefix: `J` is shown as `mJ` where that reads better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) of: &'static str,
}

impl Unit {
    pub(super) const SECONDS: Self = Self { of: "s" };
    pub(super) const JOULES: Self = Self { of: "J" };
    pub(super) const WATTS: Self = Self { of: "W" };

    pub(super) fn show(self, value: f64) -> String {
        shown::quantity(value, self.of)
    }
}

/// A number, or nothing.
pub(super) fn number(value: Option<f64>, unit: Unit) -> Cell {
    Cell::number(value, |value| unit.show(value))
}

/// A whole number.
pub(super) fn count(value: usize) -> Cell {
    Cell::number(Some(value as f64), shown::thousands)
}

/// A part of a whole.
pub(super) fn share(value: Option<f64>) -> Cell {
    Cell::number(value, shown::percent)
}

/// A number that was fitted.
pub(super) fn coefficient(coefficient: &Coefficient, unit: Unit) -> Cell {
    estimate(Some(coefficient.value), coefficient.interval, unit)
}

/// A number with its interval, where it has one. One that is wider than the number is shown by its ends: of `0.1 ± 20`
/// nobody reads the 0.1.
pub(super) fn estimate(value: Option<f64>, interval: Option<Interval>, unit: Unit) -> Cell {
    let (Some(value), Some(interval)) = (value.filter(|value| value.is_finite()), interval) else {
        return number(value, unit);
    };
    let half = interval.width() / 2.0;
    let shown = if half > value.abs() {
        format!("{} … {}", unit.show(interval.low), unit.show(interval.high))
    } else {
        shown::estimate(value, half, unit.of)
    };
    Cell::Estimate { value, low: interval.low, high: interval.high, shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_margin_wider_than_the_number_is_shown_by_its_ends() {
        let of = |value, low, high| estimate(Some(value), Some(Interval { low, high }), Unit::JOULES).shown();
        assert_eq!(of(0.0265, 0.0255, 0.0275), "26.5 ± 1.0 mJ");
        assert_eq!(of(0.001, -0.02, 0.022), "-20.00 mJ … 22.00 mJ");
        assert_eq!(estimate(Some(0.001), None, Unit::JOULES).shown(), "1.000 mJ");
        assert_eq!(estimate(None, None, Unit::JOULES), Cell::Absent);
    }
}
