//! One metric of two sides: both values, the change with its interval, and the verdict.

use ergometer_statistics::{Aim, Change, Interval};
use serde::{Serialize, Serializer};

use ergometer_runs::metrics::{Metric, Unit};

/// A metric of a comparison.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The metric.
    #[serde(serialize_with = "name_of")]
    pub metric: &'static Metric,
    /// The unit of the values.
    pub unit: Unit,
    /// The value of the baseline; the mean of several runs.
    pub baseline: Option<f64>,
    /// The value of the candidate; the mean of several runs.
    pub candidate: Option<f64>,
    /// The change.
    pub change: Option<Effect>,
    /// The verdict.
    pub verdict: Verdict,
    /// Why there is no change or no interval, or why equal values have this verdict.
    pub reason: Option<String>,
}

/// A change from the baseline to the candidate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Effect {
    /// Difference (candidate - baseline) or ratio (candidate / baseline).
    #[serde(serialize_with = "kind_of")]
    pub kind: Change,
    /// The value of the change.
    pub value: f64,
    /// The 95 % interval.
    pub interval: Option<Interval>,
    /// The method of the interval.
    pub method: Option<Method>,
    /// Whether all resamples are equal, so the change is certain and has no interval.
    pub is_constant: bool,
}

/// The method of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Bootstrap over queries, the same ones on both sides.
    Paired,
    /// Bootstrap over the queries of each side.
    Apart,
    /// Bootstrap over slices of the time of each side.
    Slices,
    /// Newcombe's interval of two proportions.
    Proportions,
    /// Welch's t over the values of several runs.
    Welch,
    /// Fieller's interval of the ratio of the means of several runs, with Welch's t.
    Fieller,
}

/// The verdict on a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// A significant improvement.
    Better,
    /// A significant regression.
    Worse,
    /// A significant increase of a metric without a better direction.
    Higher,
    /// A significant decrease of a metric without a better direction.
    Lower,
    /// No change, or too small to matter.
    Same,
    /// The interval includes "no change".
    CannotTell,
    /// There is no interval, or no value to compare.
    None,
}

impl Verdict {
    /// The verdict on a change; changes smaller than `least` do not matter.
    pub(super) fn from_effect(metric: &Metric, effect: &Effect, baseline: f64, least: f64) -> Self {
        // The size of a change, in the unit of `least`.
        let size = |change: f64| match (effect.kind, metric.unit) {
            (Change::Ratio, _) => (change - 1.0).abs(),
            (Change::Difference, Unit::Share) => change.abs(),
            (Change::Difference, _) => change.abs() / baseline.abs(),
        };
        // Equal shares are not certain: no failure among three requests proves little.
        if metric.unit != Unit::Share && effect.value == effect.none() {
            return Self::Same;
        }
        let is_small = |change: f64| least > 0.0 && size(change) < least;
        if !effect.is_certain() {
            return match effect.interval {
                Some(interval) if is_small(interval.low) && is_small(interval.high) => Self::Same,
                Some(_) => Self::CannotTell,
                None if effect.is_constant => Self::Same,
                None => Self::None,
            };
        }
        let is_more = effect.value > effect.none();
        match metric.better {
            _ if is_small(effect.value) => Self::Same,
            None if is_more => Self::Higher,
            None => Self::Lower,
            Some(aim) if (aim == Aim::Higher) == is_more => Self::Better,
            Some(_) => Self::Worse,
        }
    }

    /// Whether the verdict is a significant change.
    #[must_use]
    pub const fn is_change(self) -> bool {
        matches!(self, Self::Better | Self::Worse | Self::Higher | Self::Lower)
    }

    /// The name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CannotTell => "cannot_tell",
            Self::None => "none",
            Self::Better | Self::Worse | Self::Higher | Self::Lower | Self::Same => self.words(),
        }
    }

    /// The text for people.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Higher => "higher",
            Self::Lower => "lower",
            Self::Same => "same",
            Self::CannotTell => "can't tell",
            Self::None => "-",
        }
    }
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks for it")]
fn name_of<S: Serializer>(metric: &&'static Metric, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(metric.name)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks for it")]
fn kind_of<S: Serializer>(kind: &Change, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match kind {
        Change::Difference => "difference",
        Change::Ratio => "ratio",
    })
}

impl Row {
    /// The change for people: `+11.7 points ±2.9`.
    #[must_use]
    pub fn change_shown(&self) -> Option<String> {
        self.change.map(|change| super::table::format_change(self.metric, &change))
    }

    /// The change without its interval: `+11.7 points`.
    #[must_use]
    pub fn change_in_short(&self) -> Option<String> {
        self.change.map(|change| super::table::format_change(self.metric, &Effect { interval: None, ..change }))
    }
}

impl Effect {
    /// The change as a share of the baseline: 0.05 is five percent more.
    #[must_use]
    pub fn relative(&self, baseline: f64) -> Option<f64> {
        let part = match self.kind {
            Change::Ratio => self.value - 1.0,
            Change::Difference => self.value / baseline.abs(),
        };
        part.is_finite().then_some(part)
    }

    /// The value that means "no change": 0 for differences, 1 for ratios.
    #[must_use]
    pub const fn none(&self) -> f64 {
        match self.kind {
            Change::Difference => 0.0,
            Change::Ratio => 1.0,
        }
    }

    /// Whether the change is certain: the interval excludes "no change", or all resamples are equal.
    #[must_use]
    pub fn is_certain(&self) -> bool {
        match self.interval {
            Some(interval) => !interval.contains(self.none()),
            None => self.is_constant && self.value != self.none(),
        }
    }
}
