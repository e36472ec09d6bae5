//! Measures the range that the marks of a panel cover on both axes.

use super::ruler::{Extent, fixed_domain, has_place};
use crate::{Axis, Mark, Panel, Points, Scale, Side, Spans};

/// The range that the marks of a panel cover.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Coverage {
    pub(super) x: Extent,
    pub(super) y: Extent,
    /// Whether there are marks other than rules.
    pub(super) anything: bool,
    /// Whether there are dots, which need some space around them.
    pub(super) dots: bool,
    /// The number of lanes of its spans.
    pub(super) lanes: u64,
}

/// Whether the axis has names.
pub(super) fn has_names(axis: &Axis) -> bool {
    matches!(axis.scale, Scale::Names { .. })
}

/// Whether the vertical axis starts at the top. This is so for names, and for lanes of spans without other marks.
pub(super) fn from_top(panel: &Panel) -> bool {
    has_names(&panel.y)
        || (panel.marks.iter().any(|mark| matches!(mark, Mark::Spans(_)))
            && panel.marks.iter().all(|mark| matches!(mark, Mark::Spans(_) | Mark::Rule { side: Side::X, .. })))
}

/// Half the distance between the two closest bars, which is half the width of every bar. On a logarithmic axis it is a
/// ratio.
pub(super) fn half_gap(axis: &Axis, places: impl Iterator<Item = f64>) -> f64 {
    let logarithmic = axis.scale == Scale::Log;
    let mut places: Vec<f64> = places
        .filter(|place| has_place(axis, *place))
        .map(|place| if logarithmic { place.log10() } else { place })
        .collect();
    places.sort_unstable_by(f64::total_cmp);
    let gap = places.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap > 0.0).fold(f64::INFINITY, f64::min);
    let gap = if gap.is_finite() { gap } else { 0.0 };
    if logarithmic { 10f64.powf(gap / 2.0) } else { gap / 2.0 }
}

/// Adds marks to a [`Coverage`], one at a time.
struct CoverageBuilder<'a> {
    x: &'a Axis,
    y: &'a Axis,
    x_window: Option<Extent>,
    y_window: Option<Extent>,
    coverage: Coverage,
}

impl CoverageBuilder<'_> {
    fn pair(&mut self, x: f64, y: f64) -> bool {
        let shown = has_place(self.x, x) && has_place(self.y, y) && self.x_window.is_none_or(|window| window.holds(x));
        if shown {
            self.coverage.x.add(x);
            self.coverage.y.add(y);
            self.coverage.anything |= self.y_window.is_none_or(|window| window.holds(y));
        }
        shown
    }

    fn points(&mut self, points: &Points) {
        let across = has_names(self.y);
        for (index, (x, y)) in points.x.iter().zip(&points.y).enumerate() {
            if !self.pair(*x, *y) {
                continue;
            }
            for end in [points.low.get(index), points.high.get(index)].into_iter().flatten() {
                if across && has_place(self.x, *end) {
                    self.coverage.x.add(*end);
                } else if !across && has_place(self.y, *end) {
                    self.coverage.y.add(*end);
                }
            }
        }
    }

    fn bars(&mut self, points: &Points) {
        self.points(points);
        if !self.coverage.anything {
            return;
        }
        if has_names(self.y) {
            if self.x.scale != Scale::Log {
                self.coverage.x.add(0.0);
            }
            return;
        }
        if self.y.scale != Scale::Log {
            self.coverage.y.add(0.0);
        }
        let half = half_gap(self.x, points.x.iter().copied());
        for x in points.x.iter().copied().filter(|x| has_place(self.x, *x)) {
            let ends = if self.x.scale == Scale::Log { [x / half, x * half] } else { [x - half, x + half] };
            for end in ends.into_iter().filter(|end| has_place(self.x, *end)) {
                self.coverage.x.add(end);
            }
        }
    }

    fn spans(&mut self, spans: &Spans) {
        for (index, (start, end)) in spans.start.iter().zip(&spans.end).enumerate() {
            let lane = spans.lane.get(index).copied().unwrap_or(0);
            let (low, high) = (start.min(*end), start.max(*end));
            let seen = self.x_window.is_none_or(|window| high >= window.low && low <= window.high);
            if has_place(self.x, *start) && has_place(self.x, *end) && seen {
                self.coverage.x.add(low);
                self.coverage.x.add(high);
                for end in [f64::from(lane) - 0.5, f64::from(lane) + 0.5] {
                    if has_place(self.y, end) {
                        self.coverage.y.add(end);
                    }
                }
                self.coverage.lanes = self.coverage.lanes.max(u64::from(lane) + 1);
                self.coverage.anything = true;
            }
        }
    }

    fn mark(&mut self, mark: &Mark) {
        match mark {
            Mark::Points(points) => {
                self.points(points);
                self.coverage.dots |= !points.x.is_empty();
            }
            Mark::Line { x, y, .. } | Mark::Step { x, y, .. } => {
                for (x, y) in x.iter().zip(y) {
                    self.pair(*x, *y);
                }
            }
            Mark::Band { x, low, high, .. } => {
                for ((x, low), high) in x.iter().zip(low).zip(high) {
                    // The area below a line on a logarithmic axis starts at the bottom of the panel.
                    if self.pair(*x, *high) && has_place(self.y, *low) {
                        self.coverage.y.add(*low);
                    }
                }
            }
            Mark::Bars(points) => self.bars(points),
            Mark::Spans(spans) => self.spans(spans),
            Mark::Rule { side: Side::X, at, .. } if has_place(self.x, *at) => self.coverage.x.add(*at),
            Mark::Rule { side: Side::Y, at, .. } if has_place(self.y, *at) => self.coverage.y.add(*at),
            Mark::Rule { .. } => {}
        }
    }
}

