//! Figures from the server's metrics while requests were sent.

use serde::{Deserialize, Serialize};

/// Figures from the server's own metrics.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerSummary {
    /// The server's software, recognized by the names of its metrics: `vllm`.
    pub software: String,
    /// The address of its metrics, without secrets.
    pub metrics_url: String,
    /// Requests running.
    pub running: Option<GaugeSummary>,
    /// Requests waiting to be started.
    pub waiting: Option<GaugeSummary>,
    /// The highest share of its KV cache in use, in percent.
    pub kv_cache_max_pct: Option<f64>,
    /// Prompt tokens by the server's count. llama.cpp does not count tokens found in its cache.
    pub prompt_tokens: Option<u64>,
    /// Tokens it generated.
    pub generation_tokens: Option<u64>,
    /// How often it preempted a running request.
    pub preemptions: Option<u64>,
    /// Prompt tokens that were looked up in its prefix cache.
    pub prefix_cache_query_tokens: Option<u64>,
    /// Prompt tokens that were found there.
    pub prefix_cache_hit_tokens: Option<u64>,
}

/// A gauge while requests were sent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GaugeSummary {
    /// The mean of its readings.
    pub mean: f64,
    /// The highest reading.
    pub max: f64,
    /// The number of readings.
    pub readings: u64,
}
