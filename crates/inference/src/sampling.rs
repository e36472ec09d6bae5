//! Chooses the next token from the logits. The same seed gives the same tokens.
//!
//! The order of the steps is the same as in transformers: temperature, then `top_k`, then `top_p`. Tokens with equal
//! logits are ranked by token number, so the choice is deterministic.

use fastrand::Rng;

use crate::error::GenerateError;

/// How to choose tokens and when to stop.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sampling {
    /// The maximum number of tokens to generate. The default is the rest of the context.
    pub max_tokens: Option<usize>,
    /// 0, the default, always chooses the most likely token; 1 samples from the model's unchanged probabilities.
    pub temperature: f32,
    /// Sample from the smallest set of most likely tokens with at least this total probability, above 0 and at most 1.
    pub top_p: Option<f32>,
    /// Sample from this many of the most likely tokens, at least 1.
    pub top_k: Option<usize>,
    /// Random seed. It has no effect at temperature 0.
    pub seed: u64,
    /// Texts that end the answer. The answer does not include them. Empty texts are ignored.
    pub stop: Vec<String>,
    /// The effect of an end-of-sequence token.
    pub end_of_sequence: EndOfSequence,
}

/// The effect of an end-of-sequence token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EndOfSequence {
    /// It ends the answer.
    #[default]
    Stop,
    /// It is ignored: the answer continues up to its maximum length. The token has no text.
    Ignore,
}

/// Chooses tokens.
pub(crate) struct Sampler {
    temperature: f32,
    top_p: f32,
    top_k: usize,
    random: Rng,
    /// Tokens and their weights, kept from call to call.
    candidates: Vec<(u32, f32)>,
}

impl Sampler {
    pub(crate) fn new(sampling: &Sampling) -> Result<Self, GenerateError> {
        let &Sampling { temperature, top_p, top_k, seed, .. } = sampling;
        let wrong = |parameter, value: String, range| Err(GenerateError::Sampling { parameter, value, range });
        if !(temperature >= 0.0 && temperature.is_finite()) {
            return wrong("temperature", temperature.to_string(), "at least 0 and finite");
        }
        if let Some(top_p) = top_p.filter(|top_p| !(*top_p > 0.0 && *top_p <= 1.0)) {
            return wrong("top_p", top_p.to_string(), "above 0 and at most 1");
        }
        if top_k == Some(0) {
            return wrong("top_k", String::from("0"), "at least 1");
        }
        Ok(Self {
            temperature,
            top_p: top_p.unwrap_or(1.0),
            top_k: top_k.unwrap_or(usize::MAX),
            random: Rng::with_seed(seed),
            candidates: Vec::new(),
        })
    }

    /// Chooses a token. Returns `None` if there are no logits or one is not finite.
    pub(crate) fn pick(&mut self, logits: &[f32]) -> Option<u32> {
        if !logits.iter().all(|logit| logit.is_finite()) {
            return None;
        }
        let tokens = (0_u32..).zip(logits.iter().copied());
        // Of equal logits the first wins, as in torch.
        let (best, highest) = tokens.clone().reduce(|best, next| if next.1 > best.1 { next } else { best })?;
        if self.temperature == 0.0 || self.top_k == 1 {
            return Some(best);
        }
        self.candidates.clear();
        // At a very low temperature the division overflows and exp(-inf) is 0, except 0 / 0 for the best token itself.
        let weigh = |logit: f32| if logit == highest { 1.0 } else { ((logit - highest) / self.temperature).exp() };
        self.candidates.extend(tokens.map(|(token, logit)| (token, weigh(logit))));
        if self.top_k < self.candidates.len() || self.top_p < 1.0 {
            self.restrict();
        }
        Some(self.draw().unwrap_or(best))
    }

