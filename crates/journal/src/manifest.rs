//! Reads and writes `run.json`: the configuration of a run and its dataset, model and machine. Written once, before the
//! first reading.

use std::fs;
use std::path::Path;

use ergometer_telemetry::SystemInfo;
use serde::{Deserialize, Serialize};

use super::{Grading, JournalError};
use ergometer_clients::{Locality, ModelFacts};
use ergometer_datasets::Columns;
use ergometer_datasets::fingerprint::sha256;
use ergometer_runs::config::RunConfig;
use ergometer_runs::record::GpuColumn;
use ergometer_runs::store::{StoreError, write_file};

/// The version of the journal.
const VERSION: u32 = 1;

/// The configuration of a run, and its dataset, model and machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of the format.
    pub format_version: u32,
    /// The version of Ergometer that started the run.
    pub ergometer: String,
    /// When the run was created, in nanoseconds since the epoch.
    pub created_ns: i64,
    /// The configuration, without secrets.
    pub config: RunConfig,
    /// A hash of the configuration.
    pub config_hash: String,
    /// The dataset.
    pub dataset: DatasetFacts,
    /// The grader or the judge.
    pub grader: Grading,
    /// A hash of the configured tokenizer's files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<String>,
    /// The model.
    pub model: ModelFacts,
    /// Where the model runs.
    pub place: Locality,
    /// The label of the hardware in the folder's name.
    pub hardware_label: String,
    /// The machine.
    pub system_info: SystemInfo,
    /// The GPUs of the machine.
    pub gpus: Vec<GpuColumn>,
}

/// Facts about a dataset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatasetFacts {
    /// The id in the registry.
    pub id: String,
    /// Its name.
    pub name: String,
    /// How many queries it has; `None` if it is endless.
    pub size: Option<u64>,
    /// A hash of its content.
    pub fingerprint: String,
    /// The columns that are used, if it has columns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<Columns>,
}

impl Manifest {
    /// The version to write.
    pub const VERSION: u32 = VERSION;

    /// The hash of a configuration without secrets.
    #[must_use]
    pub fn hash_of(config: &RunConfig) -> String {
        let text = serde_json::to_vec(config).unwrap_or_default();
        sha256(&text)
    }

    /// Writes the file atomically.
    pub(super) fn write(&self, path: &Path) -> Result<(), JournalError> {
        let mut text = serde_json::to_vec_pretty(self).unwrap_or_default();
        text.push(b'\n');
        write_file(path, &text).map_err(|error| match error {
            StoreError::File { action, path, cause } => JournalError::Io { action, path, cause },
            other => JournalError::Damaged { path: path.to_path_buf(), what: other.to_string() },
        })
    }

    /// Reads the file and checks its version and hash.
    pub(super) fn read(path: &Path) -> Result<Self, JournalError> {
        #[derive(Deserialize)]
        struct Versioned {
            format_version: u32,
        }
        let damaged = |what: String| JournalError::Damaged { path: path.to_path_buf(), what };
        let text = fs::read(path).map_err(JournalError::io("read", path))?;
        let versioned: Versioned = serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        if versioned.format_version > VERSION {
            return Err(JournalError::Version {
                path: path.to_path_buf(),
                found: versioned.format_version,
                known: VERSION,
            });
        }
        let manifest: Self = serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        if Self::hash_of(&manifest.config) != manifest.config_hash {
            return Err(damaged(String::from("its configuration does not match its hash")));
        }
        Ok(manifest)
    }
}