/// The visible range of an axis, if it does not depend on the marks.
fn window(axis: &Axis) -> Option<Extent> {
    match &axis.scale {
        Scale::Names { names } => Some(Extent { low: -0.5, high: names.len() as f64 - 0.5 }),
        _ => fixed_domain(axis),
    }
}

/// Measures the area that the marks of a panel cover. Values outside a fixed range of the horizontal axis do not count.
pub(super) fn measure(panel: &Panel, x: &Axis) -> Coverage {
    let mut covering = CoverageBuilder {
        x,
        y: &panel.y,
        x_window: window(x),
        y_window: window(&panel.y),
        coverage: Coverage::default(),
    };
    for mark in &panel.marks {
        covering.mark(mark);
    }
    let mut coverage = covering.coverage;
    if from_top(panel) && coverage.lanes > 0 && panel.y.scale != Scale::Log {
        coverage.y.add(-0.5);
        coverage.y.add(coverage.lanes as f64 - 0.5);
    }
    coverage
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Hue, Stroke};

    fn line(x: Vec<f64>, y: Vec<f64>) -> Panel {
        let mark = Mark::Line { label: String::new(), hue: Hue::default(), stroke: Stroke::Solid, x, y };
        Panel { y: Axis::linear("", ""), marks: vec![mark], share: 1.0 }
    }

    #[test]
    fn values_that_cannot_be_drawn_do_not_count() {
        let panel = line(vec![0.0, 1.0, f64::NAN, 3.0, 4.0], vec![f64::INFINITY, 5.0, 6.0, 7.0]);
        let coverage = measure(&panel, &Axis::linear("", ""));
        assert_eq!((coverage.x, coverage.y), (Extent { low: 1.0, high: 3.0 }, Extent { low: 5.0, high: 7.0 }));
        assert!(coverage.anything);
    }

    #[test]
    fn values_outside_one_axis_do_not_extend_the_other() {
        let panel = line(vec![0.0, 1.0, 2.0], vec![5.0, 6.0, 1000.0]);
        assert_eq!(measure(&panel, &Axis::linear("", "").within(0.0, 1.0)).y.high, 6.0);
        assert!(!measure(&panel, &Axis::linear("", "").within(10.0, 11.0)).anything);
    }

    #[test]
    fn a_panel_with_only_rules_has_no_data() {
        let rule = Mark::Rule { side: Side::Y, at: 3.0, label: "goal".into(), hue: Hue::Muted };
        let panel = Panel { y: Axis::linear("", ""), marks: vec![rule], share: 1.0 };
        assert!(!measure(&panel, &Axis::linear("", "")).anything);
    }

    #[test]
    fn bars_extend_to_zero_and_by_half_their_width() {
        let bars = Points { x: vec![1.0, 2.0, 4.0], y: vec![5.0, 6.0, 7.0], ..Points::default() };
        let panel = Panel { y: Axis::linear("", ""), marks: vec![Mark::Bars(bars)], share: 1.0 };
        let coverage = measure(&panel, &Axis::linear("", ""));
        assert_eq!((coverage.x, coverage.y), (Extent { low: 0.5, high: 4.5 }, Extent { low: 0.0, high: 7.0 }));
    }
}
