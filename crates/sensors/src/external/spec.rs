//! The definition of an external sensor, and the errors of invalid definitions.
//!
//! A command may contain a password, so no `Display` or `Debug` here shows a command.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use ergometer_diagnostics::{Diagnostic, Hint, hint};
use serde::{Deserialize, Serialize};

use super::prometheus::MetricSelector;
use super::unit::{Quantity, Unit};

/// An external sensor as the user defines it: `KIND[KEY=VALUE,…]:TARGET`.
///
/// `Display` and `Debug` show the kind and the name, because a command may contain a password. Serde writes the whole
/// definition as a string: call [`redacted`](Self::redacted) before storing one.
///
/// ```
/// use ergometer_sensors::external::Spec;
/// let spec: Spec = "command[every=5s]:ipmitool -P secret dcmi power reading".parse().unwrap();
/// assert_eq!(spec.to_string(), "command:ipmitool");
/// assert_eq!(spec.definition(), "command[every=5s]:ipmitool -P secret dcmi power reading");
/// assert_eq!(spec.redacted("<redacted>").definition(), "command:ipmitool <redacted>");
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Spec {
    pub(super) definition: SecretText,
    /// The display name, and the last part of the sensor's id.
    pub(super) name: String,
    pub(super) every: Duration,
    pub(super) unit: Option<Unit>,
    pub(super) quantity: Option<Quantity>,
    pub(super) source: Source,
}

impl Spec {
    /// The text this was parsed from. The text of a command may contain a password.
    #[must_use]
    pub fn definition(&self) -> &str {
        &self.definition.0
    }

    /// Whether the sensor runs a command, which may contain a password. Files are safe to show.
    #[must_use]
    pub const fn is_command(&self) -> bool {
        matches!(self.source, Source::Command { .. })
    }

    /// The same sensor with `mark` in place of its command. A file is unchanged.
    #[must_use]
    pub fn redacted(&self, mark: &str) -> Self {
        let mut redacted = self.clone();
        if let Source::Command { command, .. } = &mut redacted.source {
            *command = SecretText(mark.to_owned());
            redacted.definition = SecretText(format!("command:{} {mark}", self.name));
        }
        redacted
    }
}

impl TryFrom<String> for Spec {
    type Error = SpecError;

    fn try_from(definition: String) -> Result<Self, SpecError> {
        definition.parse()
    }
}

impl From<Spec> for String {
    fn from(spec: Spec) -> Self {
        spec.definition.0
    }
}

/// The source of the values.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Source {
    Command { command: SecretText, timeout: Duration, pattern: Option<String> },
    Csv { path: PathBuf, time: Option<Column>, value: Option<Column> },
    Prometheus { path: PathBuf, metric: Option<MetricSelector> },
}

/// A column of a CSV file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Column {
    /// By number, from 1.
    Number(usize),
    /// By name in the header.
    Named(String),
    /// No column, even if one looks right.
    None,
}

/// A text that may contain a password: `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct SecretText(pub(super) String);

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(..)")
    }
}

/// The definition of an external sensor is invalid. No variant quotes the target, which may contain a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// There is no colon.
    #[error("the sensor definition has no colon")]
    NoColon,
    /// No colon follows the bracket.
    #[error("at character {at}: expected a colon and the target after `]`")]
    NoColonAfterBracket {
        /// The position, from 1.
        at: usize,
    },
    /// Nothing follows the colon.
    #[error("the sensor definition has no target after the colon")]
    NoTarget,
    /// The bracket is not closed.
    #[error("at character {at}: the `[` is not closed")]
    Unclosed {
        /// The position of the bracket, from 1.
        at: usize,
    },
    /// A quoted value does not end.
    #[error("at character {at}: the value has no closing {quote}")]
    UnclosedQuote {
        /// The position of the opening quote, from 1.
        at: usize,
        /// The quote.
        quote: char,
    },
    /// Text follows a quoted value.
    #[error("at character {at}: expected a comma or `]` after a quoted value")]
    AfterQuote {
        /// The position, from 1.
        at: usize,
    },
    /// An option is not `KEY=VALUE`.
    #[error("at character {at}: expected KEY=VALUE")]
    NoKeyAndValue {
        /// The position, from 1.
        at: usize,
    },
    /// The kind does not exist.
    #[error("there is no sensor kind `{kind}`")]
    UnknownKind {
        /// The unknown kind.
        kind: String,
    },
    /// The kind does not have this key.
    #[error("a {kind} sensor has no key `{key}`")]
    UnknownKey {
        /// The unknown key.
        key: String,
        /// The kind.
        kind: &'static str,
        /// The keys of this kind.
        known: String,
    },
    /// A key occurs twice.
    #[error("`{key}` is given twice")]
    Twice {
        /// The key.
        key: String,
    },
    /// The value of a key is invalid.
    #[error("{key}=`{value}`: {why}")]
    WrongValue {
        /// The key.
        key: &'static str,
        /// The invalid value.
        value: String,
        /// Why it is invalid.
        why: String,
        /// A valid value.
        hint: String,
    },
}

