//! When requests are sent: as others end, at a rate, or at the times that a file says.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// When requests are sent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
pub enum Schedule {
    /// A closed loop: so many are in flight, and the next is due when one ends.
    Concurrency {
        /// How many.
        concurrency: u32,
    },
    /// An open loop: they are due at a rate, however long answers take.
    Rate {
        /// How many a second.
        rate: f64,
        /// How they are spread.
        arrivals: Arrivals,
    },
    /// An open loop: they are due when their queries say.
    Replay {
        /// How many times faster than recorded.
        speed: f64,
    },
}

impl Schedule {
    /// One at a time.
    pub const ONE: Self = Self::Concurrency { concurrency: 1 };

    /// The word for it in files.
    #[must_use]
    pub const fn mode(&self) -> &'static str {
        match self {
            Self::Concurrency { .. } => "concurrency",
            Self::Rate { .. } => "rate",
            Self::Replay { .. } => "replay",
        }
    }

    /// How many are in flight, in a closed loop.
    #[must_use]
    pub const fn concurrency(&self) -> Option<u32> {
        match self {
            Self::Concurrency { concurrency } => Some(*concurrency),
            Self::Rate { .. } | Self::Replay { .. } => None,
        }
    }

    /// How many are due a second, where that is what was asked for.
    #[must_use]
    pub const fn rate(&self) -> Option<f64> {
        match self {
            Self::Rate { rate, .. } => Some(*rate),
            Self::Concurrency { .. } | Self::Replay { .. } => None,
        }
    }
}

/// How the arrivals of an open loop are spread. All have the same mean rate.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Arrivals {
    /// Evenly.
    Constant,
    /// As they come from many who do not know of each other: exponential gaps.
    #[default]
    Poisson,
    /// Gaps of a gamma distribution. A shape below 1 comes in bursts, 1 is Poisson, a larger one is more even.
    Gamma(f64),
}

/// The shape of `gamma` where none is said: bursts.
const BURSTY: f64 = 0.5;

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant => f.write_str("constant"),
            Self::Poisson => f.write_str("poisson"),
            Self::Gamma(shape) => write!(f, "gamma:{shape}"),
        }
    }
}

impl FromStr for Arrivals {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shape = |text: &str| text.parse().ok().filter(|shape| (0.01..=1000.0).contains(shape));
        match text.split_once(':') {
            None if text == "constant" => Ok(Self::Constant),
            None if text == "poisson" => Ok(Self::Poisson),
            None if text == "gamma" => Ok(Self::Gamma(BURSTY)),
            Some(("gamma", text)) if let Some(shape) = shape(text) => Ok(Self::Gamma(shape)),
            Some(("gamma", text)) => {
                Err(format!("`{text}` is no shape. hint: a number from 0.01 to 1000; below 1 is bursty"))
            }
            _ => Err(format!("no arrivals `{text}`. hint: constant, poisson, gamma or gamma:SHAPE")),
        }
    }
}

impl From<Arrivals> for String {
    fn from(arrivals: Arrivals) -> Self {
        arrivals.to_string()
    }
}

impl TryFrom<String> for Arrivals {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// What differs between the points of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// How many requests are in flight.
    Concurrency,
    /// How many are sent a second.
    Rate,
    /// How fast a file is replayed.
    Replay,
}

impl Axis {
    /// That of a schedule.
    #[must_use]
    pub const fn of(schedule: &Schedule) -> Self {
        match schedule {
            Schedule::Concurrency { .. } => Self::Concurrency,
            Schedule::Rate { .. } => Self::Rate,
            Schedule::Replay { .. } => Self::Replay,
        }
    }

    /// Where a schedule stands on its axis.
    #[must_use]
    pub fn value(schedule: &Schedule) -> f64 {
        match *schedule {
            Schedule::Concurrency { concurrency } => f64::from(concurrency),
            Schedule::Rate { rate, .. } => rate,
            Schedule::Replay { speed } => speed,
        }
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Concurrency => "concurrency",
            Self::Rate => "rate",
            Self::Replay => "replay",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_written_as_they_are_read() {
        for text in ["constant", "poisson", "gamma:0.5", "gamma:3"] {
            assert_eq!(text.parse::<Arrivals>().unwrap().to_string(), text);
        }
        assert_eq!("gamma".parse(), Ok(Arrivals::Gamma(0.5)));
        for wrong in ["", "Poisson ", "gamma:", "gamma:0", "gamma:nan", "gamma:inf", "constant:1", "uniform"] {
            assert!(wrong.parse::<Arrivals>().unwrap_err().contains("hint: "), "{wrong}");
        }
    }

    #[test]
    fn a_schedule_is_stored_by_its_mode() {
        let rate = Schedule::Rate { rate: 2.5, arrivals: Arrivals::Gamma(0.5) };
        let text = serde_json::to_string(&rate).unwrap();
        assert_eq!(text, r#"{"mode":"rate","rate":2.5,"arrivals":"gamma:0.5"}"#);
        assert_eq!(serde_json::from_str::<Schedule>(&text).unwrap(), rate);
        assert_eq!((Schedule::ONE.concurrency(), Schedule::ONE.rate(), rate.rate()), (Some(1), None, Some(2.5)));
    }
}
