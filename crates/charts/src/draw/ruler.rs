//! Maps the values of an axis to pixels.

use super::number::drawable;
use super::ticks;
use crate::{Axis, Scale};

/// A range of values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Extent {
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Default for Extent {
    fn default() -> Self {
        Self { low: f64::INFINITY, high: f64::NEG_INFINITY }
    }
}

impl Extent {
    pub(super) fn add(&mut self, value: f64) {
        self.low = self.low.min(value);
        self.high = self.high.max(value);
    }

    pub(super) fn join(&mut self, other: Self) {
        self.low = self.low.min(other.low);
        self.high = self.high.max(other.high);
    }

    pub(super) fn is_empty(self) -> bool {
        self.low > self.high
    }

    pub(super) fn holds(self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// How the range of an axis is chosen around its marks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Fit {
    /// Exactly the range of the marks, for lines and spans.
    Tight,
    /// With some space at both ends, for dots.
    Airy,
    /// Extended to the next ticks; there are about this many.
    Ticks(f64),
}

/// Whether a value can be drawn on an axis.
pub(super) fn has_place(axis: &Axis, value: f64) -> bool {
    drawable(value) && (axis.scale != Scale::Log || value >= 1e-300)
}

/// The fixed range of an axis, if it has a valid one.
pub(super) fn fixed_domain(axis: &Axis) -> Option<Extent> {
    let (one, other) = axis.domain?;
    let (low, high) = (one.min(other), one.max(other));
    (has_place(axis, one) && has_place(axis, other) && wide_enough(low, high)).then_some(Extent { low, high })
}

/// Whether the ends are far enough apart for ticks with the digits of a float.
fn wide_enough(low: f64, high: f64) -> bool {
    high - low > 1e-11 * low.abs().max(high.abs()) && high - low >= 1e-290
}

/// The range of an axis.
pub(super) fn ends(axis: &Axis, mut covered: Extent, fit: Fit) -> Extent {
    if let Scale::Names { names } = &axis.scale {
        return Extent { low: -0.5, high: names.len().max(1) as f64 - 0.5 };
    }
    if let Some(extent) = fixed_domain(axis) {
        return extent;
    }
    if axis.scale == Scale::Log {
        if covered.is_empty() {
            return Extent { low: 1.0, high: 10.0 };
        }
        let (low, high) = (covered.low.log10(), covered.high.log10());
        let air = if high - low < 1e-6 {
            0.4
        } else if fit == Fit::Tight {
            0.0
        } else {
            (high - low) * 0.04
        };
        return Extent { low: 10f64.powf((low - air).max(-301.0)), high: 10f64.powf((high + air).min(301.0)) };
    }
    if covered.is_empty() {
        return Extent { low: 0.0, high: 1.0 };
    }
    let zero = match axis.scale {
        Scale::Linear { from_zero } => from_zero,
        _ => covered.low >= 0.0,
    };
    if zero {
        covered.add(0.0);
    }
    let Extent { mut low, mut high } = covered;
    if !wide_enough(low, high) {
        // A single value is in the middle, or above zero.
        let half = if low.abs() < 1e-280 { 1.0 } else { low.abs() * 0.1 };
        (low, high) = if low.abs() < 1e-280 { (0.0, 1.0) } else { (low - half, high + half) };
    }
    match fit {
        Fit::Tight => {}
        Fit::Airy => {
            let air = (high - low) * 0.03;
            // The space never extends beyond zero: there are no negative times.
            low = if low >= 0.0 { (low - air).max(0.0) } else { low - air };
            high = if high <= 0.0 { (high + air).min(0.0) } else { high + air };
        }
        Fit::Ticks(about) => {
            // A wider range can have a wider step, which widens the range again, usually once.
            for _ in 0..4 {
                let step = ticks::step(low, high, about);
                low = (low / step + 1e-9).floor() * step;
                high = (high / step - 1e-9).ceil() * step;
            }
        }
    }
    Extent { low, high }
}

/// The mapping from values of an axis to pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ruler {
    ends: Extent,
    logarithmic: bool,
    /// The pixel of the low end.
    from: f64,
    /// The pixel of the high end.
    to: f64,
}

impl Ruler {
    pub(super) fn new(axis: &Axis, ends: Extent, from: f64, to: f64) -> Self {
        Self { ends, logarithmic: axis.scale == Scale::Log, from, to }
    }

