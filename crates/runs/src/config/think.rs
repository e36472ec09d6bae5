//! How long the human of a conversation thinks before the next turn, where the conversation does not say.

use serde::{Deserialize, Serialize};

/// How long the human thinks.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Think {
    /// Not at all.
    #[default]
    Never,
    /// Always as long.
    Fixed {
        /// In seconds.
        seconds: f64,
    },
    /// Exponentially distributed.
    Exponential {
        /// The mean, in seconds.
        mean_s: f64,
    },
}

impl Think {
    /// Whether nobody thinks.
    #[must_use]
    pub fn is_never(&self) -> bool {
        *self == Self::Never
    }
}
