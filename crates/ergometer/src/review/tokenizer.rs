//! The tokenizer the user gave: an exchange goes in, its tokens come out. Without the feature `embedded` there is none.

use std::path::Path;

use ergometer_clients::Usage;
use ergometer_runs::Exchange;
use ergometer_runs::config::RunConfig;

/// Why there is no tokenizer.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TokenizerError(String);

/// Counts tokens in this process.
#[derive(Debug)]
pub struct Tokenizer {
    #[cfg(feature = "embedded")]
    counter: ergometer_inference::TokenCounter,
    /// Whether prompts go to the model as they are, without its chat template.
    #[cfg(feature = "embedded")]
    is_plain: bool,
}

impl Tokenizer {
    /// The one that was asked for; `None` where none was.
    pub fn of(config: &RunConfig) -> Result<Option<Self>, TokenizerError> {
        config.tokenizer.as_deref().map(|path| Self::load(path, config)).transpose()
    }
}

#[cfg(feature = "embedded")]
impl Tokenizer {
    fn load(path: &Path, config: &RunConfig) -> Result<Self, TokenizerError> {
        let counter = ergometer_inference::TokenCounter::load(path).map_err(|error| {
            let text = error.to_string();
            let cause = text.split_once(". hint: ").map_or(&*text, |(cause, _)| cause);
            TokenizerError(format!("{cause}. hint: --tokenizer takes a tokenizer.json or the folder of a model"))
        })?;
        let is_plain = config.client.parameters.get("endpoint").is_some_and(|endpoint| endpoint == "completions");
        Ok(Self { counter, is_plain })
    }

    /// A hash of its files.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        self.counter.fingerprint()
    }

    /// The tokens of a request and its answer; `None` where a text is nothing the tokenizer can take.
    #[must_use]
    pub fn count(&self, exchange: &Exchange, system: Option<&str>) -> Option<Usage> {
        let (problem, transcript) = (&exchange.query.problem, &exchange.transcript);
        let input = if self.is_plain {
            let before = system.map(|text| format!("{text}\n\n")).unwrap_or_default();
            self.counter.plain_prompt(&(before + problem)).ok()?
        } else {
            self.counter.prompt(system, problem).ok()?
        };
        let parts = [&transcript.reasoning, &transcript.text, &transcript.tool_calls];
        let output = parts.iter().map(|part| self.counter.text(part).ok()).sum::<Option<usize>>()?;
        Some(Usage { input: input as u64, output: output as u64, source: ergometer_clients::TokenSource::Tokenizer })
    }
}

#[cfg(not(feature = "embedded"))]
impl Tokenizer {
    fn load(path: &Path, _: &RunConfig) -> Result<Self, TokenizerError> {
        Err(TokenizerError(format!(
            "{} cannot be used: this build has no tokenizer. hint: build it with the feature `embedded`",
            path.display()
        )))
    }

    /// A hash of its files.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        ""
    }

    /// The tokens of a request and its answer.
    #[must_use]
    pub fn count(&self, _: &Exchange, _: Option<&str>) -> Option<Usage> {
        None
    }
}
