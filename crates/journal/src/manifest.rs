//! Reads and writes `run.json`: the configuration of a run and its dataset, model and machine. Written once, before the
//! first reading.

use std::path::Path;

use ergometer_telemetry::SystemInfo;
use serde::{Deserialize, Serialize};

use super::{Grading, JournalError};
use ergometer_clients::{Locality, ModelFacts};
use ergometer_datasets::Columns;
use ergometer_datasets::fingerprint::sha256;
use ergometer_runs::config::RunConfig;
use ergometer_runs::record::GpuColumn;
use ergometer_runs::regular_file;
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

    /// The hash of a configuration without secrets. A configuration with a path that is not UTF-8 cannot be encoded.
    pub fn hash_of(config: &RunConfig) -> Result<String, serde_json::Error> {
        serde_json::to_vec(config).map(|text| sha256(&text))
    }

    /// Writes the file atomically.
    pub(super) fn write(&self, path: &Path) -> Result<(), JournalError> {
        let mut text = serde_json::to_vec_pretty(self).map_err(JournalError::encoding(path))?;
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
        let text = regular_file::read(path).map_err(JournalError::io("read", path))?;
        let versioned: Versioned = serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        if versioned.format_version > VERSION {
            return Err(JournalError::Version {
                path: path.to_path_buf(),
                found: versioned.format_version,
                known: VERSION,
            });
        }
        let manifest: Self = serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        let hash = Self::hash_of(&manifest.config).map_err(|error| damaged(error.to_string()))?;
        if hash != manifest.config_hash {
            return Err(damaged(String::from("its configuration does not match its hash")));
        }
        Ok(manifest)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    use ergometer_runs::testing;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_configuration_that_cannot_be_encoded_is_an_error() {
        let mut manifest: Manifest = serde_json::from_value(json!({
            "format_version": 1, "ergometer": "0", "created_ns": 0, "config": testing::config(json!({})),
            "config_hash": "", "dataset": {"id": "builtin", "name": "builtin", "fingerprint": ""}, "grader": "none",
            "model": {}, "place": {"is": "this_process"}, "hardware_label": "X", "system_info": {}, "gpus": [],
        }))
        .unwrap();
        manifest.config.tokenizer = Some(OsString::from_vec(vec![0xff]).into());
        assert!(Manifest::hash_of(&manifest.config).is_err());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        let error = manifest.write(&path).unwrap_err().to_string();
        assert!(error.starts_with("cannot encode ") && error.contains("run.json"), "{error}");
        assert!(!path.exists());
    }
}
