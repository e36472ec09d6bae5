//! When requests are sent: in a closed loop, at a rate, or at the times of a trace.

use std::fmt;
use std::str::FromStr;

use ergometer_diagnostics::{Diagnostic, Hint, hint};
use serde::{Deserialize, Serialize};

/// When requests are sent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
pub enum Schedule {
    /// A closed loop: the next request is due when one ends.
    Concurrency {
        /// The number of requests in flight.
        concurrency: u32,
    },
    /// An open loop: requests are due at a rate, independent of answers.
    Rate {
        /// Requests per second.
        rate: f64,
        /// The arrival process.
        arrivals: Arrivals,
    },
    /// An open loop: requests are due at the times of their queries.
    Replay {
        /// How many times faster than recorded.
        speed: f64,
    },
}

impl Schedule {
    /// One request at a time.
    pub const ONE: Self = Self::Concurrency { concurrency: 1 };

    /// Its name in files.
    #[must_use]
    pub const fn mode(&self) -> &'static str {
        match self {
            Self::Concurrency { .. } => "concurrency",
            Self::Rate { .. } => "rate",
            Self::Replay { .. } => "replay",
        }
    }

    /// The concurrency of a closed loop.
    #[must_use]
    pub const fn concurrency(&self) -> Option<u32> {
        match self {
            Self::Concurrency { concurrency } => Some(*concurrency),
            Self::Rate { .. } | Self::Replay { .. } => None,
        }
    }

    /// The requests per second, if the schedule is a rate.
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
    /// Equal gaps.
    Constant,
    /// Exponential gaps, as many independent users produce.
    #[default]
    Poisson,
    /// Gamma-distributed gaps. A shape below 1 sends bursts, 1 is Poisson, and a larger shape is more even.
    Gamma(f64),
}

/// The default shape of `gamma`.
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
    type Err = ArrivalsError;

    fn from_str(text: &str) -> Result<Self, ArrivalsError> {
        let shape = |text: &str| text.parse().ok().filter(|shape| (0.01..=1000.0).contains(shape));
        match text.split_once(':') {
            None if text == "constant" => Ok(Self::Constant),
            None if text == "poisson" => Ok(Self::Poisson),
            None if text == "gamma" => Ok(Self::Gamma(BURSTY)),
            Some(("gamma", text)) if let Some(shape) = shape(text) => Ok(Self::Gamma(shape)),
            Some(("gamma", text)) => Err(ArrivalsError::Shape { text: text.to_owned() }),
            _ => Err(ArrivalsError::Unknown { text: text.to_owned() }),
        }
    }
}

/// Why a text is not an arrival process.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArrivalsError {
    /// The process does not exist.
    #[error("unknown arrival process `{text}`")]
    Unknown {
        /// The text.
        text: String,
    },
    /// The shape of a gamma distribution is not a number in range.
    #[error("invalid shape `{text}` of gamma arrivals")]
    Shape {
        /// The text after the colon.
        text: String,
    },
}

impl Diagnostic for ArrivalsError {
    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::Unknown { .. } => hint!("use constant, poisson, gamma or gamma:SHAPE"),
            Self::Shape { .. } => hint!("use a number from 0.01 to 1000; a shape below 1 sends bursts"),
        })
    }
}

impl From<Arrivals> for String {
    fn from(arrivals: Arrivals) -> Self {
        arrivals.to_string()
    }
}

impl TryFrom<String> for Arrivals {
    type Error = ArrivalsError;

    fn try_from(text: String) -> Result<Self, ArrivalsError> {
        text.parse()
    }
}

/// The quantity that differs between the points of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// The number of requests in flight.
    Concurrency,
    /// Requests per second.
    Rate,
    /// The speed of a replayed trace.
    Replay,
}

impl Axis {
    /// The axis of a schedule.
    #[must_use]
    pub const fn from_schedule(schedule: &Schedule) -> Self {
        match schedule {
            Schedule::Concurrency { .. } => Self::Concurrency,
            Schedule::Rate { .. } => Self::Rate,
            Schedule::Replay { .. } => Self::Replay,
        }
    }

    /// The value of a schedule on its axis.
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
    fn arrivals_are_parsed_and_written_alike() {
        for text in ["constant", "poisson", "gamma:0.5", "gamma:3"] {
            assert_eq!(text.parse::<Arrivals>().unwrap().to_string(), text);
        }
        assert_eq!("gamma".parse(), Ok(Arrivals::Gamma(0.5)));
        for wrong in ["", "Poisson ", "gamma:", "gamma:0", "gamma:nan", "gamma:inf", "constant:1", "uniform"] {
            assert!(wrong.parse::<Arrivals>().unwrap_err().hint().is_some(), "{wrong}");
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
