//! The faults that the server can produce, and how often.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::error::ScriptError;

/// A fault. A request has at most one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Fault {
    /// The port refuses connections for a share of the time. This is not a fault of one request.
    Refuse,
    /// The request is read and never answered.
    Hang,
    /// The stream stalls in the middle.
    HangStream,
    /// The connection is reset before any answer.
    Reset,
    /// The connection is reset in the middle of the stream.
    ResetStream,
    /// All times are multiplied by a factor.
    Slow,
    /// Status 429 with `Retry-After`.
    TooManyRequests,
    /// Status 500.
    ServerError,
    /// Status 503 with `Retry-After`.
    Unavailable,
    /// A line in the middle of the stream is not JSON; the stream continues.
    BadSse,
    /// The stream ends in the middle with an error object.
    ErrorStream,
    /// The connection is closed in the middle of the stream, before the end of the body.
    Truncated,
    /// Usage is missing, even if requested.
    NoUsage,
    /// The answer has no content.
    Empty,
    /// `[DONE]` is missing; from Ollama, the line with `done: true`.
    NoDone,
    /// The answer is gzip, although the client did not accept it.
    Compressed,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 16] = [
        Self::Refuse,
        Self::Hang,
        Self::HangStream,
        Self::Reset,
        Self::ResetStream,
        Self::Slow,
        Self::TooManyRequests,
        Self::ServerError,
        Self::Unavailable,
        Self::BadSse,
        Self::ErrorStream,
        Self::Truncated,
        Self::NoUsage,
        Self::Empty,
        Self::NoDone,
        Self::Compressed,
    ];

    /// The name, as in a script and in the header `x-mock-fault`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Hang => "hang",
            Self::HangStream => "hang-stream",
            Self::Reset => "reset",
            Self::ResetStream => "reset-stream",
            Self::Slow => "slow",
            Self::TooManyRequests => "429",
            Self::ServerError => "500",
            Self::Unavailable => "503",
            Self::BadSse => "bad-sse",
            Self::ErrorStream => "error-stream",
            Self::Truncated => "truncated",
            Self::NoUsage => "no-usage",
            Self::Empty => "empty",
            Self::NoDone => "no-done",
            Self::Compressed => "compressed",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for Fault {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        let name = text.trim();
        Self::ALL.into_iter().find(|fault| fault.name() == name).ok_or_else(|| ScriptError::Fault(name.to_owned()))
    }
}

impl Serialize for Fault {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The names of all faults.
pub(crate) fn list() -> String {
    Fault::ALL.map(Fault::name).join(", ")
}

/// A fault and the share of requests that have it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FaultRate {
    /// The fault.
    pub fault: Fault,
    /// The share of requests, from 0 to 1.
    pub rate: f64,
}

/// Parses `reset=0.05` and `429=10%`.
impl FromStr for FaultRate {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        let wrong = || ScriptError::Rate(text.to_owned());
        let (name, rate) = text.split_once('=').ok_or_else(wrong)?;
        let fault = name.parse()?;
        let rate = rate.trim();
        let rate = match rate.strip_suffix('%') {
            Some(percent) => percent.trim().parse::<f64>().map_err(|_| wrong())? / 100.0,
            None => rate.parse().map_err(|_| wrong())?,
        };
        if (0.0..=1.0).contains(&rate) { Ok(Self { fault, rate }) } else { Err(wrong()) }
    }
}

#[cfg(test)]
mod tests {
    use ergometer_diagnostics::{CommandLine, Diagnostic};

    use super::*;

    #[test]
    fn every_name_parses_to_its_fault() {
        for fault in Fault::ALL {
            assert_eq!(fault.to_string().parse(), Ok(fault));
        }
    }

    #[test]
    fn rates_are_shares_or_percent() {
        assert_eq!("reset=0.05".parse(), Ok(FaultRate { fault: Fault::Reset, rate: 0.05 }));
        assert_eq!("429=10%".parse(), Ok(FaultRate { fault: Fault::TooManyRequests, rate: 0.1 }));
        for text in ["reset", "reset=", "reset=2", "reset=101%", "reset=-0.1", "reset=nan"] {
            assert_eq!(text.parse::<FaultRate>(), Err(ScriptError::Rate(text.to_owned())));
        }
        let error = "explode=1".parse::<FaultRate>().unwrap_err().one_line(&CommandLine);
        assert!(error.starts_with("`explode` is not a fault. hint: use one of refuse, hang, hang-stream"), "{error}");
    }
}
