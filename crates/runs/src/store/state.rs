//! `state.json`, which makes a folder a dataset, with its fingerprint.
//!
//! `datasets` names its cached results by the fingerprint, so the fingerprint is a hash of the content: equal records
//! have the same fingerprint, and different records never hit an old cache.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// The content of `state.json`. `datasets` requires all seven keys; only the data files are used when it is read, because
/// other tools may write the rest differently.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct State {
    #[serde(rename = "_data_files")]
    pub(crate) data_files: Vec<DataFile>,
    #[serde(rename = "_fingerprint")]
    fingerprint: Value,
    #[serde(rename = "_format_columns")]
    format_columns: Value,
    #[serde(rename = "_format_kwargs")]
    format_kwargs: Value,
    #[serde(rename = "_format_type")]
    format_type: Value,
    #[serde(rename = "_output_all_columns")]
    output_all_columns: Value,
    #[serde(rename = "_split")]
    split: Value,
}

/// A file with records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DataFile {
    pub(crate) filename: String,
}

impl State {
    /// The state of a dataset with one file.
    pub(crate) fn new(data_file: &str, fingerprint: &str) -> Self {
        Self {
            data_files: vec![DataFile { filename: data_file.to_owned() }],
            fingerprint: fingerprint.into(),
            format_kwargs: Map::new().into(),
            output_all_columns: false.into(),
            ..Self::default()
        }
    }
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
    use serde_json::json;

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
        let text = serde_json::to_string(&State::new("data.arrow", "00ff")).unwrap();
        let state: Map<String, Value> = serde_json::from_str(&text).unwrap();
        assert_eq!((state.len(), &state["_fingerprint"]), (7, &json!("00ff")));
        assert_eq!(state["_data_files"], json!([{ "filename": "data.arrow" }]));
        assert_eq!((&state["_format_kwargs"], &state["_output_all_columns"]), (&json!({}), &json!(false)));
        for absent in ["_format_columns", "_format_type", "_split"] {
            assert_eq!(state.get(absent), Some(&Value::Null), "{absent}");
        }
    }
}
