//! One metric of two sides: both values, the change with its interval, and the verdict.

use ergometer_statistics::{Aim, Change, Interval};
use serde::{Serialize, Serializer};

use ergometer_runs::metrics::{Metric, Unit};

/// A metric of both sides.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Which.
    #[serde(serialize_with = "name_of")]
    pub metric: &'static Metric,
    /// What it is counted in.
    pub unit: Unit,
    /// What the baseline came to: of several runs their mean.
    pub baseline: Option<f64>,
    /// What the candidate came to.
    pub candidate: Option<f64>,
    /// The change.
    pub change: Option<Effect>,
    /// What to think of it.
    pub verdict: Verdict,
    /// Why there is no change, or no interval.
    pub reason: Option<String>,
}

/// A change from the baseline to the candidate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Effect {
    /// Candidate less baseline, or candidate over baseline.
    #[serde(serialize_with = "kind_of")]
    pub kind: Change,
    /// How much.
    pub value: f64,
    /// The 95 % interval.
    pub interval: Option<Interval>,
    /// Where the interval comes from.
    pub method: Option<Method>,
    /// Whether it is the same whichever queries are drawn: then there is nothing to make an interval of, and no doubt.
    pub is_constant: bool,
}

/// Where an interval comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Bootstrap over queries, the same ones on both sides.
    Paired,
    /// Bootstrap over the queries of each side.
    Apart,
    /// Bootstrap over slices of the time of each side.
    Slices,
    /// Newcombe's, of two proportions.
    Proportions,
    /// Welch's t over the values of several runs.
    Welch,
    /// Fieller's, of the ratio of the means of several runs, with Welch's t.
    Fieller,
}

/// What to think of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// For the better.
    Better,
    /// For the worse.
    Worse,
    /// More, of what is neither good nor bad.
    Higher,
    /// Less of it.
    Lower,
    /// None, or too small to matter.
    Same,
    /// The interval holds no change.
    CannotTell,
    /// There is no interval, or nothing to compare.
    None,
}

impl Verdict {
    /// Of a change from this baseline, of which less than `least` does not matter.
    pub(super) fn of(metric: &Metric, effect: &Effect, baseline: f64, least: f64) -> Self {
        // How far a change is from none, in the measure of the least effect.
        let size = |change: f64| match (effect.kind, metric.unit) {
            (Change::Ratio, _) => (change - 1.0).abs(),
            (Change::Difference, Unit::Share) => change.abs(),
            (Change::Difference, _) => change.abs() / baseline.abs(),
        };
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

    /// Whether something changed.
    #[must_use]
    pub const fn is_change(self) -> bool {
        matches!(self, Self::Better | Self::Worse | Self::Higher | Self::Lower)
    }

    /// Its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CannotTell => "cannot_tell",
            Self::None => "none",
            Self::Better | Self::Worse | Self::Higher | Self::Lower | Self::Same => self.words(),
        }
    }

    /// In words.
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
    /// The change as people read it: `+11.7 points ±2.9`.
    #[must_use]
    pub fn change_shown(&self) -> Option<String> {
        self.change.map(|change| super::shown::change(self.metric, &change))
    }

    /// The same without its interval: `+11.7 points`.
    #[must_use]
    pub fn change_in_short(&self) -> Option<String> {
        self.change.map(|change| super::shown::change(self.metric, &Effect { interval: None, ..change }))
    }
}

impl Effect {
    /// The change as a part of the baseline: 0.05 is five percent more.
    #[must_use]
    pub fn relative(&self, baseline: f64) -> Option<f64> {
        let part = match self.kind {
            Change::Ratio => self.value - 1.0,
            Change::Difference => self.value / baseline.abs(),
        };
        part.is_finite().then_some(part)
    }

    /// The value of no change.
    #[must_use]
    pub const fn none(&self) -> f64 {
        match self.kind {
            Change::Difference => 0.0,
            Change::Ratio => 1.0,
        }
    }

    /// Whether the interval leaves no change out, or there is no doubt.
    #[must_use]
    pub fn is_certain(&self) -> bool {
        match self.interval {
            Some(interval) => !interval.contains(self.none()),
            None => self.is_constant && self.value != self.none(),
        }
    }
}
