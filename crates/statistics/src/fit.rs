//! What fits have in common: a coefficient with its margin, and the reasons why there is no line.

use std::fmt;

use serde::Serialize;

use super::{Interval, t_quantile};

/// A number that was fitted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(into = "Written")]
pub struct Coefficient {
    /// What it is.
    pub value: f64,
    /// Its standard error; absent where no value is left to tell it from.
    pub standard_error: Option<f64>,
    /// Its 95 % interval by Student's t; absent with the standard error.
    pub interval: Option<Interval>,
}

/// As files have it: the ends beside the value.
#[derive(Serialize)]
struct Written {
    value: f64,
    low: Option<f64>,
    high: Option<f64>,
    standard_error: Option<f64>,
}

impl From<Coefficient> for Written {
    fn from(Coefficient { value, standard_error, interval }: Coefficient) -> Self {
        Self { value, low: interval.map(|ends| ends.low), high: interval.map(|ends| ends.high), standard_error }
    }
}

/// Why values have no fit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum NoFit {
    /// There are fewer values than the fit has coefficients.
    TooFew {
        /// How many there are.
        count: usize,
        /// How many it takes.
        needed: usize,
    },
    /// A regressor is the same everywhere.
    Constant {
        /// Which: 0 is the first.
        regressor: usize,
    },
    /// Two regressors rise and fall together, so what belongs to which cannot be told.
    Collinear {
        /// How many times their being alike enlarges the variance of the coefficients; absent where one is all but a
        /// multiple of the other.
        variance_inflation: Option<f64>,
    },
    /// A sum of squares is beyond what a float can hold.
    OutOfRange,
    /// The fit did not settle.
    Unsettled,
}

impl fmt::Display for NoFit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFew { count, needed } => write!(f, "{count} values, and it takes {needed}"),
            Self::Constant { regressor: 0 } => write!(f, "the first regressor is the same everywhere"),
            Self::Constant { .. } => write!(f, "the second regressor is the same everywhere"),
            Self::Collinear { .. } => write!(f, "the regressors rise and fall together"),
            Self::OutOfRange => write!(f, "the values are too large or too small for a float"),
            Self::Unsettled => write!(f, "the fit did not settle"),
        }
    }
}

/// What the residuals of a fit leave: their standard deviation, and Student's t of as many degrees of freedom.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Noise {
    pub(crate) std: Option<f64>,
    t: Option<f64>,
}

impl Noise {
    /// Of the sum of squared residuals of so many values after so many coefficients.
    pub(crate) fn new(squares: f64, count: usize, coefficients: usize) -> Self {
        let freedom = count.checked_sub(coefficients).filter(|&freedom| freedom > 0).map(|freedom| freedom as f64);
        Self {
            std: freedom.map(|freedom| (squares / freedom).sqrt()),
            t: freedom.and_then(|freedom| t_quantile(0.975, freedom)),
        }
    }

    /// A coefficient whose variance is this many times that of the residuals.
    pub(crate) fn coefficient(self, value: f64, variance: f64) -> Coefficient {
        let standard_error = self.std.map(|std| std * variance.sqrt()).filter(|error| error.is_finite());
        let half = standard_error.zip(self.t).map(|(error, t)| error * t);
        let interval = half.map(|half| Interval { low: value - half, high: value + half });
        Coefficient { value, standard_error, interval }
    }
}

/// The mean, with the rounding of its first pass put right by a second.
pub(crate) fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = values.clone().count() as f64;
    let rough = values.clone().map(|value| value / count).sum::<f64>();
    rough + values.map(|value| (value - rough) / count).sum::<f64>()
}

/// Whether all are the same. None is, too.
pub(crate) fn is_constant(mut values: impl Iterator<Item = f64>) -> bool {
    let first = values.next();
    values.all(|value| Some(value) == first)
}

/// The part of the squares of `y` that a fit explains: 1 where there is nothing to explain.
pub(crate) fn explained(residual_squares: f64, total_squares: f64) -> f64 {
    if total_squares == 0.0 { 1.0 } else { 1.0 - residual_squares / total_squares }
}
