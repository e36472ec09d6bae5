//! Files for the targets: the input of a target that reads a folder is split into files of a temporary folder.

use std::fs;
use std::path::{Path, PathBuf};

/// Separates the files in an input. The byte after it chooses the name of the file.
const MARK: &[u8] = b"\n@@";

/// A folder of this process inside the folder for temporary files. Set `TMPDIR` to a folder in memory.
#[derive(Debug)]
pub struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    /// Creates the folder, without files.
    #[must_use]
    pub fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("ergometer-fuzz-{}", std::process::id()));
        let scratch = Self { folder };
        scratch.clear("");
        scratch
    }

    /// The path of a file or folder.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a file, with the folders around it, and returns its path.
    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        if fs::write(&path, bytes).is_err() {
            fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).expect("a folder for temporary files");
            fs::write(&path, bytes).expect("a file in the folder for temporary files");
        }
        path
    }

    /// Replaces a folder by an empty one.
    pub fn clear(&self, name: &str) {
        let path = self.path(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder for temporary files");
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

/// The files of an input: the byte that chooses the name, and the content.
pub fn files(input: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut rest = next_mark(input).map(|(_, rest)| rest);
    std::iter::from_fn(move || {
        let (name, bytes) = rest?.split_first()?;
        let (content, next) = next_mark(bytes).map_or((bytes, None), |(content, rest)| (content, Some(rest)));
        rest = next;
        Some((*name, content))
    })
}

/// The bytes before and after the next mark.
fn next_mark(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let place = bytes.windows(MARK.len()).position(|window| window == MARK)?;
    Some((&bytes[..place], &bytes[place + MARK.len()..]))
}
