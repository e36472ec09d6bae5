//! The demo models. Their files are embedded in the library, so a first run needs no download.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use crate::files::{File, Files};

/// A model embedded in the library; `assets/README.md` describes what it can and cannot do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Demo {
    /// 0.1 million parameters; solves 478 of the 600 built-in problems.
    Tiny,
    /// 0.9 million parameters; solves 548 of the 600 built-in problems.
    Small,
}

macro_rules! embedded {
    ($name:literal) => {
        [
            ("config.json", include_bytes!(concat!("../../../assets/models/", $name, "/config.json")).as_slice()),
            ("tokenizer.json", include_bytes!(concat!("../../../assets/models/", $name, "/tokenizer.json"))),
            (
                "tokenizer_config.json",
                include_bytes!(concat!("../../../assets/models/", $name, "/tokenizer_config.json")),
            ),
            ("model.safetensors", include_bytes!(concat!("../../../assets/models/", $name, "/model.safetensors"))),
        ]
    };
}

impl Demo {
    /// All demo models, smallest first.
    pub const ALL: [Self; 2] = [Self::Tiny, Self::Small];

    /// The name: `tiny` or `small`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tiny => "tiny",
            Self::Small => "small",
        }
    }

    pub(crate) fn files(self) -> Files {
        let embedded = match self {
            Self::Tiny => embedded!("tiny"),
            Self::Small => embedded!("small"),
        };
        let folder = Path::new("assets/models").join(self.name());
        let [config, tokenizer, tokenizer_config, weights] =
            embedded.map(|(name, bytes)| embed(folder.join(name), bytes));
        Files {
            config,
            tokenizer,
            tokenizer_config: Some(tokenizer_config),
            chat_template: None,
            generation_config: None,
            weights: vec![weights],
        }
    }
}

fn embed(path: PathBuf, bytes: &'static [u8]) -> File {
    File { path, bytes: Cow::Borrowed(bytes) }
}
