//! The script: the settings of answers, times and faults.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::distribution::{Delay, Length};
use crate::error::ScriptError;
use crate::fault::{Fault, FaultRate};

/// The name of the model if the script has none.
pub(crate) const DEFAULT_MODEL: &str = "mock";

/// Where a stream reports usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UsagePosition {
    /// In a separate chunk without choices, if the request asks for it, like `OpenAI`.
    #[default]
    Chunk,
    /// On the last chunk with choices, always, like transformers.
    Last,
    /// Nowhere.
    None,
}

/// How an event stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StreamEnd {
    /// With `data: [DONE]`.
    #[default]
    Done,
    /// Only with the end of the body.
    Bare,
}

/// How lines of a stream end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Newline {
    /// `\n`.
    #[default]
    Lf,
    /// `\r\n`.
    Crlf,
}

impl Newline {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Lf => "\n",
            Self::Crlf => "\r\n",
        }
    }
}

/// The settings of a server. By default answers have 64 tokens, the first after 50 ms, then one every 10 ms, no faults.
#[derive(Debug, Clone)]
pub struct Script {
    /// The address to listen on; port 0 picks a free one.
    pub address: SocketAddr,
    /// The time from the start of a request to its first token.
    pub ttft: Delay,
    /// The time between two tokens.
    pub gap: Delay,
    /// The number of tokens of an answer, including reasoning.
    pub tokens: Length,
    /// The number of tokens per chunk.
    pub tokens_per_chunk: u64,
    /// The number of requests answered concurrently; others wait.
    pub slots: usize,
    /// The random seed: with the same seed, the n-th request gets the same answer, times and fault.
    pub seed: u64,
    /// The models; others give 404. If empty, the model is listed as `mock` and every name is accepted.
    pub models: Vec<String>,
    /// The number of reasoning tokens at the start of an answer.
    pub reasoning: u64,
    /// The text of every answer, after its reasoning; random words if `None`.
    pub answer: Option<String>,
    /// Where a stream reports usage.
    pub usage: UsagePosition,
    /// The prompt tokens that usage reports as cached, at most all tokens of the prompt; not reported if `None`.
    pub cached_tokens: Option<u64>,
    /// How an event stream ends.
    pub end: StreamEnd,
    /// How lines of a stream end.
    pub newline: Newline,
    /// The faults and their rates.
    pub faults: Vec<FaultRate>,
    /// The factor on all times of a slow request.
    pub slow_factor: f64,
    /// The `Retry-After` of 429 and 503, in whole seconds.
    pub retry_after: Duration,
    /// The API key that requests must send as a bearer token.
    pub api_key: Option<String>,
    /// The number of requests kept in the statistics; the oldest are dropped first.
    pub kept_requests: usize,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
            ttft: Delay::fixed(Duration::from_millis(50)),
            gap: Delay::fixed(Duration::from_millis(10)),
            tokens: Length::fixed(64),
            tokens_per_chunk: 1,
            slots: 256,
            seed: 0,
            models: Vec::new(),
            reasoning: 0,
            answer: None,
            usage: UsagePosition::default(),
            cached_tokens: None,
            end: StreamEnd::default(),
            newline: Newline::default(),
            faults: Vec::new(),
            slow_factor: 10.0,
            retry_after: Duration::from_secs(1),
            api_key: None,
            kept_requests: 100_000,
        }
    }
}

impl Script {
    /// The default script without delays, for tests of order rather than time.
    #[must_use]
    pub fn instant() -> Self {
        Self { ttft: Delay::fixed(Duration::ZERO), gap: Delay::fixed(Duration::ZERO), ..Self::default() }
    }

    /// Checks that the values are valid together.
    pub(crate) fn check(&self) -> Result<(), ScriptError> {
        let sum: f64 = self.faults.iter().filter(|drawn| drawn.fault != Fault::Refuse).map(|drawn| drawn.rate).sum();
        // Allow rounding: ten times 0.1 is not exactly 1.
        if sum > 1.0 + 1e-9 {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
            return Err(ScriptError::TooManyFaults { percent: (sum * 100.0 - 1e-6).ceil() as u64 });
        }
        if self.slots == 0 {
            return Err(ScriptError::Zero("the number of slots"));
        }
        if self.tokens_per_chunk == 0 {
            return Err(ScriptError::Zero("the number of tokens per chunk"));
        }
        if !(0.0..=1e6).contains(&self.slow_factor) {
            return Err(ScriptError::SlowFactor);
        }
        Ok(())
    }

    /// The names of the models to list.
    pub(crate) fn listed_models(&self) -> Vec<&str> {
        if self.models.is_empty() { vec![DEFAULT_MODEL] } else { self.models.iter().map(String::as_str).collect() }
    }

    /// The model of a request, or `None` if it is unknown. Ollama's `:latest` is optional.
    pub(crate) fn model<'a>(&'a self, requested: Option<&'a str>) -> Option<&'a str> {
        let Some(requested) = requested else { return self.listed_models().first().copied() };
        let is_known = |name: &String| {
            name == requested || format!("{name}:latest") == requested || format!("{requested}:latest") == *name
        };
        (self.models.is_empty() || self.models.iter().any(is_known)).then_some(requested)
    }

    /// The share of the time that the port refuses connections.
    pub(crate) fn refused_share(&self) -> f64 {
        self.faults.iter().filter(|drawn| drawn.fault == Fault::Refuse).map(|drawn| drawn.rate).sum::<f64>().min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_scripts_are_rejected() {
        assert_eq!(Script::default().check(), Ok(()));
        let drawn = |text: &str| text.parse::<FaultRate>().unwrap();
        let faults = vec![drawn("reset=60%"), drawn("500=0.5")];
        let error = Script { faults, ..Script::default() }.check().unwrap_err();
        assert_eq!(error, ScriptError::TooManyFaults { percent: 110 });
        let faults = vec![drawn("refuse=60%"), drawn("500=0.5")];
        assert_eq!(Script { faults, ..Script::default() }.check(), Ok(()));
        let tenths = vec![drawn("500=0.1"); 10];
        assert_eq!(Script { faults: tenths, ..Script::default() }.check(), Ok(()));
        assert!(Script { slots: 0, ..Script::default() }.check().is_err());
        assert!(Script { tokens_per_chunk: 0, ..Script::default() }.check().is_err());
        assert!(Script { slow_factor: f64::NAN, ..Script::default() }.check().is_err());
    }

    #[test]
    fn only_named_models_are_accepted() {
        let any = Script::default();
        assert_eq!(any.model(Some("whatever")), Some("whatever"));
        assert_eq!(any.model(None), Some("mock"));
        let named = Script { models: vec![String::from("a"), String::from("b:latest")], ..Script::default() };
        assert_eq!(named.model(Some("a:latest")), Some("a:latest"));
        assert_eq!(named.model(Some("b")), Some("b"));
        assert_eq!(named.model(Some("c")), None);
        assert_eq!(named.model(None), Some("a"));
    }
}
