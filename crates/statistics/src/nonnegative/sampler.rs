//! Draws non-negative coefficients in proportion to how well they fit.
//!
//! The likelihood is a Gaussian cut off at zero. From any point, a move along a line has a truncated normal
//! distribution, which can be drawn exactly (hit-and-run: R. Smith, "Efficient Monte Carlo procedures", 1984). Moves
//! along the axes and along the principal axes of the Gaussian alternate: without the second kind, two terms that always
//! grow together would hardly move. Truncated normals are drawn as in C. Robert, "Simulation of truncated normal
//! variables" (1995).

use fastrand::Rng;

use super::gram::Gram;
use super::solve;

/// Rounds before the first draw, and between draws.
const BURN_IN: usize = 12;
const THINNING: usize = 2;

/// Sweeps of the Jacobi method; a handful suffices for matrices of this size.
const SWEEPS: usize = 12;

/// Draws of coefficients. `spread` is the variance of the noise, times the flattening of the likelihood.
pub(super) fn draws(gram: &Gram, spread: f64, count: usize, rng: &mut Rng) -> Vec<Vec<f64>> {
    let terms = gram.terms();
    let used: Vec<usize> = (0..terms).filter(|&term| gram.has(term)).collect();
    let scale: Vec<f64> = used.iter().map(|&term| gram.product(term, term).sqrt()).collect();
    let matrix: Vec<Vec<f64>> = used
        .iter()
        .zip(&scale)
        .map(|(&row, one)| {
            used.iter().zip(&scale).map(|(&column, other)| gram.product(row, column) / (one * other)).collect()
        })
        .collect();
    let target: Vec<f64> = used.iter().zip(&scale).map(|(&term, scale)| gram.target(term) / scale).collect();
    let start = solve::non_negative(gram);
    let mut point: Vec<f64> = used.iter().zip(&scale).map(|(&term, scale)| start[term] * scale).collect();
    let size = used.len();
    let axes = (0..size).map(|axis| (0..size).map(|place| f64::from(u8::from(place == axis))).collect());
    let directions: Vec<Vec<f64>> = principal_axes(&matrix).into_iter().chain(axes).collect();
    let mut found = Vec::with_capacity(count);
    for round in 0..BURN_IN + count * THINNING {
        for direction in &directions {
            step(&matrix, &target, spread, direction, &mut point, rng);
        }
        if round >= BURN_IN && (round - BURN_IN).is_multiple_of(THINNING) {
            let mut draw = vec![0.0; terms];
            for ((&term, scale), value) in used.iter().zip(&scale).zip(&point) {
                draw[term] = value / scale;
            }
            found.push(draw);
        }
    }
    found
}

/// Moves the point along a direction.
fn step(matrix: &[Vec<f64>], target: &[f64], spread: f64, direction: &[f64], point: &mut [f64], rng: &mut Rng) {
    let product = |vector: &[f64]| -> Vec<f64> {
        matrix.iter().map(|row| row.iter().zip(vector).map(|(one, other)| one * other).sum()).collect()
    };
    let (along, at) = (product(direction), product(point));
    let curvature: f64 = direction.iter().zip(&along).map(|(one, other)| one * other).sum();
    let slope: f64 = direction.iter().zip(target.iter().zip(&at)).map(|(way, (target, at))| way * (target - at)).sum();
    let (mut low, mut high) = (f64::NEG_INFINITY, f64::INFINITY);
    for (&value, &way) in point.iter().zip(direction) {
        let bound = -value / way;
        if way > 1e-12 {
            low = low.max(bound);
        } else if way < -1e-12 {
            high = high.min(bound);
        }
    }
    // Along a direction that the data do not see at all, the bounds decide; without bounds there is nothing to draw.
    let curvature = curvature.max(1e-12);
    let (mean, deviation) = (slope / curvature, (spread / curvature).sqrt());
    let drawn = truncated_normal((low - mean) / deviation, (high - mean) / deviation, rng);
    let length = mean + deviation * drawn;
    if length.is_finite() {
        for (value, way) in point.iter_mut().zip(direction) {
            *value = (*value + length * way).max(0.0);
        }
    }
}

