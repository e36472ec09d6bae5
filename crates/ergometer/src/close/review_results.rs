//! Adds the results of the review to exchanges: token counts of the server's or the user's tokenizer, and judgements.

use std::fs::File;
use std::path::PathBuf;

use super::CloseError;
use crate::journal::{JournalFolder, Judgement, Manifest, ReviewJournal};
use crate::review::Tokenizer;
use ergometer_clients::{Outcome, Usage};
use ergometer_runs::Exchange;

/// Token counts and judgements that are not in the transcripts of a run.
pub(super) struct ReviewResults {
    after: ReviewJournal,
    /// The file with the judgements, if there are any.
    judgements: Option<File>,
    tokenizer: Option<Tokenizer>,
    /// The configured tokenizer and why it is not used.
    pub(super) unused_tokenizer: Option<(PathBuf, String)>,
}

impl ReviewResults {
    pub(super) fn new(journal: &JournalFolder, manifest: &Manifest) -> Result<Self, CloseError> {
        let after = journal.review_journal()?;
        let judgements = after.has_judgements().then(|| after.open()).transpose()?;
        let path = || manifest.config.tokenizer.clone().unwrap_or_default();
        // The tokenizer may be missing on the machine that derives the files: warn, and derive the rest.
        let (tokenizer, unused_tokenizer) = match Tokenizer::from_config(&manifest.config) {
            Ok(Some(tokenizer)) if manifest.tokenizer.as_deref() != Some(tokenizer.fingerprint()) => {
                (None, Some((path(), String::from("its files have changed since the run"))))
            }
            Ok(tokenizer) => (tokenizer, None),
            Err(error) => (None, Some((path(), error.to_string()))),
        };
        Ok(Self { after, judgements, tokenizer, unused_tokenizer })
    }

    /// Lines of `after.jsonl` that could not be parsed.
    pub(super) fn damaged_lines(&self) -> u64 {
        self.after.damaged_lines
    }

    /// Counts the tokens of a record. The server's usage comes first, then its tokenizer, then the user's tokenizer, whose
    /// count is also compared with the first.
    pub(super) fn count(&self, exchange: &mut Exchange, manifest: &Manifest) {
        if exchange.outcome != Outcome::Completed {
            return;
        }
        if exchange.transcript.usage.is_none()
            && let Some(usage) = self.after.usage(exchange)
        {
            exchange.transcript.count(usage);
        }
        // The exchange of a further turn does not contain the earlier turns.
        let Some(tokenizer) = self.tokenizer.as_ref().filter(|_| !exchange.query.is_further_turn()) else { return };
        let system = manifest.config.request.system_prompt.as_deref();
        let transcript = &exchange.transcript;
        let is_disputed = |usage: Usage| transcript.also_counted.is_some_and(|other| differs(exchange, usage, other));
        // The text of a tool call is our own rendering, so its token count is a guess, used only without a better one.
        let is_enough = transcript.usage.is_some_and(|usage| !transcript.tool_calls.is_empty() || is_disputed(usage));
        if !is_enough && let Some(usage) = tokenizer.count(exchange, system) {
            exchange.transcript.count(usage);
        }
    }

    /// The token counts that [`count`](Self::count) would use.
    pub(super) fn usage(&self, exchange: &Exchange, manifest: &Manifest) -> Option<Usage> {
        let known = exchange.transcript.usage;
        if known.is_some() || exchange.outcome != Outcome::Completed {
            return known;
        }
        let mut counted = exchange.clone();
        self.count(&mut counted, manifest);
        counted.transcript.usage
    }

    /// The judgement of an answer.
    pub(super) fn judgement(&mut self, exchange: &Exchange) -> Result<Option<Judgement>, CloseError> {
        match &mut self.judgements {
            Some(file) => Ok(self.after.judgement(exchange, file)?),
            None => Ok(None),
        }
    }
}

/// Whether two token counts of one answer disagree. One of them may include the end-of-sequence token and the few
/// delimiters around reasoning, which are not part of the text.
pub(super) fn differs(exchange: &Exchange, usage: Usage, other: Usage) -> bool {
    let marks = if exchange.transcript.reasoning.is_empty() { 0 } else { 6 };
    usage.output.abs_diff(other.output) > 1 + marks
}
