//! The script: how the server answers, how fast, and what goes wrong how often.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::distribution::{Delay, Length};
use crate::error::ScriptError;
use crate::fault::{Fault, FaultRate};

/// The name of the model where the script names none.
pub(crate) const DEFAULT_MODEL: &str = "mock";

/// Where a stream says how many tokens it used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UsagePlace {
    /// In a chunk of its own with no choices, where the request asked for it, as `OpenAI` does.
    #[default]
    Chunk,
    /// On the last chunk with choices, asked for or not, as transformers does.
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
    /// With the end of the body alone.
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

/// Everything the server goes by. The default answers 64 tokens, 50 ms to the first and 10 ms apart, without faults.
#[derive(Debug, Clone)]
pub struct Script {
    /// Where to listen; port 0 picks a free one.
    pub address: SocketAddr,
    /// From the start of a request to its first token.
    pub ttft: Delay,
    /// Between two tokens.
    pub gap: Delay,
    /// How many tokens an answer has, its reasoning included.
    pub tokens: Length,
    /// How many tokens come in one chunk.
    pub tokens_per_chunk: u64,
    /// How many requests are answered at once; others wait.
    pub slots: usize,
    /// What all draws begin from: the n-th request of two servers with one seed draws the same.
    pub seed: u64,
    /// The models there are; others are answered by 404. Empty: one named `mock`, and every name is taken.
    pub models: Vec<String>,
    /// How many of the first tokens are reasoning.
    pub reasoning: u64,
    /// What every answer says, after its reasoning; without it, words drawn by the seed.
    pub answer: Option<String>,
    /// Where a stream says its usage.
    pub usage: UsagePlace,
    /// How an event stream ends.
    pub end: StreamEnd,
    /// How lines of a stream end.
    pub newline: Newline,
    /// What goes wrong, and how often.
    pub faults: Vec<FaultRate>,
    /// How many times longer a slow request takes.
    pub slow_factor: f64,
    /// What 429 and 503 tell the client to wait, in whole seconds.
    pub retry_after: Duration,
    /// The bearer key that requests must have.
    pub api_key: Option<String>,
    /// How many requests the truth is kept of; the oldest go first.
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
            usage: UsagePlace::default(),
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
    /// A default script without waiting, for tests that ask for order and not for time.
    #[must_use]
    pub fn instant() -> Self {
        Self { ttft: Delay::fixed(Duration::ZERO), gap: Delay::fixed(Duration::ZERO), ..Self::default() }
    }

    /// Whether it can be played at all.
    pub(crate) fn check(&self) -> Result<(), ScriptError> {
        let sum: f64 = self.faults.iter().filter(|drawn| drawn.fault != Fault::Refuse).map(|drawn| drawn.rate).sum();
        // A little slack: ten times 0.1 is not quite 1.
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

    /// The names to list.
    pub(crate) fn listed_models(&self) -> Vec<&str> {
        if self.models.is_empty() { vec![DEFAULT_MODEL] } else { self.models.iter().map(String::as_str).collect() }
    }

    /// The model a request means, or `None` where there is no such model. Ollama's `:latest` may be left out.
    pub(crate) fn model<'a>(&'a self, asked: Option<&'a str>) -> Option<&'a str> {
        let Some(asked) = asked else { return self.listed_models().first().copied() };
        let is_known =
            |name: &String| name == asked || format!("{name}:latest") == asked || format!("{asked}:latest") == *name;
        (self.models.is_empty() || self.models.iter().any(is_known)).then_some(asked)
    }

    /// The share of the time in which the port refuses connections.
    pub(crate) fn refused_share(&self) -> f64 {
        self.faults.iter().filter(|drawn| drawn.fault == Fault::Refuse).map(|drawn| drawn.rate).sum::<f64>().min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_contradicts_itself_is_refused() {
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
    fn named_models_are_the_only_ones() {
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
