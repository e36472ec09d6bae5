//! What is known of an exchange beyond its transcript: tokens counted after the run, or here by the user's tokenizer, and
//! what the judge said.

use std::fs::File;
use std::path::PathBuf;

use super::CloseError;
use crate::journal::{After, JournalFolder, Judgement, Manifest};
use crate::review::Tokenizer;
use ergometer_clients::{Outcome, Usage};
use ergometer_runs::Exchange;

/// Adds to exchanges what was found out after them.
pub(super) struct Found {
    after: After,
    /// The file with the judgements, where there are any.
    judgements: Option<File>,
    tokenizer: Option<Tokenizer>,
    /// Why the tokenizer is not used, though one was given.
    pub(super) unused: Option<(PathBuf, String)>,
}

impl Found {
    pub(super) fn new(journal: &JournalFolder, manifest: &Manifest) -> Result<Self, CloseError> {
        let after = journal.after()?;
        let judgements = after.has_judgements().then(|| after.open()).transpose()?;
        let path = || manifest.config.tokenizer.clone().unwrap_or_default();
        // A run may be closed where its tokenizer is not: what is missing is told, and the rest is derived all the same.
        let (tokenizer, unused) = match Tokenizer::of(&manifest.config) {
            Ok(Some(tokenizer)) if manifest.tokenizer.as_deref() != Some(tokenizer.fingerprint()) => {
                (None, Some((path(), String::from("it is not what it was"))))
            }
            Ok(tokenizer) => (tokenizer, None),
            Err(error) => (None, Some((path(), error.to_string()))),
        };
        Ok(Self { after, judgements, tokenizer, unused })
    }

    /// Lines of `after.jsonl` that could not be understood.
    pub(super) fn damaged_lines(&self) -> u64 {
        self.after.damaged_lines
    }

    /// Counts the tokens of a record. What the server said stands first, then its tokenizer, then the user's, which is
    /// also compared with whoever stands first.
    pub(super) fn count(&self, exchange: &mut Exchange, manifest: &Manifest) {
        if exchange.outcome != Outcome::Completed {
            return;
        }
        if exchange.transcript.usage.is_none()
            && let Some(usage) = self.after.usage(exchange)
        {
            exchange.transcript.count(usage);
        }
        // What was said before a further turn is not in its exchange.
        let Some(tokenizer) = self.tokenizer.as_ref().filter(|_| !exchange.query.is_further_turn()) else { return };
        let system = manifest.config.request.system_prompt.as_deref();
        let transcript = &exchange.transcript;
        let is_disputed = |usage: Usage| transcript.also_counted.is_some_and(|other| differs(exchange, usage, other));
        // A call of a tool is written here in words of ours: its tokens are a guess, good where there is nothing better.
        let is_enough = transcript.usage.is_some_and(|usage| !transcript.tool_calls.is_empty() || is_disputed(usage));
        if !is_enough && let Some(usage) = tokenizer.count(exchange, system) {
            exchange.transcript.count(usage);
        }
    }

    /// What the judge said.
    pub(super) fn judgement(&mut self, exchange: &Exchange) -> Result<Option<Judgement>, CloseError> {
        match &mut self.judgements {
            Some(file) => Ok(self.after.judgement(exchange, file)?),
            None => Ok(None),
        }
    }
}

/// Whether two counts of one answer are at odds. An end-of-sequence token is counted by one and not by the other; so are
/// the few marks around reasoning, which are in nobody's text.
pub(super) fn differs(exchange: &Exchange, usage: Usage, other: Usage) -> bool {
    let marks = if exchange.transcript.reasoning.is_empty() { 0 } else { 6 };
    usage.output.abs_diff(other.output) > 1 + marks
}
