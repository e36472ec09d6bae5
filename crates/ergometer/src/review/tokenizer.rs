//! Counts the tokens of requests and answers with a local tokenizer, which needs the feature `embedded`.

use std::path::Path;

use ergometer_clients::Usage;
use ergometer_diagnostics::{Diagnostic, Hint, Message, hint, option};
use ergometer_runs::Exchange;
use ergometer_runs::config::RunConfig;

/// Why the tokenizer cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TokenizerError(Message);

impl Diagnostic for TokenizerError {
    fn hint(&self) -> Option<Hint> {
        self.0.hint()
    }
}

/// A tokenizer that counts tokens in this process.
#[derive(Debug)]
pub struct Tokenizer {
    #[cfg(feature = "embedded")]
    counter: ergometer_inference::TokenCounter,
    /// Whether prompts are sent to the model without its chat template.
    #[cfg(feature = "embedded")]
    is_plain: bool,
}

impl Tokenizer {
    /// Loads the tokenizer of a run's configuration; `None` if it names none.
    pub fn from_config(config: &RunConfig) -> Result<Option<Self>, TokenizerError> {
        config.tokenizer.as_deref().map(|path| Self::load(path, config)).transpose()
    }
}

#[cfg(feature = "embedded")]
impl Tokenizer {
    fn load(path: &Path, config: &RunConfig) -> Result<Self, TokenizerError> {
        let counter = ergometer_inference::TokenCounter::load(path).map_err(|error| {
            let hint = hint!("pass a tokenizer.json or a model folder with ", option("tokenizer").value("PATH"));
            TokenizerError(Message::new(error.to_string()).with_hint(hint))
        })?;
        let is_plain = config.client.parameters.get("endpoint").is_some_and(|endpoint| endpoint == "completions");
        Ok(Self { counter, is_plain })
    }

    /// A hash of the tokenizer's files.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        self.counter.fingerprint()
    }

    /// Counts the tokens of a request and its answer; `None` if the tokenizer rejects a text.
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
        Some(Usage {
            input: input as u64,
            output: output as u64,
            cached: None,
            source: ergometer_clients::TokenSource::Tokenizer,
        })
    }
}

#[cfg(not(feature = "embedded"))]
impl Tokenizer {
    fn load(path: &Path, _: &RunConfig) -> Result<Self, TokenizerError> {
        let text = format!("{} cannot be used: this build has no tokenizer", path.display());
        let hint = hint!("build with the feature `embedded`, or leave out ", option("tokenizer"));
        Err(TokenizerError(Message::new(text).with_hint(hint)))
    }

    /// A hash of the tokenizer's files.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        ""
    }

    /// Counts nothing without the feature `embedded`.
    #[must_use]
    pub fn count(&self, _: &Exchange, _: Option<&str>) -> Option<Usage> {
        None
    }
}
