//! The user's own sensors in the configuration of a run.

use std::fmt;

use ergometer_clients::redact::REDACTED;
use ergometer_sensors::external::Spec;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A sensor configured by the user. Files do not store the command of a sensor, which may contain a password.
#[derive(Debug, Clone, PartialEq)]
pub enum SensorSetting {
    /// A sensor that can be opened.
    Spec(Spec),
    /// A sensor whose command was removed.
    Redacted(String),
}

impl SensorSetting {
    /// The sensor without its command.
    #[must_use]
    pub fn redacted(&self) -> Self {
        match self {
            Self::Spec(spec) if spec.is_command() => Self::Redacted(format!("{spec} {REDACTED}")),
            other => other.clone(),
        }
    }
}

impl fmt::Display for SensorSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spec(spec) => spec.fmt(f),
            Self::Redacted(text) => f.write_str(text.strip_suffix(REDACTED).unwrap_or(text).trim_end()),
        }
    }
}

impl Serialize for SensorSetting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Spec(spec) => spec.serialize(serializer),
            Self::Redacted(text) => text.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for SensorSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.contains(REDACTED) {
            return Ok(Self::Redacted(text));
        }
        text.parse().map(Self::Spec).map_err(serde::de::Error::custom)
    }
}
