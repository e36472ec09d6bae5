//! `summary.json`: asked for by the paths of its fields, so that what a version does not have is absent.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::AnalysisError;

/// The latest version of `summary.json` that is understood.
const VERSION: u64 = 1;

/// What a run came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary(Value);

/// A figure with its interval, where it has one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// What it is.
    pub value: f64,
    /// The ends of its 95 % interval.
    pub interval: Option<(f64, f64)>,
}

impl Summary {
    /// Reads that of a folder.
    pub(super) fn read(folder: &Path) -> Result<Self, AnalysisError> {
        let path = folder.join("summary.json");
        let text = fs::read(&path).map_err(AnalysisError::io("read", &path))?;
        let value: Value = serde_json::from_slice(&text).map_err(AnalysisError::damaged(&path))?;
        let found = value["format_version"].as_u64().unwrap_or(0);
        if found > VERSION {
            return Err(AnalysisError::Version { path, found, known: VERSION });
        }
        if !value.is_object() {
            return Err(AnalysisError::Damaged { path, what: String::from("it is no JSON object") });
        }
        Ok(Self(value))
    }

    /// One of a value that is at hand.
    #[must_use]
    pub fn from_value(value: Value) -> Self {
        Self(value)
    }

    /// All of it.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// What is at a path, as in `/energy/measured`.
    #[must_use]
    pub fn at(&self, path: &str) -> Option<&Value> {
        self.0.pointer(path).filter(|value| !value.is_null())
    }

    /// A number at a path.
    #[must_use]
    pub fn number(&self, path: &str) -> Option<f64> {
        self.at(path)?.as_f64()
    }

    /// A text at a path.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<&str> {
        self.at(path)?.as_str()
    }

    /// A figure at a path: a number, or `{value, low, high}`.
    #[must_use]
    pub fn estimate(&self, path: &str) -> Option<Estimate> {
        let found = self.at(path)?;
        if let Some(value) = found.as_f64() {
            return Some(Estimate { value, interval: None });
        }
        let interval = found["low"].as_f64().zip(found["high"].as_f64());
        Some(Estimate { value: found["value"].as_f64()?, interval })
    }

    /// What to know about the run, and what to do about it.
    pub fn warnings(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        let list = |path| self.at(path).and_then(Value::as_array).into_iter().flatten();
        let remedies = list("/remedies").map(Value::as_str).chain(std::iter::repeat(None));
        list("/warnings").map(Value::as_str).zip(remedies).filter_map(|(warning, remedy)| Some((warning?, remedy)))
    }
}
