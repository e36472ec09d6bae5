//! JSON Lines by path: one object a line, with a problem and, where there are some, an answer and a subject.
//!
//! The file is read through once, so that a wrong line is told before the first request and not after an hour. Only
//! where each line begins is kept; a query is read when it is asked for.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{Dataset, DatasetError, Query};
use crate::fingerprint::hexadecimal;
use crate::grade::Grader;

/// A line that is longer is no query.
const LONGEST_LINE: u64 = 64 << 20;

/// Which columns are what. The rest is metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    /// What is asked.
    pub problem: String,
    /// What is right.
    pub answer: String,
    /// What it is about.
    pub subject: String,
}

impl Default for Columns {
    fn default() -> Self {
        Self { problem: String::from("problem"), answer: String::from("answer"), subject: String::from("subject") }
    }
}

/// A JSON Lines file.
#[derive(Debug)]
pub struct Jsonl {
    path: PathBuf,
    name: String,
    columns: Columns,
    file: Mutex<File>,
    /// Where each query's line begins and how long it is, and its number in the file.
    lines: Vec<Line>,
    fingerprint: String,
}

#[derive(Debug, Clone, Copy)]
struct Line {
    start: u64,
    length: u32,
    number: u32,
}

impl Jsonl {
    /// Reads the file through. Columns other than the problem are asked for only where the user named them.
    pub fn open(path: &Path, columns: Columns) -> Result<Self, DatasetError> {
        let read = |cause| DatasetError::Read { path: path.to_path_buf(), cause };
        // A pipe can be read once, and a query is read again when it is its turn; to open one may wait for ever.
        let kind = std::fs::metadata(path).map_err(read)?;
        if kind.is_dir() {
            return Err(read(io::Error::other("it is a folder. hint: name a JSON Lines file in it")));
        }
        if !kind.is_file() {
            return Err(read(io::Error::other("it is not a regular file. hint: write it into one first")));
        }
        let mut file = File::open(path).map_err(read)?;
        let mut digest = Sha256::new();
        let mut lines = Vec::new();
        let mut reader = BufReader::with_capacity(1 << 16, &mut file);
        let (mut start, mut number, mut line) = (0_u64, 0_u32, Vec::new());
        loop {
            line.clear();
            let length = reader.by_ref().take(LONGEST_LINE + 1).read_until(b'\n', &mut line).map_err(read)? as u64;
            if length == 0 {
                break;
            }
            number = number.saturating_add(1);
            let wrong = |what: String| DatasetError::Line { path: path.to_path_buf(), line: number.into(), what };
            if length > LONGEST_LINE {
                return Err(wrong(format!("longer than {} MiB", LONGEST_LINE >> 20)));
            }
            if !trimmed(&line).is_empty() {
                query_of(&line, lines.len() as u64, &columns).map_err(wrong)?;
                digest.update(&line);
                lines.push(Line { start, length: u32::try_from(length).unwrap_or(u32::MAX), number });
            }
            start += length;
        }
        if lines.is_empty() {
            return Err(DatasetError::Empty { path: path.to_path_buf() });
        }
        // The same file read by other columns is another dataset.
        for column in [&columns.problem, &columns.answer, &columns.subject] {
            digest.update([0]);
            digest.update(column.as_bytes());
        }
        let name = path.file_stem().map_or_else(|| String::from("dataset"), |stem| stem.to_string_lossy().into_owned());
        let fingerprint = hexadecimal(&digest.finalize());
        Ok(Self { path: path.to_path_buf(), name, columns, file: Mutex::new(file), lines, fingerprint })
    }

    fn read(&self, line: Line) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; line.length as usize];
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(line.start))?;
        file.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

impl Dataset for Jsonl {
    fn id(&self) -> &'static str {
        "jsonl"
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn size(&self) -> Option<u64> {
        Some(self.lines.len() as u64)
    }

    fn get(&self, index: u64) -> Result<Query, DatasetError> {
        let line = usize::try_from(index).ok().and_then(|index| self.lines.get(index).copied());
        let line = line.ok_or(DatasetError::Beyond { index, size: self.lines.len() as u64 })?;
        let bytes = self.read(line).map_err(|cause| DatasetError::Read { path: self.path.clone(), cause })?;
        query_of(&bytes, index, &self.columns).map_err(|what| DatasetError::Line {
            path: self.path.clone(),
            line: line.number.into(),
            what,
        })
    }

    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn grader(&self) -> Grader {
        Grader::Exact
    }
}

