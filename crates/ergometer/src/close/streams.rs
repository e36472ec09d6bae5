//! Collects what the client saw of each request, for attribution.

use ergometer_attribution::{Arrival, Stream};
use ergometer_clients::Usage;
use ergometer_runs::Exchange;

/// What the client saw of the requests of a session, in the order of their ends.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// Whether the times of tokens are kept.
    with_arrivals: bool,
    /// Whether the server reports cached tokens.
    pub(super) reports_cached: bool,
    found: Vec<Stream>,
    /// The characters of each prompt.
    characters: Vec<usize>,
}

impl Streams {
    pub(super) fn new(with_arrivals: bool) -> Self {
        Self { with_arrivals, ..Self::default() }
    }

    pub(super) fn add(&mut self, exchange: &Exchange, usage: Option<Usage>) {
        let transcript = &exchange.transcript;
        self.reports_cached |= usage.is_some_and(|usage| usage.cached.is_some());
        let arrivals = transcript.chunks.iter().filter(|_| self.with_arrivals && !transcript.is_whole);
        self.found.push(Stream {
            id: transcript.request_id.clone(),
            sent: exchange.sent,
            end: exchange.end,
            prompt_tokens: usage.map(|usage| usage.input.saturating_sub(usage.cached.unwrap_or(0)) as f64),
            cached_tokens: usage.and_then(|usage| usage.cached).map_or(0.0, |cached| cached as f64),
            output_tokens: usage.map(|usage| usage.output as f64),
            arrivals: arrivals.map(|chunk| Arrival { at: chunk.at, choice: chunk.choice }).collect(),
        });
        self.characters.push(exchange.query.problem.len());
    }

    /// The tokens per character of the prompts whose tokens are known.
    pub(super) fn tokens_per_character(&self) -> Option<f64> {
        let counted = self.found.iter().zip(&self.characters).filter_map(|(stream, &characters)| {
            stream.prompt_tokens.map(|tokens| (tokens + stream.cached_tokens, characters as f64))
        });
        let (tokens, characters) = counted.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        (characters > 0.0).then_some(tokens / characters)
    }

    /// The streams. A failed request has no token count; its prompt counts as many tokens per character as the others'.
    pub(super) fn finish(mut self, tokens_per_character: Option<f64>) -> Vec<Stream> {
        for (stream, &length) in self.found.iter_mut().zip(&self.characters) {
            if let Some(rate) = tokens_per_character.filter(|_| stream.prompt_tokens.is_none()) {
                stream.prompt_tokens = Some(rate * length as f64);
                if !stream.arrivals.is_empty() {
                    stream.output_tokens = Some(stream.arrivals.len() as f64);
                }
            }
        }
        self.found
    }
}
