//! Times and counts of a script: a fixed value or a distribution.
//!
//! They are parsed from `50ms`, `uniform:10ms..20ms`, `normal:50ms,5ms` or `exponential:20ms`; counts have no unit.
//! Draws are never negative, and the same generator gives the same draws.

use std::f64::consts::TAU;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::error::ScriptError;

/// The longest time: one day.
const MAX_SECONDS: f64 = 86_400.0;
/// The largest count.
const MAX_TOKENS: f64 = 1e6;

/// A distribution of values in one unit.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Distribution {
    Fixed(f64),
    Uniform { low: f64, high: f64 },
    Normal { mean: f64, deviation: f64 },
    Exponential { mean: f64 },
}

impl Distribution {
    /// `None` if the text is not a distribution, or if `value` cannot parse one of its values.
    fn parse(text: &str, value: impl Fn(&str) -> Option<f64>) -> Option<Self> {
        let Some((name, rest)) = text.split_once(':') else { return value(text).map(Self::Fixed) };
        match name.trim() {
            "uniform" => {
                let (low, high) = rest.split_once("..")?;
                let (low, high) = (value(low)?, value(high)?);
                (low <= high).then_some(Self::Uniform { low, high })
            }
            "normal" => {
                let (mean, deviation) = rest.split_once(',')?;
                Some(Self::Normal { mean: value(mean)?, deviation: value(deviation)? })
            }
            "exponential" => Some(Self::Exponential { mean: value(rest)? }),
            _ => None,
        }
    }

    fn draw(self, random: &mut fastrand::Rng, max: f64) -> f64 {
        // 1 - [0, 1) is never zero, so its logarithm is finite.
        let value = match self {
            Self::Fixed(value) => value,
            Self::Uniform { low, high } => low + (high - low) * random.f64(),
            Self::Normal { mean, deviation } => {
                let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
                mean + deviation * radius * (TAU * random.f64()).cos()
            }
            Self::Exponential { mean } => -mean * (1.0 - random.f64()).ln(),
        };
        value.clamp(0.0, max)
    }

    fn write(self, formatter: &mut fmt::Formatter<'_>, value: impl Fn(f64) -> String) -> fmt::Result {
        match self {
            Self::Fixed(fixed) => write!(formatter, "{}", value(fixed)),
            Self::Uniform { low, high } => write!(formatter, "uniform:{}..{}", value(low), value(high)),
            Self::Normal { mean, deviation } => write!(formatter, "normal:{},{}", value(mean), value(deviation)),
            Self::Exponential { mean } => write!(formatter, "exponential:{}", value(mean)),
        }
    }
}

/// How long the server waits before the first token or between two tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Delay(Distribution);

impl Delay {
    /// A fixed time.
    #[must_use]
    pub const fn fixed(time: Duration) -> Self {
        Self(Distribution::Fixed(time.as_secs_f64()))
    }

    /// Draws a time.
    pub(crate) fn draw(self, random: &mut fastrand::Rng) -> Duration {
        Duration::from_secs_f64(self.0.draw(random, MAX_SECONDS))
    }
}

impl FromStr for Delay {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        Distribution::parse(text, seconds).map(Self).ok_or_else(|| ScriptError::Delay(text.to_owned()))
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(formatter, |seconds| match seconds {
            0.001.. => format!("{}ms", seconds * 1e3),
            _ => format!("{}us", seconds * 1e6),
        })
    }
}

/// Parses `50ms`; zero needs no unit.
fn seconds(text: &str) -> Option<f64> {
    let text = text.trim();
    let split = text.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number.parse().ok()?;
    let seconds = match unit.trim() {
        "us" => number / 1e6,
        "ms" => number / 1e3,
        "s" => number,
        "m" | "min" => number * 60.0,
        "" if number == 0.0 => 0.0,
        _ => return None,
    };
    (0.0..=MAX_SECONDS).contains(&seconds).then_some(seconds)
}

/// The number of tokens of an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Length(Distribution);

impl Length {
    /// A fixed number of tokens.
    #[must_use]
    pub fn fixed(tokens: u32) -> Self {
        Self(Distribution::Fixed(f64::from(tokens)))
    }

    /// Draws a number of tokens.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a draw is from 0 to a million")]
    pub(crate) fn draw(self, random: &mut fastrand::Rng) -> u64 {
        self.0.draw(random, MAX_TOKENS).round() as u64
    }
}

impl FromStr for Length {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        let count = |text: &str| text.trim().parse().ok().filter(|count| (0.0..=MAX_TOKENS).contains(count));
        Distribution::parse(text, count).map(Self).ok_or_else(|| ScriptError::Length(text.to_owned()))
    }
}

impl fmt::Display for Length {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(formatter, |count| count.to_string())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_form_is_parsed_and_formatted() {
        for text in ["50ms", "uniform:10ms..20ms", "normal:50ms,5ms", "exponential:20ms", "500us"] {
            assert_eq!(text.parse::<Delay>().unwrap().to_string(), text);
        }
        for text in ["128", "uniform:10..200", "normal:128,20", "exponential:100"] {
            assert_eq!(text.parse::<Length>().unwrap().to_string(), text);
        }
        assert_eq!("2s".parse::<Delay>().unwrap(), Delay::fixed(Duration::from_secs(2)));
        assert_eq!("0".parse::<Delay>().unwrap(), Delay::fixed(Duration::ZERO));
    }

    #[test]
    fn invalid_text_gives_the_valid_forms() {
        for text in
            ["", "50", "ms", "uniform:20ms..10ms", "uniform:20ms", "normal:5ms", "gamma:1ms", "-5ms", "9999h", "nan"]
        {
            let error = text.parse::<Delay>().unwrap_err();
            assert!(error.to_string().contains("uniform:10ms..20ms"), "{error}");
        }
        for text in ["", "5ms", "-1", "inf", "nan", "uniform:5", "1e9"] {
            assert!(text.parse::<Length>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn draws_are_in_range_and_repeat(low in 0.0..1000.0f64, width in 0.0..1000.0f64, seed: u64) {
            let forms = [
                Distribution::Uniform { low, high: low + width },
                Distribution::Normal { mean: low, deviation: width },
                Distribution::Exponential { mean: low },
            ];
            for form in forms {
                let draws = |seed| {
                    let mut random = fastrand::Rng::with_seed(seed);
                    (0..20).map(|_| form.draw(&mut random, 1500.0)).collect::<Vec<_>>()
                };
                prop_assert_eq!(draws(seed), draws(seed));
                prop_assert!(draws(seed).iter().all(|draw| (0.0..=1500.0).contains(draw)));
                if let Distribution::Uniform { low, high } = form {
                    prop_assert!(draws(seed).iter().all(|draw| (low..=high.max(low)).contains(draw) || high > 1500.0));
                }
            }
        }
    }

    #[test]
    fn means_match_the_distribution() {
        let mut random = fastrand::Rng::with_seed(7);
        for text in ["uniform:0..200", "normal:100,10", "exponential:100"] {
            let length: Length = text.parse().unwrap();
            let sum: u64 = (0..10_000).map(|_| length.draw(&mut random)).sum();
            assert!((960_000..1_040_000).contains(&sum), "{text}: {sum}");
        }
    }
}
