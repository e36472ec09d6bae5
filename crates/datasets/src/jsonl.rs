//! Reads JSON Lines: one object per line. Opening a file keeps the position of each line; a row is read on demand.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Mutex;

use ergometer_diagnostics::Message;

use super::DatasetError;
use super::column_set::ColumnSet;
use super::row::{Row, row_of};
use super::spans::{Span, Spans};
use super::table::{Rows, check_file};

/// Maximum length of a line in bytes.
pub(super) const LONGEST_LINE: u64 = 64 << 20;

/// The rows of a JSON Lines file.
#[derive(Debug)]
pub(super) struct JsonlRows {
    lines: Spans,
    columns: Vec<String>,
}

impl JsonlRows {
    pub(super) fn open(path: &Path) -> Result<Self, DatasetError> {
        check_file(path)?;
        let read = |cause| DatasetError::Read { path: path.to_path_buf(), cause };
        let mut file = File::open(path).map_err(read)?;
        let (mut spans, mut columns) = (Vec::new(), ColumnSet::default());
        let mut reader = BufReader::with_capacity(1 << 16, &mut file);
        let (mut start, mut number, mut line) = (0_u64, 0_u32, Vec::new());
        loop {
            line.clear();
            let length = reader.by_ref().take(LONGEST_LINE + 1).read_until(b'\n', &mut line).map_err(read)? as u64;
            if length == 0 {
                break;
            }
            number = number.saturating_add(1);
            let wrong = |what: Message| DatasetError::Line { path: path.to_path_buf(), line: number.into(), what };
            if length > LONGEST_LINE {
                return Err(wrong(format!("longer than {} MiB", LONGEST_LINE >> 20).into()));
            }
            if !trimmed(&line).is_empty() {
                let row = row_of(trimmed(&line)).map_err(wrong)?;
                columns.add(row.keys()).map_err(wrong)?;
                spans.push(Span { start, length: u32::try_from(length).unwrap_or(u32::MAX), number });
            }
            start += length;
        }
        let lines = Spans { path: path.to_path_buf(), file: Mutex::new(file), parts: spans };
        Ok(Self { lines, columns: columns.into_names() })
    }
}

impl Rows for JsonlRows {
    fn count(&self) -> u64 {
        self.lines.count()
    }

    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn row(&self, index: u64) -> Result<Row, DatasetError> {
        row_of(trimmed(&self.lines.read(index)?)).map_err(|what| self.wrong(index, what))
    }

    fn wrong(&self, index: u64, what: Message) -> DatasetError {
        DatasetError::Line { path: self.lines.path.clone(), line: self.lines.number(index), what }
    }
}

/// A line without byte order mark and surrounding white space.
pub(super) fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii()
}

#[cfg(test)]
mod tests {
    use ergometer_diagnostics::{CommandLine, Diagnostic as _};

    use super::*;
    use crate::Dataset;
    use crate::columns::ColumnNames;
    use crate::grade::Grader;
    use crate::table::{Table, TableSpec};

    fn open(text: &[u8], names: &ColumnNames) -> Result<Table, DatasetError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my set.jsonl");
        std::fs::write(&path, text).unwrap();
        let spec = TableSpec { id: "jsonl", path: &path, names, grader: Grader::Exact };
        Table::new(Box::new(JsonlRows::open(&path)?), spec)
    }

    fn named(problem: Option<&str>, answer: Option<&str>) -> ColumnNames {
        let owned = |name: Option<&str>| name.map(str::to_owned);
        ColumnNames { problem: owned(problem), answer: owned(answer), ..ColumnNames::default() }
    }

    #[test]
    fn columns_are_mapped_and_the_rest_is_metadata() {
        let text =
            "\u{feff}{\"question\":\"1+1?\",\"answer\":2,\"level\":3}\r\n\n{\"question\":\"é?\",\"subject\":\"s\"}";
        for names in [named(Some("question"), None), ColumnNames::default()] {
            let dataset = open(text.as_bytes(), &names).unwrap();
            assert_eq!((dataset.size(), dataset.name()), (Some(2), "my set"));
            assert_eq!(dataset.columns().unwrap().to_string(), "problem=question");
            let (first, second) = (dataset.get(0).unwrap(), dataset.get(1).unwrap());
            assert_eq!((first.problem.as_str(), first.answer.as_str(), first.subject.as_str()), ("1+1?", "2", ""));
            assert_eq!(first.metadata["level"], 3);
            assert_eq!((second.index, second.problem.as_str(), second.subject.as_str()), (1, "é?", "s"));
        }
    }

    #[test]
    fn errors_have_their_line() {
        let error = |text: &[u8]| open(text, &ColumnNames::default()).unwrap_err().one_line(&CommandLine);
        assert!(error(b"{\"problem\":\"a\"}\n\n{\"stem\":\"b\",\"id\":1}\n").contains("line 3: no column `problem`"));
        assert!(error(b"{\"stem\":\"b\",\"id\":1}").contains("the columns are stem, id"));
        assert!(error(b"{\"problem\":\"a\"}\n{\"probl").contains("line 2: not JSON"));
        assert!(error(b"{\"problem\":\"a\"}\nnot json\n").ends_with("line 2: not JSON: expected ident (column 2)"));
        assert!(error(b"{\"problem\":\"\xff\"}").contains("line 1: not UTF-8"));
        assert!(error(b"[1]").contains("not a JSON object"));
        assert!(error(b"{\"problem\":\"\"}").contains("is empty"));
        assert!(error(b"\n\n").contains("has no queries"));
        let error = open(b"{\"problem\":\"a\"}", &named(None, Some("gold"))).unwrap_err().to_string();
        assert!(error.contains("no column `gold` for the answer"), "{error}");
    }

    #[test]
    fn a_row_may_have_a_hundred_thousand_columns() {
        let row = |columns: usize| {
            let rest = (1..columns).map(|number| format!(",\"{number}\":{number}")).collect::<Vec<_>>().concat();
            format!("{{\"problem\":\"a\"{rest}}}")
        };
        let dataset = open(row(100_000).as_bytes(), &ColumnNames::default()).unwrap();
        assert_eq!(dataset.get(0).unwrap().metadata.len(), 99_999);
        let error = open(row(100_001).as_bytes(), &ColumnNames::default()).unwrap_err().to_string();
        assert!(error.ends_with("line 1: there are more than 100000 different columns"), "{error}");
    }

    #[test]
    fn a_column_named_by_the_user_must_be_in_every_row() {
        let text = b"{\"problem\":\"a\",\"answer\":\"b\"}\n{\"problem\":\"c\"}\n";
        assert_eq!(open(text, &ColumnNames::default()).unwrap().get(1).unwrap().answer, "");
        let error = open(text, &named(None, Some("answer"))).unwrap_err().to_string();
        assert!(error.contains("line 2: no column `answer`"), "{error}");
    }

    #[test]
    fn the_fingerprint_depends_on_the_content_and_the_columns() {
        let one = open(b"{\"problem\":\"a\",\"b\":\"c\"}\n", &ColumnNames::default()).unwrap();
        let other = open(b"{\"problem\":\"a\",\"b\":\"d\"}\n", &ColumnNames::default()).unwrap();
        let mapped = open(b"{\"problem\":\"a\",\"b\":\"c\"}\n", &named(None, Some("b"))).unwrap();
        assert_ne!(one.fingerprint(), other.fingerprint());
        assert_ne!(one.fingerprint(), mapped.fingerprint());
        assert_eq!(one.fingerprint().len(), 64);
    }
}
