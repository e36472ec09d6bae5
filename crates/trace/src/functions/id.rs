//! Ids of function variants.

use std::fmt;

use regex::{Captures, Regex};
use serde::Serialize;

/// The id of a variant. Numbers sort before texts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(untagged)]
pub enum FunctionId {
    /// A number, without leading zeros.
    Number(i64),
    /// Any other text.
    Text(String),
}

impl FunctionId {
    /// Finds the id in the name of a module; `None` if the module is not a variant.
    pub(super) fn find(pattern: &Regex, module: &str) -> Option<Self> {
        let found: Captures = pattern.captures(module)?;
        let text = found.get(1).or_else(|| found.get(0))?.as_str();
        Some(text.parse().map_or_else(|_| Self::Text(text.to_owned()), Self::Number))
    }
}

impl fmt::Display for FunctionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(formatter),
            Self::Text(text) => text.fmt(formatter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::FunctionOptions;

    fn id(pattern: &str, module: &str) -> Option<FunctionId> {
        FunctionId::find(&Regex::new(pattern).unwrap(), module)
    }

    #[test]
    fn ids_are_numbers_if_possible() {
        let text = |text: &str| Some(FunctionId::Text(text.to_owned()));
        assert_eq!(id(FunctionOptions::PATTERN, "jit_autotune_fn_07_tiled"), Some(FunctionId::Number(7)));
        assert_eq!(id(FunctionOptions::PATTERN, "pjit_autotune_fn_7"), None);
        assert_eq!(id("_([a-z]+)$", "jit_flash"), text("flash"));
        assert_eq!(id("flash|naive", "jit_naive_1"), text("naive"));
        assert_eq!(id("(9+)", "99999999999999999999"), text("99999999999999999999"));
        assert!(FunctionId::Number(10) < FunctionId::Text("1".to_owned()) && FunctionOptions::autotune().is_ok());
    }
}
