//! Coefficients with intervals, and the reasons why a fit fails, for all kinds of fits.

use std::fmt;

use serde::Serialize;

use super::{Interval, t_quantile};

/// A fitted coefficient.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(into = "WrittenCoefficient")]
pub struct Coefficient {
    /// Its value.
    pub value: f64,
    /// Its standard error; absent without degrees of freedom.
    pub standard_error: Option<f64>,
    /// Its 95 % interval by Student's t; absent without a standard error.
    pub interval: Option<Interval>,
}

/// The coefficient as it is written to files, with the ends of the interval next to the value.
#[derive(Serialize)]
struct WrittenCoefficient {
    value: f64,
    low: Option<f64>,
    high: Option<f64>,
    standard_error: Option<f64>,
}

impl From<Coefficient> for WrittenCoefficient {
    fn from(Coefficient { value, standard_error, interval }: Coefficient) -> Self {
        Self { value, low: interval.map(|ends| ends.low), high: interval.map(|ends| ends.high), standard_error }
    }
}

/// The reason why values have no fit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum NoFit {
    /// There are fewer values than coefficients.
    TooFew {
        /// The number of values.
        count: usize,
        /// The number of values needed.
        needed: usize,
    },
    /// A regressor is constant.
    Constant {
        /// Its index, from 0.
        regressor: usize,
    },
    /// Two regressors are collinear, so their effects cannot be separated.
    Collinear {
        /// The factor by which their correlation increases the variance of the coefficients; absent if one is almost a
        /// multiple of the other.
        variance_inflation: Option<f64>,
    },
    /// A sum of squares overflows a float.
    OutOfRange,
    /// The fit did not converge.
    Unsettled,
}

impl fmt::Display for NoFit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFew { count, needed } => write!(f, "the fit needs {needed} values, but there are {count}"),
            Self::Constant { regressor: 0 } => write!(f, "the first regressor is constant"),
            Self::Constant { .. } => write!(f, "the second regressor is constant"),
            Self::Collinear { .. } => write!(f, "the regressors are collinear"),
            Self::OutOfRange => write!(f, "the values are too large or too small"),
            Self::Unsettled => write!(f, "the fit did not converge"),
        }
    }
}

/// The standard deviation of the residuals of a fit, and the quantile of Student's t for its degrees of freedom.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Noise {
    pub(crate) std: Option<f64>,
    t: Option<f64>,
}

impl Noise {
    /// From the sum of squared residuals of `count` values and the number of coefficients.
    pub(crate) fn new(squares: f64, count: usize, coefficients: usize) -> Self {
        let freedom = count.checked_sub(coefficients).filter(|&freedom| freedom > 0).map(|freedom| freedom as f64);
        Self {
            std: freedom.map(|freedom| (squares / freedom).sqrt()),
            t: freedom.and_then(|freedom| t_quantile(0.975, freedom)),
        }
    }

    /// A coefficient whose variance is `variance` times the variance of the residuals.
    pub(crate) fn coefficient(self, value: f64, variance: f64) -> Coefficient {
        let standard_error = self.std.map(|std| std * variance.sqrt()).filter(|error| error.is_finite());
        let half = standard_error.zip(self.t).map(|(error, t)| error * t);
        let interval = half.map(|half| Interval { low: value - half, high: value + half });
        Coefficient { value, standard_error, interval }
    }
}

/// The mean, in two passes, the second of which corrects the rounding of the first.
pub(crate) fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = values.clone().count() as f64;
    let rough = values.clone().map(|value| value / count).sum::<f64>();
    rough + values.map(|value| (value - rough) / count).sum::<f64>()
}

/// Whether all values are equal; true without values.
pub(crate) fn is_constant(mut values: impl Iterator<Item = f64>) -> bool {
    let first = values.next();
    values.all(|value| Some(value) == first)
}

/// The share of the squares of `y` that a fit explains; 1 if `y` is constant.
pub(crate) fn explained(residual_squares: f64, total_squares: f64) -> f64 {
    if total_squares == 0.0 { 1.0 } else { 1.0 - residual_squares / total_squares }
}
