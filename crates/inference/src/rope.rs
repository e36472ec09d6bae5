//! Rotates queries and keys by their position (rotary position embeddings).
//!
//! The two elements of a pair are half a head apart, as in Hugging Face files. Angles are 32-bit floats, as in
//! transformers. They are computed when needed: a table for a context of 131,072 tokens would take 67 MB.

use std::f32::consts::TAU;

/// How frequencies are scaled for contexts longer than in training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum RopeScaling {
    /// Frequencies are not scaled.
    None,
    /// All frequencies are divided by one factor.
    Linear {
        /// The factor by which the context becomes longer.
        factor: f32,
    },
    /// As in Llama 3.1: low frequencies are divided by the factor, high ones are unchanged, and those between are
    /// interpolated.
    Llama3 {
        /// The factor by which the context becomes longer.
        factor: f32,
        /// A frequency with fewer turns in the original context is low.
        low_frequency_factor: f32,
        /// A frequency with more turns in the original context is high.
        high_frequency_factor: f32,
        /// Tokens of the original context.
        original_context: f32,
    },
}

/// The frequency of each pair in a head.
#[derive(Debug)]
pub(crate) struct Rope {
    frequencies: Vec<f32>,
}

/// Cosines and sines of a range of positions, shared by all layers and heads.
#[derive(Debug, Default)]
pub(crate) struct Rotations {
    /// `(cosine, sine)` for each position and each pair, ordered by position.
    turns: Vec<(f32, f32)>,
}

impl Rope {
    /// Computes the frequencies for heads of an even `head_size`.
    pub(crate) fn new(head_size: usize, theta: f32, scaling: RopeScaling) -> Self {
        let frequency = |pair: usize| 1.0 / theta.powf((2 * pair) as f32 / head_size as f32);
        let frequencies = (0..head_size / 2).map(|pair| scaling.apply(frequency(pair))).collect();
        Self { frequencies }
    }

    /// Computes the rotations of `count` positions, starting at `first`.
    pub(crate) fn rotations(&self, first: usize, count: usize, into: &mut Rotations) {
        into.turns.clear();
        for position in first..first + count {
            let position = position as f32;
            into.turns.extend(self.frequencies.iter().map(|frequency| {
                let (sine, cosine) = (position * frequency).sin_cos();
                (cosine, sine)
            }));
        }
    }

    /// Rotates the heads of each position. `rows` holds one row of `heads` heads for each position of `rotations`.
    pub(crate) fn rotate(&self, rotations: &Rotations, rows: &mut [f32], heads: usize) {
        let pairs = self.frequencies.len();
        let rows = rows.chunks_exact_mut(heads * 2 * pairs);
        for (row, turns) in rows.zip(rotations.turns.chunks_exact(pairs)) {
            for head in row.chunks_exact_mut(2 * pairs) {
                let (left, right) = head.split_at_mut(pairs);
                for ((left, right), (cosine, sine)) in left.iter_mut().zip(right).zip(turns) {
                    (*left, *right) = (*left * cosine - *right * sine, *right * cosine + *left * sine);
                }
            }
        }
    }
}

impl RopeScaling {
    fn apply(self, frequency: f32) -> f32 {
        match self {
            Self::None => frequency,
            Self::Linear { factor } => frequency / factor,
            Self::Llama3 { factor, low_frequency_factor, high_frequency_factor, original_context } => {
                let wavelength = TAU / frequency;
                if wavelength < original_context / high_frequency_factor {
                    frequency
                } else if wavelength > original_context / low_frequency_factor {
                    frequency / factor
                } else {
                    let turns = original_context / wavelength;
                    let fast = (turns - low_frequency_factor) / (high_frequency_factor - low_frequency_factor);
                    (1.0 - fast) * frequency / factor + fast * frequency
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: &[f32], expected: &[f32]) -> bool {
        found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6)
    }

    #[test]
    fn the_angle_of_a_pair_is_position_times_frequency() {
        // A head of 4: pairs (0, 2) and (1, 3), frequencies 1 and 100^-0.5 = 0.1.
        let rope = Rope::new(4, 100.0, RopeScaling::None);
        assert!(close(&rope.frequencies, &[1.0, 0.1]));
        let mut rotations = Rotations::default();
        rope.rotations(2, 2, &mut rotations);
        let mut rows = [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0];
        rope.rotate(&rotations, &mut rows, 1);
        let expected = [
            2_f32.cos(),
            0.2_f32.cos(),
            2_f32.sin(),
            0.2_f32.sin(),
            -3_f32.sin(),
            -0.3_f32.sin(),
            3_f32.cos(),
            0.3_f32.cos(),
        ];
        assert!(close(&rows, &expected), "{rows:?}");
    }

    #[test]
    fn position_zero_is_unchanged_and_all_heads_rotate_equally() {
        let rope = Rope::new(2, 10_000.0, RopeScaling::None);
        let mut rotations = Rotations::default();
        rope.rotations(0, 2, &mut rotations);
        let mut rows = [1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0];
        rope.rotate(&rotations, &mut rows, 2);
        let (cosine, sine) = (1_f32.cos(), 1_f32.sin());
        assert!(close(&rows, &[1.0, 0.0, 1.0, 0.0, cosine, sine, cosine, sine]));
    }

    #[test]
    fn scaling_lowers_low_frequencies() {
        assert!(close(&Rope::new(4, 100.0, RopeScaling::Linear { factor: 4.0 }).frequencies, &[0.25, 0.025]));
        let llama = |original_context| RopeScaling::Llama3 {
            factor: 8.0,
            low_frequency_factor: 1.0,
            high_frequency_factor: 4.0,
            original_context,
        };
        // Wavelength 6.28: many turns in 8192 tokens, none in 5, and 2.5 turns in 5 * pi tokens, half way from 1 to 4.
        assert!(close(&[llama(8192.0).apply(1.0)], &[1.0]));
        assert!(close(&[llama(5.0).apply(1.0)], &[0.125]));
        assert!(close(&[llama(TAU * 2.5).apply(1.0)], &[0.5 / 8.0 + 0.5]));
    }
}
