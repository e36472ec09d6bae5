//! One query of a dataset: what is asked, what is right, and what else is known about it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One query.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Query {
    /// Its place in the dataset, from 0.
    pub index: u64,
    /// What is asked.
    pub problem: String,
    /// What is right; empty where the dataset has no answers.
    pub answer: String,
    /// What it is about; empty where the dataset has no subjects.
    pub subject: String,
    /// The most tokens its answer may have, where the dataset says so; it stands before the run's own limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// When it arrived, in seconds from the first, where the dataset was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrival_s: Option<f64>,
    /// Where it stands in a conversation, where it is a turn of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<Turn>,
    /// What else the dataset says about it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// Where a query stands in a conversation. The turns of one stand one after the other in a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// The conversation's number in the dataset, from 0.
    pub conversation: u64,
    /// Which of its turns, from 0.
    pub number: u32,
    /// How long the human thought before, in seconds, where the dataset says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think_s: Option<f64>,
}

impl Query {
    /// Whether something was said before it in its conversation.
    #[must_use]
    pub fn is_further_turn(&self) -> bool {
        self.turn.is_some_and(|turn| turn.number > 0)
    }
}