impl Diagnostic for SpecError {
    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::NoColon => {
                hint!("write KIND:TARGET or KIND[KEY=VALUE,…]:TARGET, for example csv:/var/log/meter.csv")
            }
            Self::NoColonAfterBracket { .. } | Self::NoKeyAndValue { .. } => {
                hint!("put values with brackets or commas in '…'")
            }
            Self::NoTarget => hint!("add a command or the path of a file, for example csv:/var/log/meter.csv"),
            Self::Unclosed { .. } => hint!("write KIND[KEY=VALUE,KEY=VALUE]:TARGET"),
            Self::UnclosedQuote { quote, .. } => hint!(format!("add {quote} at the end of the value")),
            Self::AfterQuote { .. } => {
                hint!("quote the whole value; if it contains one kind of quote, use the other kind around it")
            }
            Self::UnknownKind { .. } => hint!("use command, csv or prometheus"),
            Self::UnknownKey { known, .. } => hint!(format!("the keys are {known}")),
            Self::Twice { key } => hint!(format!("remove one `{key}`")),
            Self::WrongValue { hint, .. } => Hint::text(hint.clone()),
        })
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.source.kind(), self.name)
    }
}

impl Source {
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Command { .. } => "command",
            Self::Csv { .. } => "csv",
            Self::Prometheus { .. } => "prometheus",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> Spec {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn a_command_line_is_never_shown() {
        for line in [
            "command:IPMI_PASSWORD=hunter2 ipmitool -P hunter2 dcmi power reading",
            "command:PASS=\"a hunter2 b\" ipmitool",
            "command:sudo -u hunter2 ipmitool",
            "command:'hunter2 x' y",
            "command:$(hunter2)",
            "command:curl -u root:hunter2 https://bmc/redfish",
        ] {
            let spec = spec(line);
            let shown = format!("{spec} {spec:?}");
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }

    #[test]
    fn a_spec_is_serialized_as_its_definition() {
        for text in ["csv[value=2]:/var/log/meter.csv", "command[every=5s]:ipmitool -P hunter2 dcmi power reading"] {
            let json = serde_json::to_string(&spec(text)).unwrap();
            assert_eq!(json, format!("{text:?}"));
            assert_eq!(serde_json::from_str::<Spec>(&json).unwrap(), spec(text));
        }
        let error = serde_json::from_str::<Spec>(r#""command[every=5]:hunter2""#).unwrap_err().to_string();
        assert!(error.contains("every=`5`") && !error.contains("hunter2"), "{error}");
    }

    #[test]
    fn redacting_hides_commands_and_keeps_files() {
        let file = spec("csv:/var/log/meter.csv");
        assert_eq!(file.redacted("<redacted>"), file);
        let redacted = spec("command[name=pdu]:curl -u root:hunter2 bmc").redacted("<redacted>");
        assert_eq!(redacted.definition(), "command:pdu <redacted>");
        assert_eq!(redacted.redacted("<redacted>"), redacted);
        assert_eq!(spec(redacted.definition()).to_string(), redacted.to_string());
    }
}
