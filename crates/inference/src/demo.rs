//! The demo models, whose files are inside the library: a first run needs no download. They go the way of any folder.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use crate::files::{File, Files};

/// A model that comes with the library; `assets/README.md` says what it can and cannot do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Demo {
    /// 0.1 million parameters: 478 of the 600 built-in problems right.
    Tiny,
    /// 0.9 million parameters: 548 of the 600 built-in problems right.
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
    /// All there are, from the smallest on.
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
