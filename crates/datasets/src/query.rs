//! One query of a dataset: a problem, its answer and its metadata.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One query.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Query {
    /// The index in the dataset, from 0.
    pub index: u64,
    /// The prompt.
    pub problem: String,
    /// The reference answer; empty if the dataset has no answers.
    pub answer: String,
    /// The subject; empty if the dataset has no subjects.
    pub subject: String,
    /// Maximum tokens of the answer according to the dataset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Arrival time in seconds after the first query, in a recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrival_s: Option<f64>,
    /// The turn of a conversation; `None` for a single query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<Turn>,
    /// The other columns of the dataset.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// A turn of a conversation. The turns of one conversation have consecutive indices.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// The conversation's number in the dataset, from 0.
    pub conversation: u64,
    /// The number of the turn, from 0.
    pub number: u32,
    /// The think time before this turn in seconds, if the dataset has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think_s: Option<f64>,
}

impl Query {
    /// Whether it is the second or a later turn of a conversation.
    #[must_use]
    pub fn is_further_turn(&self) -> bool {
        self.turn.is_some_and(|turn| turn.number > 0)
    }
}
