//! `state.json`, which makes a folder a dataset, with its fingerprint.
//!
//! `datasets` names its cached results by the fingerprint, so the fingerprint is a hash of the content: equal records
//! have the same fingerprint, and different records never hit an old cache.

use std::io::{self, Write};

use serde_json::json;
use sha2::{Digest, Sha256};

/// The content of `state.json`. `datasets` requires all seven keys.
pub(super) fn state_json(data_file: &str, fingerprint: &str) -> String {
    let state = json!({
        "_data_files": [{ "filename": data_file }],
        "_fingerprint": fingerprint,
        "_format_columns": null,
        "_format_kwargs": {},
        "_format_type": null,
        "_output_all_columns": false,
        "_split": null,
    });
    format!("{state:#}\n")
}

/// A writer that computes the SHA-256 of the bytes written to it.
pub(super) struct HashingWriter<File> {
    file: File,
    digest: Sha256,
}

impl<File> HashingWriter<File> {
    pub(super) fn new(file: File) -> Self {
        Self { file, digest: Sha256::new() }
    }

    /// Returns the file and the fingerprint of its content: sixteen hex digits, the format of `datasets`.
    pub(super) fn into_parts(self) -> (File, String) {
        let first = self.digest.finalize().iter().take(8).fold(0, |number, &byte| number << 8 | u64::from(byte));
        (self.file, format!("{first:016x}"))
    }
}

impl<File: Write> Write for HashingWriter<File> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.digest.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value};

    use super::*;

    #[test]
    fn the_fingerprint_follows_from_the_content() {
        let print = |pieces: &[&[u8]]| {
            let mut file = HashingWriter::new(Vec::new());
            pieces.iter().try_for_each(|piece| file.write_all(piece)).unwrap();
            file.into_parts()
        };
        assert_eq!(print(&[b"ab", b"c"]), print(&[b"a", b"bc"]));
        // The first eight bytes of SHA-256 of "abc", from FIPS 180-4's example.
        assert_eq!(print(&[b"abc"]), (b"abc".to_vec(), "ba7816bf8f01cfea".to_owned()));
    }

    #[test]
    fn the_state_has_its_seven_keys() {
        let state: Map<String, Value> = serde_json::from_str(&state_json("data.arrow", "00ff")).unwrap();
        assert_eq!((state.len(), &state["_fingerprint"]), (7, &json!("00ff")));
        assert_eq!(state["_data_files"], json!([{ "filename": "data.arrow" }]));
    }
}
