//! Finds the knee of a load curve: the load with the largest ratio of throughput to latency.
//!
//! L. Kleinrock calls throughput / latency power ("Power and deterministic rules of thumb for probabilistic problems in
//! computer communications", 1979). Below its maximum, more load adds little latency; above it, little throughput.

use std::fmt;

/// The reason why a load curve has no knee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoKnee {
    /// Fewer than three points have throughput and latency.
    TooFewPoints,
    /// The power is largest at the lowest load.
    AtTheStart,
    /// The power is largest at the highest load, and may grow beyond it.
    AtTheEnd,
}

impl fmt::Display for NoKnee {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::TooFewPoints => "a knee needs at least three points with throughput and latency",
            Self::AtTheStart => "throughput / latency is largest at the lowest load; measure lower loads",
            Self::AtTheEnd => "throughput / latency is largest at the highest load; measure higher loads",
        })
    }
}

/// Kleinrock's power of a point. `None` if throughput or latency is not positive.
#[must_use]
pub fn power(throughput: f64, latency: f64) -> Option<f64> {
    let is_positive = |value: f64| value > 0.0 && value.is_finite();
    (is_positive(throughput) && is_positive(latency)).then(|| throughput / latency)
}

/// The index of the knee among points of throughput and latency, in order of increasing load; the first of points with
/// the same power. Points without a positive throughput and latency are ignored.
pub fn knee(points: &[(f64, f64)]) -> Result<usize, NoKnee> {
    let powers: Vec<(usize, f64)> = points
        .iter()
        .enumerate()
        .filter_map(|(index, &(throughput, latency))| Some((index, power(throughput, latency)?)))
        .collect();
    let ([first, .., last], true) = (&powers[..], powers.len() >= 3) else { return Err(NoKnee::TooFewPoints) };
    let best = powers.iter().fold(first, |best, other| if other.1 > best.1 { other } else { best });
    match best.0 {
        index if index == first.0 => Err(NoKnee::AtTheStart),
        index if index == last.0 => Err(NoKnee::AtTheEnd),
        inside => Ok(inside),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// M/M/1 with service rate 1: latency 1/(1 - load), power load x (1 - load), largest at one half (Kleinrock 1979).
    #[test]
    fn the_knee_of_a_single_server_is_at_half_its_capacity() {
        let curve: Vec<(f64, f64)> =
            (1..10).map(|tenths| f64::from(tenths) / 10.0).map(|load| (load, 1.0 / (1.0 - load))).collect();
        assert_eq!(knee(&curve), Ok(4));
        assert_eq!(knee(&curve[..5]), Err(NoKnee::AtTheEnd));
        assert_eq!(knee(&curve[4..]), Err(NoKnee::AtTheStart));
        assert_eq!(knee(&curve[3..5]), Err(NoKnee::TooFewPoints));
        assert_eq!(knee(&[(1.0, 1.0), (2.0, f64::NAN), (1.0, 1.0)]), Err(NoKnee::TooFewPoints));
        let mut holes = curve.clone();
        (holes[0].1, holes[2].0, holes[8].1) = (f64::NAN, 0.0, f64::INFINITY);
        assert_eq!(knee(&holes), Ok(4), "the index counts all points");
        assert_eq!(knee(&[(1.0, f64::NAN), (3.0, 1.0), (2.0, 1.0), (1.0, 1.0)]), Err(NoKnee::AtTheStart));
        assert_eq!(knee(&[(1.0, 1.0), (2.0, 1.0), (2.0, 1.0), (1.0, 1.0)]), Ok(1), "the first of equals");
    }
}
