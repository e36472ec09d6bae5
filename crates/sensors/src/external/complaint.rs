//! Why there is no value, and what would help: the two are kept apart, since an output that is quoted may hold any text.

use std::fmt;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Complaint {
    pub(super) why: String,
    pub(super) hint: Option<String>,
}

impl Complaint {
    pub(super) fn with_hint(why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { why: why.into(), hint: Some(hint.into()) }
    }

    /// The same, with where it is before it.
    pub(super) fn at(self, place: impl fmt::Display) -> Self {
        Self { why: format!("{place}: {}", self.why), ..self }
    }
}

impl From<String> for Complaint {
    fn from(why: String) -> Self {
        Self { why, hint: None }
    }
}

impl From<&str> for Complaint {
    fn from(why: &str) -> Self {
        Self::from(why.to_owned())
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, ". hint: {hint}"))
    }
}