    /// Removes candidates beyond `top_k` and `top_p`.
    fn restrict(&mut self) {
        let rank = |left: &(u32, f32), right: &(u32, f32)| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0));
        if self.top_k < self.candidates.len() {
            self.candidates.select_nth_unstable_by(self.top_k, rank);
            self.candidates.truncate(self.top_k);
        }
        self.candidates.sort_unstable_by(rank);
        if self.top_p < 1.0 {
            let enough = self.top_p * self.candidates.iter().map(|(_, weight)| weight).sum::<f32>();
            let mut sum = 0.0;
            let reached = self.candidates.iter().position(|(_, weight)| {
                sum += weight;
                sum >= enough
            });
            self.candidates.truncate(reached.map_or(usize::MAX, |last| last + 1));
        }
    }

    /// Draws a candidate with probability proportional to its weight. Returns `None` if all weights are zero.
    fn draw(&mut self) -> Option<u32> {
        let mut left = self.random.f32() * self.candidates.iter().map(|(_, weight)| weight).sum::<f32>();
        let possible = || self.candidates.iter().filter(|(_, weight)| *weight > 0.0);
        let drawn = possible().find(|(_, weight)| {
            left -= weight;
            left < 0.0
        });
        // Rounding may leave a remainder after the last candidate.
        drawn.or_else(|| possible().next_back()).map(|(token, _)| *token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Probabilities 0.5, 0.1, 0.3 and 0.1 at temperature 1.
    const PROBABILITIES: [f32; 4] = [0.5, 0.1, 0.3, 0.1];

    fn logits() -> [f32; 4] {
        PROBABILITIES.map(|probability| probability.ln() + 3.0)
    }

    /// Shares of the tokens in 40,000 draws.
    fn shares(sampling: &Sampling) -> [f32; 4] {
        let mut sampler = Sampler::new(sampling).unwrap();
        let mut counts = [0_u16; 4];
        for _ in 0..40_000 {
            counts[sampler.pick(&logits()).unwrap() as usize] += 1;
        }
        counts.map(|count| f32::from(count) / 40_000.0)
    }

    /// 0.0125 is five standard deviations of the share of a token with probability 1/2.
    fn close(found: [f32; 4], expected: [f32; 4]) {
        let agree = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 0.0125);
        assert!(agree, "{found:?} and not {expected:?}");
        assert!(found.iter().zip(expected).all(|(found, expected)| (expected == 0.0) == (*found == 0.0)));
    }

    #[test]
    fn draws_follow_the_probabilities() {
        let plain = Sampling { temperature: 1.0, seed: 1, ..Sampling::default() };
        close(shares(&plain), PROBABILITIES);
        // Temperature 1/2 squares them: 25, 1, 9 and 1 of 36.
        let cold = Sampling { temperature: 0.5, ..plain.clone() };
        close(shares(&cold), [25.0 / 36.0, 1.0 / 36.0, 9.0 / 36.0, 1.0 / 36.0]);
        close(shares(&Sampling { top_k: Some(2), ..plain.clone() }), [0.625, 0.0, 0.375, 0.0]);
        // Of two equal ones the first is taken.
        close(shares(&Sampling { top_k: Some(3), ..plain.clone() }), [5.0 / 9.0, 1.0 / 9.0, 3.0 / 9.0, 0.0]);
        close(shares(&Sampling { top_p: Some(0.7), ..plain.clone() }), [0.625, 0.0, 0.375, 0.0]);
        close(shares(&Sampling { top_p: Some(0.4), ..plain.clone() }), [1.0, 0.0, 0.0, 0.0]);
        close(shares(&Sampling { top_p: Some(1.0), top_k: Some(9), ..plain.clone() }), PROBABILITIES);
        // Top-k first: of 0.625 and 0.375, the first alone reaches 0.6.
        close(shares(&Sampling { top_p: Some(0.6), top_k: Some(2), ..plain }), [1.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn greedy_chooses_the_first_of_equal_logits() {
        let mut sampler = Sampler::new(&Sampling::default()).unwrap();
        assert_eq!(sampler.pick(&[1.0, 3.0, 3.0, -1.0]), Some(1));
        assert_eq!(sampler.pick(&[]), None);
        assert_eq!(sampler.pick(&[1.0, f32::NAN]), None);
        assert_eq!(sampler.pick(&[1.0, f32::INFINITY]), None);
    }

    #[test]
    fn a_temperature_near_zero_is_greedy() {
        let mut sampler = Sampler::new(&Sampling { temperature: 1e-45, ..Sampling::default() }).unwrap();
        assert!((0..100).all(|_| sampler.pick(&[1.0, 3.0, 2.0]) == Some(1)));
    }

    #[test]
    fn parameters_out_of_range_are_errors() {
        for sampling in [
            Sampling { temperature: -0.1, ..Sampling::default() },
            Sampling { temperature: f32::NAN, ..Sampling::default() },
            Sampling { top_p: Some(0.0), ..Sampling::default() },
            Sampling { top_p: Some(1.1), ..Sampling::default() },
            Sampling { top_k: Some(0), ..Sampling::default() },
        ] {
            assert!(matches!(Sampler::new(&sampling), Err(GenerateError::Sampling { .. })), "{sampling:?}");
        }
    }
}
