//! Distributions of prompt and answer lengths: `512`, `uniform:100..200`, `normal:500,100`, `lognormal:500,200`,
//! `exponential:300`.
//!
//! Mean and standard deviation are those of the lengths before they are limited to the range from 1 to the maximum.

use std::str::FromStr;

use ergometer_diagnostics::{Hint, Message};

use super::random::Random;

/// Maximum length of a prompt in tokens.
pub(super) const LONGEST: u64 = 1 << 22;

/// A distribution of lengths.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Lengths {
    Fixed(u64),
    Uniform { least: u64, most: u64 },
    Normal { mean: f64, deviation: f64 },
    LogNormal { mean: f64, deviation: f64 },
    Exponential { mean: f64 },
}

impl Lengths {
    /// Draws a length from 1 to `most`.
    pub(super) fn draw(self, random: &mut Random, most: u64) -> u64 {
        let length = match self {
            Self::Fixed(length) => return length.clamp(1, most),
            Self::Uniform { least, most: end } => return (least + random.below(end - least + 1)).clamp(1, most),
            Self::Normal { mean, deviation } => mean + deviation * random.normal(),
            Self::LogNormal { mean, deviation } => {
                // Variance and mean of the logarithm that give these lengths.
                let variance = (deviation / mean).powi(2).ln_1p();
                (mean.ln() - variance / 2.0 + variance.sqrt() * random.normal()).exp()
            }
            Self::Exponential { mean } => -mean * random.unit().ln(),
        };
        rounded(length).clamp(1, most)
    }
}

/// The nearest whole number; the cast saturates outside the range.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of a float saturates")]
fn rounded(length: f64) -> u64 {
    length.round() as u64
}

impl FromStr for Lengths {
    type Err = Message;

    fn from_str(text: &str) -> Result<Self, Message> {
        let invalid = || {
            let hint =
                format!("use N, uniform:A..B, normal:MEAN,SD, lognormal:MEAN,SD or exponential:MEAN, up to {LONGEST}");
            Message::new(format!("`{text}` is not a length")).with_hint(Hint::text(hint))
        };
        let count = |text: &str| text.trim().parse::<u64>().ok().filter(|&count| (1..=LONGEST).contains(&count));
        let number =
            |text: &str| text.trim().parse::<f64>().ok().filter(|number| (0.0..=LONGEST as f64).contains(number));
        let positive = |text: &str| number(text).filter(|&number| number > 0.0);
        let pair = |text: &str| {
            let (mean, deviation) = text.split_once(',')?;
            Some((positive(mean)?, number(deviation)?))
        };
        let lengths = match text.split_once(':') {
            None => count(text).map(Self::Fixed),
            Some(("uniform", range)) => range
                .split_once("..")
                .and_then(|(least, most)| Some((count(least)?, count(most)?)))
                .filter(|(least, most)| least <= most)
                .map(|(least, most)| Self::Uniform { least, most }),
            Some(("normal", rest)) => pair(rest).map(|(mean, deviation)| Self::Normal { mean, deviation }),
            Some(("lognormal", rest)) => pair(rest).map(|(mean, deviation)| Self::LogNormal { mean, deviation }),
            Some(("exponential", rest)) => positive(rest).map(|mean| Self::Exponential { mean }),
            Some(_) => None,
        };
        lengths.ok_or_else(invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean and standard deviation of many lengths.
    fn moments(text: &str) -> (f64, f64) {
        let (lengths, count): (Lengths, u64) = (text.parse().unwrap(), 20_000);
        let drawn: Vec<f64> =
            (0..count).map(|index| lengths.draw(&mut Random::for_query(7, index), LONGEST) as f64).collect();
        let mean = drawn.iter().sum::<f64>() / count as f64;
        let variance = drawn.iter().map(|length| (length - mean).powi(2)).sum::<f64>() / count as f64;
        (mean, variance.sqrt())
    }

    #[test]
    fn lengths_have_the_requested_mean_and_deviation() {
        let expected = [
            ("512", 512.0, 0.0),
            ("uniform:100..200", 150.0, 29.15),
            ("normal:500,100", 500.0, 100.0),
            ("lognormal:500,200", 500.0, 200.0),
            ("exponential:300", 300.0, 300.0),
        ];
        for (text, mean, deviation) in expected {
            let found = moments(text);
            // Five standard errors of 20,000 draws; more for the standard deviation, whose error is larger.
            assert!((found.0 - mean).abs() <= 0.036 * deviation, "{text}: {found:?}");
            assert!((found.1 - deviation).abs() <= 0.06 * deviation, "{text}: {found:?}");
        }
    }

    #[test]
    fn invalid_lengths_are_rejected() {
        for text in [
            "",
            "0",
            "-3",
            "uniform:5",
            "uniform:9..3",
            "normal:5",
            "normal:0,1",
            "lognormal:-1,2",
            "exponential:nan",
            "exponential:inf",
            "gamma:1,2",
            "99999999999",
        ] {
            assert!(text.parse::<Lengths>().unwrap_err().text.contains("is not a length"), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn lengths_stay_within_the_limits(seed: u64, most in 1_u64..1000, kind in 0_usize..5) {
            let text = ["700", "uniform:1..5000", "normal:5,900", "lognormal:50,4000000", "exponential:4000000"][kind];
            let length = text.parse::<Lengths>().unwrap().draw(&mut Random::new(seed), most);
            proptest::prop_assert!((1..=most).contains(&length));
        }
    }
}
