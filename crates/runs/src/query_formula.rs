//! How a metric of a run is computed from its queries.

use crate::saved::Query;

/// How a metric is computed from the queries of a run.
#[derive(Debug, Clone, Copy)]
pub enum QueryFormula {
    /// A ratio of sums over queries.
    Sums(Fraction),
    /// Proportional to a ratio of sums over queries, but also includes energy or time between requests. Only the summary
    /// has the value.
    Proportional(Fraction),
    /// Proportional to a product of two such ratios.
    ProportionalProduct(Fractions),
    /// A percentile over the completed queries.
    Percentile(f64, Amount),
    /// A sum over queries / the duration of the run.
    Rate(Amount),
    /// A value of the whole run that single queries do not have.
    Whole,
}

/// The numerator and denominator of a query, if it has them.
pub type Fraction = fn(&Query) -> Option<(f64, f64)>;

/// The numerators and denominators of a product of two ratios.
pub type Fractions = fn(&Query) -> Option<[(f64, f64); 2]>;

/// A value of a query, if it has one.
pub type Amount = fn(&Query) -> Option<f64>;

/// The gross joules of a query per this count.
pub(crate) fn gross_per(query: &Query, per: Option<u64>) -> Option<(f64, f64)> {
    Some((query.energy?.gross, per? as f64))
}

/// 1 if a condition holds, else 0.
pub(crate) fn yes(is: bool) -> f64 {
    f64::from(u8::from(is))
}

/// The output tokens of a completed query.
pub(crate) fn completed_tokens(query: &Query) -> Option<f64> {
    query.output_tokens.filter(|_| query.is_completed()).map(|tokens| tokens as f64)
}
