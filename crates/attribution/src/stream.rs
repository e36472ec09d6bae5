//! What the client saw of one request: when its tokens arrived, and how many there were.

use ergometer_units::Timestamp;

/// A token event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// When it arrived.
    pub at: Timestamp,
    /// The choice it belongs to, if several answers were requested.
    pub choice: u32,
}

/// What the client saw of one request.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// The id that was sent with it.
    pub id: Option<String>,
    /// When it was sent.
    pub sent: Timestamp,
    /// When it ended.
    pub end: Timestamp,
    /// The prompt tokens that were computed, without cached ones; `None` if unknown.
    pub prompt_tokens: Option<f64>,
    /// The prompt tokens that came from a cache.
    pub cached_tokens: f64,
    /// The output tokens; `None` if unknown.
    pub output_tokens: Option<f64>,
    /// The token events, in order of time.
    pub arrivals: Vec<Arrival>,
}

impl Stream {
    /// The output tokens that each event stands for: more than one if the server sends several tokens at once.
    pub(crate) fn tokens_per_event(&self) -> f64 {
        let events = self.arrivals.len().max(1) as f64;
        self.output_tokens.map_or(1.0, |tokens| (tokens / events).max(1.0))
    }

    /// The token events after the first of each choice.
    pub(crate) fn tokens_after_first(&self) -> usize {
        let mut choices: Vec<u32> = Vec::new();
        for arrival in &self.arrivals {
            if !choices.contains(&arrival.choice) {
                choices.push(arrival.choice);
            }
        }
        self.arrivals.len() - choices.len()
    }

    /// The context of its first decode step: the whole prompt.
    pub(crate) fn context(&self) -> f64 {
        self.prompt_tokens.unwrap_or(0.0) + self.cached_tokens
    }
}
