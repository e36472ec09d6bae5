//! `run.json`: what was asked for and what it was asked of, written once before the first reading.

use std::fs;
use std::io::Write;
use std::path::Path;

use ergometer_telemetry::SystemInfo;
use serde::{Deserialize, Serialize};

use super::JournalError;
use ergometer_clients::{Locality, ModelFacts};
use ergometer_datasets::Columns;
use ergometer_datasets::fingerprint::sha256;
use ergometer_runs::config::RunConfig;
use ergometer_runs::record::GpuColumn;

/// The version of the journal that is written and read.
const VERSION: u32 = 1;

/// What a run is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of the format.
    pub format_version: u32,
    /// The version of Ergometer that started the run.
    pub ergometer: String,
    /// When, in nanoseconds since the epoch.
    pub created_ns: i64,
    /// What was asked for, without its secrets.
    pub config: RunConfig,
    /// A hash of it.
    pub config_hash: String,
    /// Of what.
    pub dataset: DatasetFacts,
    /// The grader, as `--grader` takes it; `judge:MODEL` where a model grades.
    pub grader: String,
    /// A hash of the tokenizer's files, where one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<String>,
    /// The model.
    pub model: ModelFacts,
    /// Where it ran.
    pub place: Locality,
    /// The folder's part about the hardware.
    pub hardware_label: String,
    /// The machine.
    pub system_info: SystemInfo,
    /// Its accelerators.
    pub gpus: Vec<GpuColumn>,
}

/// What a dataset is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatasetFacts {
    /// The id in the registry.
    pub id: String,
    /// Its name.
    pub name: String,
    /// How many queries it has; `None` where there is no end.
    pub size: Option<u64>,
    /// A hash of all that it gives out.
    pub fingerprint: String,
    /// Which columns were taken, where it has columns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<Columns>,
}

impl Manifest {
    /// The version to write.
    pub(crate) const VERSION: u32 = VERSION;

    /// The hash of a configuration, of which the secrets have been taken out.
    #[must_use]
    pub fn hash_of(config: &RunConfig) -> String {
        let text = serde_json::to_vec(config).unwrap_or_default();
        sha256(&text)
    }

    /// Writes it, whole or not at all.
    pub(super) fn write(&self, path: &Path) -> Result<(), JournalError> {
        let mut text = serde_json::to_vec_pretty(self).unwrap_or_default();
        text.push(b'\n');
        let beside = path.with_extension("json.new");
        let written = fs::File::create(&beside).and_then(|mut file| {
            file.write_all(&text)?;
            file.sync_data()
        });
        written.and_then(|()| fs::rename(&beside, path)).map_err(JournalError::io("write", path))
    }

    /// Reads it and checks its version and its hash.
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
            return Err(damaged(String::from("its configuration is not the one the run was made with")));
        }
        Ok(manifest)
    }
}
