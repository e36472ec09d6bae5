//! The configuration in a `summary.json`, which another tool may have written.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::RunConfig;

/// The configuration of a saved run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SavedConfig {
    /// A configuration that Ergometer wrote.
    Known(Box<RunConfig>),
    /// The settings of another tool, or of a version that this one does not understand.
    Other(Map<String, Value>),
    /// No settings.
    Absent(Option<()>),
}

impl Default for SavedConfig {
    fn default() -> Self {
        Self::Absent(None)
    }
}

impl From<RunConfig> for SavedConfig {
    fn from(config: RunConfig) -> Self {
        Self::Known(Box::new(config))
    }
}

impl SavedConfig {
    /// The configuration, if Ergometer wrote it.
    #[must_use]
    pub fn known(&self) -> Option<&RunConfig> {
        match self {
            Self::Known(config) => Some(config),
            Self::Other(_) | Self::Absent(_) => None,
        }
    }

    /// Every setting by its name in the file.
    #[must_use]
    pub fn settings(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(settings)) => settings,
            _ => Map::new(),
        }
    }
}
