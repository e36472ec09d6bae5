//! Vector arithmetic: dot product, norm, softmax and gate.
//!
//! These are plain loops that the compiler vectorises. Sums use several lanes, because a single running sum cannot be
//! vectorised.

/// Lanes of a sum: four SSE2 registers of four floats, or two AVX registers of eight.
const LANES: usize = 16;

/// The dot product. If the lengths differ, the rest of the longer slice is ignored.
pub(crate) fn dot(left: &[f32], right: &[f32]) -> f32 {
    let mut sums = [0.0; LANES];
    let (left_chunks, left_rest) = left.as_chunks::<LANES>();
    let (right_chunks, right_rest) = right.as_chunks::<LANES>();
    for (left, right) in left_chunks.iter().zip(right_chunks) {
        for lane in 0..LANES {
            sums[lane] += left[lane] * right[lane];
        }
    }
    let rest: f32 = left_rest.iter().zip(right_rest).map(|(left, right)| left * right).sum();
    // Adding halves takes four dependent steps instead of sixteen. For heads of sixteen elements that is most of the
    // time.
    for half in [8, 4, 2, 1] {
        for lane in 0..half {
            sums[lane] += sums[lane + half];
        }
    }
    sums[0] + rest
}

/// Adds `more` to `sum`, element by element.
pub(crate) fn add(sum: &mut [f32], more: &[f32]) {
    for (sum, more) in sum.iter_mut().zip(more) {
        *sum += more;
    }
}

/// Adds `more`, times `factor`, to `sum`.
pub(crate) fn add_scaled(sum: &mut [f32], more: &[f32], factor: f32) {
    for (sum, more) in sum.iter_mut().zip(more) {
        *sum += more * factor;
    }
}

/// Divides each row of `rows` by its root mean square and scales it by `weight`. A row is as long as `weight`.
pub(crate) fn rms_norm(rows: &[f32], weight: &[f32], epsilon: f32, normed: &mut [f32]) {
    for (row, normed) in rows.chunks_exact(weight.len()).zip(normed.chunks_exact_mut(weight.len())) {
        let scale = 1.0 / (dot(row, row) / row.len() as f32 + epsilon).sqrt();
        for ((normed, value), weight) in normed.iter_mut().zip(row).zip(weight) {
            *normed = weight * (value * scale);
        }
    }
}

/// Turns scores into weights that sum to one. It subtracts the highest score first to avoid an overflow.
pub(crate) fn softmax(scores: &mut [f32]) {
    let highest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for score in &mut *scores {
        *score = (*score - highest).exp();
        sum += *score;
    }
    let scale = 1.0 / sum;
    for score in scores {
        *score *= scale;
    }
}

/// The gate of the feed-forward block: `gate = silu(gate) * up`, with `silu(x) = x / (1 + exp(-x))`.
pub(crate) fn silu_gate(gate: &mut [f32], up: &[f32]) {
    for (gate, up) in gate.iter_mut().zip(up) {
        *gate = *gate / (1.0 + (-*gate).exp()) * up;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dot_product_includes_the_rest_after_full_chunks() {
        let left: Vec<f32> = (0_u8..19).map(f32::from).collect();
        let ones = vec![1.0; 19];
        assert_eq!(dot(&left, &ones), 171.0);
        assert_eq!(dot(&left[..3], &left[..3]), 5.0);
        assert_eq!(dot(&[], &[]), 0.0);
    }

    #[test]
    fn rms_norm_divides_by_the_root_mean_square_of_each_row() {
        let mut normed = [0.0; 4];
        rms_norm(&[3.0, 4.0, 0.0, 2.0], &[1.0, 2.0], 0.0, &mut normed);
        // The mean squares are 12.5 and 2.
        let expected = [3.0 / 12.5_f32.sqrt(), 8.0 / 12.5_f32.sqrt(), 0.0, 4.0 / 2.0_f32.sqrt()];
        assert!(normed.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-6), "{normed:?}");
        rms_norm(&[0.0, 0.0], &[1.0, 1.0], 1e-5, &mut normed);
        assert_eq!(normed[..2], [0.0, 0.0], "epsilon keeps a row of zeros finite");
    }

    #[test]
    fn softmax_sums_to_one_and_does_not_overflow() {
        let mut scores = [0.0, 2.0_f32.ln(), 5.0_f32.ln()];
        softmax(&mut scores);
        assert!(scores.iter().zip([0.125, 0.25, 0.625]).all(|(found, expected)| (found - expected).abs() < 1e-6));
        let mut large = [1000.0, 1000.0, -1000.0];
        softmax(&mut large);
        assert_eq!(large, [0.5, 0.5, 0.0]);
    }

    #[test]
    fn the_gate_is_silu_times_up() {
        let mut gate = [0.0, 1.0, -2.0];
        silu_gate(&mut gate, &[5.0, 2.0, 1.0]);
        // silu(1) = 0.731059, silu(-2) = -0.238406
        assert!(gate.iter().zip([0.0, 1.462_117, -0.238_406]).all(|(found, expected)| (found - expected).abs() < 1e-6));
        let mut far = [-200.0];
        silu_gate(&mut far, &[1.0]);
        assert_eq!(far[0], 0.0, "an infinite exponential is a closed gate");
    }
}
