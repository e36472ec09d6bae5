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
    /// What else the dataset says about it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}
