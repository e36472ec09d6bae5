//! Think time before the next turn of a conversation, if the dataset has none.

use serde::{Deserialize, Serialize};

/// Think time.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Think {
    /// No think time.
    #[default]
    Never,
    /// A fixed time.
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
    /// Whether there is no think time.
    #[must_use]
    pub fn is_never(&self) -> bool {
        *self == Self::Never
    }
}