    /// The pixel of a value, also outside the panel. `None` for a value that cannot be drawn.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        let Extent { low, high } = self.ends;
        let part = if self.logarithmic {
            (value.log10() - low.log10()) / (high.log10() - low.log10())
        } else {
            (value - low) / (high - low)
        };
        // Clamped to a million times the panel, which keeps pixels exact to 1e-7.
        let has_place = drawable(value) && !(self.logarithmic && value <= 0.0) && !part.is_nan();
        has_place.then(|| self.from + part.clamp(-1e6, 1e6) * (self.to - self.from))
    }

    /// The pixel of a value, clamped to the panel. Values that are not positive are at the low end of a logarithmic
    /// axis.
    pub(super) fn clamped(&self, value: f64) -> f64 {
        self.place(value).unwrap_or(self.from).clamp(self.from.min(self.to), self.from.max(self.to))
    }

    /// The pixel of a value inside the panel.
    pub(super) fn visible(&self, value: f64) -> Option<f64> {
        let slack = (self.to - self.from).abs() * 1e-9;
        let place = self.place(value)?;
        (place >= self.from.min(self.to) - slack && place <= self.from.max(self.to) + slack).then_some(place)
    }

    /// Pixels per unit of a linear axis.
    pub(super) fn pace(&self) -> f64 {
        ((self.to - self.from) / (self.ends.high - self.ends.low)).abs()
    }

    pub(super) fn is_logarithmic(&self) -> bool {
        self.logarithmic
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn extent(low: f64, high: f64) -> Extent {
        Extent { low, high }
    }

    #[test]
    fn the_range_includes_the_marks() {
        let axis = Axis::linear("", "");
        assert_eq!(ends(&axis, extent(12.3, 87.0), Fit::Ticks(5.0)), extent(0.0, 100.0));
        assert_eq!(ends(&axis, extent(3.78, 4.62), Fit::Ticks(6.0)), extent(3.6, 4.800_000_000_000_001));
        assert_eq!(ends(&axis, extent(3.0, 7.0), Fit::Tight), extent(3.0, 7.0));
        assert_eq!(ends(&axis, extent(5.0, 5.0), Fit::Tight), extent(4.5, 5.5));
        assert_eq!(ends(&axis, extent(0.0, 0.0), Fit::Airy), extent(0.0, 1.03));
        assert_eq!(ends(&Axis::from_zero("", ""), extent(3.0, 7.0), Fit::Tight), extent(0.0, 7.0));
        assert_eq!(ends(&axis.within(2.0, 4.0), extent(0.0, 9.0), Fit::Ticks(5.0)), extent(2.0, 4.0));
        assert_eq!(
            ends(&Axis::names("", vec!["a".into(), "b".into()]), Extent::default(), Fit::Tight),
            extent(-0.5, 1.5)
        );
    }

    #[test]
    fn an_invalid_fixed_range_is_ignored() {
        for (low, high) in [(f64::NAN, 1.0), (1.0, 1.0), (f64::NEG_INFINITY, f64::INFINITY)] {
            assert_eq!(fixed_domain(&Axis::linear("", "").within(low, high)), None);
        }
        assert_eq!(fixed_domain(&Axis::log("", "").within(0.0, 10.0)), None);
        assert_eq!(fixed_domain(&Axis::linear("", "").within(4.0, 2.0)), Some(extent(2.0, 4.0)));
    }

    #[test]
    fn powers_of_ten_have_equal_distances() {
        let ruler = Ruler::new(&Axis::log("", ""), extent(1.0, 100.0), 0.0, 200.0);
        assert!((ruler.place(10.0).unwrap() - 100.0).abs() < 1e-9);
        assert_eq!(ruler.place(0.0), None);
        assert_eq!(ruler.place(-1.0), None);
        assert_eq!(ruler.visible(1000.0), None);
        assert_eq!(ruler.clamped(0.0), 0.0);
    }

    proptest! {
        #[test]
        fn all_marks_are_visible(one in any::<f64>(), other in any::<f64>(), logarithmic: bool, about in 2.0..12.0f64) {
            let axis = if logarithmic { Axis::log("", "") } else { Axis::linear("", "") };
            let mut covered = Extent::default();
            for value in [one, other].into_iter().filter(|value| has_place(&axis, *value)) {
                covered.add(value);
            }
            for fit in [Fit::Tight, Fit::Airy, Fit::Ticks(about)] {
                let ends = ends(&axis, covered, fit);
                prop_assert!(ends.low < ends.high && ends.low.is_finite() && ends.high.is_finite(), "{ends:?}");
                let ruler = Ruler::new(&axis, ends, 0.0, 500.0);
                if !covered.is_empty() {
                    prop_assert!(ruler.visible(covered.low).is_some(), "{covered:?} {ends:?}");
                    prop_assert!(ruler.visible(covered.high).is_some(), "{covered:?} {ends:?}");
                }
            }
        }
    }
}