/// The query of one line, or what is wrong with it.
pub(super) fn query_of(line: &[u8], index: u64, columns: &Columns) -> Result<Query, String> {
    let text = std::str::from_utf8(trimmed(line)).map_err(|error| format!("not UTF-8: {error}"))?;
    let value: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let Value::Object(mut fields) = value else { return Err(String::from("not a JSON object")) };
    let there: Vec<String> = fields.keys().cloned().collect();
    let missing = |column: &str, role: &str| {
        let map =
            if role == column { format!("; `--dataset-param {role}=COLUMN` names another") } else { String::new() };
        format!("no column `{column}` for the {role}. hint: the columns are {}{map}", there.join(", "))
    };
    let defaults = Columns::default();
    let problem = take(&mut fields, &columns.problem).ok_or_else(|| missing(&columns.problem, "problem"))?;
    if problem.is_empty() {
        return Err(format!("the problem (column `{}`) is empty", columns.problem));
    }
    let mut optional = |column: &str, default: &str, role: &str| match take(&mut fields, column) {
        Some(text) => Ok(text),
        None if column == default => Ok(String::new()),
        None => Err(missing(column, role)),
    };
    let answer = optional(&columns.answer, &defaults.answer, "answer")?;
    let subject = optional(&columns.subject, &defaults.subject, "subject")?;
    Ok(Query { index, problem, answer, subject, output_tokens: None, metadata: fields })
}

/// A column's value as text. A null is there and empty; an object or a list is its JSON.
fn take(fields: &mut Map<String, Value>, column: &str) -> Option<String> {
    Some(match fields.shift_remove(column)? {
        Value::Null => String::new(),
        Value::String(text) => text,
        other => other.to_string(),
    })
}

/// Without a byte order mark and white space around.
fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(text: &[u8], columns: Columns) -> Result<Jsonl, DatasetError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my set.jsonl");
        std::fs::write(&path, text).unwrap();
        Jsonl::open(&path, columns)
    }

    #[test]
    fn columns_are_mapped_and_the_rest_is_metadata() {
        let columns = Columns { problem: String::from("question"), ..Columns::default() };
        let text =
            "\u{feff}{\"question\":\"1+1?\",\"answer\":2,\"level\":3}\r\n\n{\"question\":\"é?\",\"subject\":\"s\"}";
        let dataset = open(text.as_bytes(), columns).unwrap();
        assert_eq!((dataset.size(), dataset.name()), (Some(2), "my set"));
        let (first, second) = (dataset.get(0).unwrap(), dataset.get(1).unwrap());
        assert_eq!((first.problem.as_str(), first.answer.as_str(), first.subject.as_str()), ("1+1?", "2", ""));
        assert_eq!(first.metadata["level"], 3);
        assert_eq!((second.index, second.problem.as_str(), second.subject.as_str()), (1, "é?", "s"));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let error = |text: &[u8]| open(text, Columns::default()).unwrap_err().to_string();
        assert!(
            error(b"{\"problem\":\"a\"}\n\n{\"question\":\"b\",\"id\":1}\n").contains("line 3: no column `problem`")
        );
        assert!(error(b"{\"question\":\"b\",\"id\":1}").contains("the columns are question, id"));
        assert!(error(b"{\"problem\":\"a\"}\n{\"probl").contains("line 2: not JSON"));
        assert!(error(b"{\"problem\":\"\xff\"}").contains("line 1: not UTF-8"));
        assert!(error(b"[1]").contains("not a JSON object"));
        assert!(error(b"{\"problem\":\"\"}").contains("is empty"));
        assert!(error(b"\n\n").contains("has no queries"));
        let columns = Columns { answer: String::from("gold"), ..Columns::default() };
        let error = open(b"{\"problem\":\"a\"}", columns).unwrap_err().to_string();
        assert!(error.contains("no column `gold` for the answer"), "{error}");
    }

    #[test]
    fn the_fingerprint_is_of_the_content_and_the_columns() {
        let one = open(b"{\"problem\":\"a\",\"b\":\"c\"}\n", Columns::default()).unwrap();
        let other = open(b"{\"problem\":\"a\",\"b\":\"d\"}\n", Columns::default()).unwrap();
        let mapped =
            open(b"{\"problem\":\"a\",\"b\":\"c\"}\n", Columns { answer: String::from("b"), ..Columns::default() });
        assert_ne!(one.fingerprint(), other.fingerprint());
        assert_ne!(one.fingerprint(), mapped.unwrap().fingerprint());
        assert_eq!(one.fingerprint().len(), 64);
    }
}