/// A standard normal value between two bounds.
fn truncated_normal(low: f64, high: f64, rng: &mut Rng) -> f64 {
    if high <= low {
        return low;
    }
    if high < 0.0 {
        return -truncated_normal(-high, -low, rng);
    }
    // Rejection ends after a few tries; the limit is only for values that are not finite.
    let accepted = |propose: &mut dyn FnMut(&mut Rng) -> (f64, f64), rng: &mut Rng| {
        (0..10_000).find_map(|_| {
            let (value, chance) = propose(rng);
            (value >= low && value <= high && rng.f64() <= chance).then_some(value)
        })
    };
    let nearest = low.max(0.0);
    let fallback = nearest.min(high);
    if low > 0.0 {
        let rate = f64::midpoint(low, (low * low + 4.0).sqrt());
        if high - low > 1.0 / rate {
            let mut exponential = |rng: &mut Rng| {
                let value = low - (1.0 - rng.f64()).ln() / rate;
                (value, (-(value - rate).powi(2) / 2.0).exp())
            };
            return accepted(&mut exponential, rng).unwrap_or(fallback);
        }
    } else if high - low > 2.5 {
        let mut normal = |rng: &mut Rng| (standard_normal(rng), 1.0);
        return accepted(&mut normal, rng).unwrap_or(fallback);
    }
    let mut uniform = |rng: &mut Rng| {
        let value = low + (high - low) * rng.f64();
        (value, ((nearest * nearest - value * value) / 2.0).exp())
    };
    accepted(&mut uniform, rng).unwrap_or(fallback)
}

/// A standard normal value, by the method of Box and Muller.
fn standard_normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.f64()).cos()
}

/// The eigenvectors of a symmetric matrix, by the method of Jacobi.
fn principal_axes(matrix: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let size = matrix.len();
    let mut matrix = matrix.to_vec();
    let mut axes: Vec<Vec<f64>> =
        (0..size).map(|axis| (0..size).map(|place| f64::from(u8::from(place == axis))).collect()).collect();
    for _ in 0..SWEEPS {
        for one in 0..size {
            for other in one + 1..size {
                let off = matrix[one][other];
                if off.abs() < 1e-15 {
                    continue;
                }
                let theta = (matrix[other][other] - matrix[one][one]) / (2.0 * off);
                let tangent = theta.signum() / (theta.abs() + theta.hypot(1.0));
                let cosine = 1.0 / tangent.hypot(1.0);
                let sine = tangent * cosine;
                for row in &mut matrix {
                    (row[one], row[other]) = rotate(row[one], row[other], cosine, sine);
                }
                let (upper, lower) = matrix.split_at_mut(other);
                for (first, second) in upper[one].iter_mut().zip(lower[0].iter_mut()) {
                    (*first, *second) = rotate(*first, *second, cosine, sine);
                }
                let (upper, lower) = axes.split_at_mut(other);
                for (first, second) in upper[one].iter_mut().zip(lower[0].iter_mut()) {
                    (*first, *second) = rotate(*first, *second, cosine, sine);
                }
            }
        }
    }
    axes
}

fn rotate(one: f64, other: f64, cosine: f64, sine: f64) -> (f64, f64) {
    (cosine * one - sine * other, sine * one + cosine * other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_normals_have_the_right_mean() {
        let mut rng = Rng::with_seed(1);
        // Means of the standard normal between the bounds, from the formula (pdf(low) - pdf(high)) / (cdf(high) - cdf(low)).
        let cases = [
            (f64::NEG_INFINITY, f64::INFINITY, 0.0),
            (0.0, f64::INFINITY, 0.797_885),
            (2.0, f64::INFINITY, 2.373_216),
            (-1.0, 1.0, 0.0),
            (1.0, 1.5, 1.224_339),
            (f64::NEG_INFINITY, -2.0, -2.373_216),
            (0.5, 4.0, 1.140_761),
        ];
        for (low, high, mean) in cases {
            let count = 40_000;
            let values: Vec<f64> = (0..count).map(|_| truncated_normal(low, high, &mut rng)).collect();
            assert!(values.iter().all(|&value| value >= low && value <= high));
            let found = values.iter().sum::<f64>() / f64::from(count);
            assert!((found - mean).abs() < 0.02, "{low} to {high}: {found}, not {mean}");
        }
    }

    #[test]
    fn principal_axes_are_orthogonal_and_diagonalize() {
        let matrix = vec![vec![2.0, 0.9, 0.1], vec![0.9, 1.0, -0.3], vec![0.1, -0.3, 0.5]];
        let axes = principal_axes(&matrix);
        let dot = |one: &[f64], other: &[f64]| one.iter().zip(other).map(|(a, b)| a * b).sum::<f64>();
        for (number, one) in axes.iter().enumerate() {
            let image: Vec<f64> = matrix.iter().map(|row| dot(row, one)).collect();
            for other in &axes[number + 1..] {
                assert!(dot(one, other).abs() < 1e-9 && dot(&image, other).abs() < 1e-9);
            }
            assert!((dot(one, one) - 1.0).abs() < 1e-9);
        }
    }
}
