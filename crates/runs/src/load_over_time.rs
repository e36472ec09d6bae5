//! `analysis/load.json`: the load over time, in bins.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::ReadError;
use crate::folder::{ANALYSIS_FOLDER, LOAD_FILE};
use crate::store::{StoreError, create_folder, write_json};
use crate::summary::read_versioned;

/// The load of a run over time. Bins of all sessions have the same width.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadOverTime {
    /// The version of the format.
    pub format_version: u32,
    /// The width of a bin, in seconds.
    pub bin_s: f64,
    /// The sessions.
    pub sessions: Vec<SessionSpan>,
    /// The bins, by session and time.
    pub bins: Vec<LoadBin>,
}

/// The time of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionSpan {
    /// Its number in the run.
    pub session: u32,
    /// Its start, in nanoseconds since the epoch: the origin of `start_s` of its bins.
    pub start_ns: i64,
    /// Its length, in seconds.
    pub duration_s: f64,
    /// Start and end of the steady state, in seconds from the start of the session.
    pub steady_state_s: Option<(f64, f64)>,
}

/// The load in one bin.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LoadBin {
    /// The number of the session.
    pub session: u32,
    /// The start, in seconds from the start of the session.
    pub start_s: f64,
    /// Attempts that were due.
    pub scheduled: u64,
    /// Attempts that were sent.
    pub sent: u64,
    /// Requests that completed.
    pub completed: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Attempts that failed and were retried.
    pub retried: u64,
    /// The mean number of requests in flight.
    pub in_flight: f64,
    /// The most requests in flight.
    pub in_flight_max: u64,
    /// Output tokens that arrived.
    pub output_tokens: f64,
    /// The schedule lag of attempts sent in the bin.
    pub schedule_lag_ms: Option<BinTail>,
    /// TTFT of completed attempts sent in the bin.
    pub ttft_ms: Option<BinTail>,
}

/// A few figures of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BinTail {
    /// The median.
    pub p50: f64,
    /// The 99th percentile; absent below 100 values.
    pub p99: Option<f64>,
    /// The largest value.
    pub max: f64,
}

impl LoadOverTime {
    /// The version to write.
    pub const VERSION: u32 = 1;

    /// Reads the file of a run; `None` if it has none.
    pub fn read(folder: &Path) -> Result<Option<Self>, ReadError> {
        let path = folder.join(ANALYSIS_FOLDER).join(LOAD_FILE);
        if !path.exists() {
            return Ok(None);
        }
        let value = read_versioned(&path, Self::VERSION)?;
        serde_json::from_value(value).map(Some).map_err(ReadError::damaged(&path))
    }

    /// Writes the file of a run, atomically.
    pub fn write(&self, folder: &Path) -> Result<(), StoreError> {
        let folder = folder.join(ANALYSIS_FOLDER);
        create_folder(&folder)?;
        write_json(&folder.join(LOAD_FILE), self)
    }
}
