//! Reads CSV and TSV files with a header line. Opening a file keeps the position of each record; a row is read on
//! demand.
//!
//! Every value is text: `007` stays `007`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use csv::{ByteRecord, Position, Reader, ReaderBuilder};
use ergometer_diagnostics::{Hint, Message};
use serde_json::Value;

use super::DatasetError;
use super::column_set::ColumnSet;
use super::error::changed;
use super::row::Row;
use super::table::{Rows, check_file};

/// The rows of a CSV or TSV file.
#[derive(Debug)]
pub(super) struct DelimitedRows {
    path: PathBuf,
    columns: Vec<String>,
    /// The byte offset and the line of each record.
    records: Vec<(u64, u64)>,
    reader: Mutex<Reader<File>>,
}

impl DelimitedRows {
    pub(super) fn open(path: &Path) -> Result<Self, DatasetError> {
        check_file(path)?;
        let is_tsv = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("tsv"));
        let read = |cause| DatasetError::Read { path: path.to_path_buf(), cause };
        let wrong = |error| csv_error(path, error);
        let file = File::open(path).map_err(read)?;
        let mut reader = ReaderBuilder::new().delimiter(if is_tsv { b'\t' } else { b',' }).from_reader(file);
        let mut columns = ColumnSet::default();
        let in_header = |what: Message| DatasetError::Line { path: path.to_path_buf(), line: 1, what };
        for name in reader.byte_headers().map_err(wrong)? {
            let name = text(name).map_err(|what| in_header(what.into()))?;
            if !columns.insert(&name).map_err(in_header)? {
                return Err(in_header(format!("two columns have the name `{name}`").into()));
            }
        }
        let (mut records, mut record) = (Vec::new(), ByteRecord::new());
        while reader.read_byte_record(&mut record).map_err(wrong)? {
            if let Some(position) = record.position() {
                records.push((position.byte(), position.line()));
            }
        }
        let columns = columns.into_names();
        Ok(Self { path: path.to_path_buf(), columns, records, reader: Mutex::new(reader) })
    }

    fn place(&self, index: u64) -> Option<(u64, u64)> {
        usize::try_from(index).ok().and_then(|index| self.records.get(index).copied())
    }
}

impl Rows for DelimitedRows {
    fn count(&self) -> u64 {
        self.records.len() as u64
    }

    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn row(&self, index: u64) -> Result<Row, DatasetError> {
        let (byte, line) = self.place(index).ok_or(DatasetError::Beyond { index, size: self.count() })?;
        let mut position = Position::new();
        // Record 0 is the header; the reader does not use other record numbers.
        position.set_byte(byte).set_line(line).set_record(index + 1);
        let mut record = ByteRecord::new();
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let is_there = match reader.seek(position) {
            Ok(()) => reader.read_byte_record(&mut record),
            Err(error) => Err(error),
        };
        if !is_there.map_err(|error| csv_error(&self.path, error))? {
            return Err(self.wrong(index, changed("the line no longer exists")));
        }
        let cell = |(name, bytes): (&String, &[u8])| {
            let text = text(bytes).map_err(|what| self.wrong(index, format!("column `{name}`: {what}").into()))?;
            Ok((name.clone(), Value::String(text)))
        };
        self.columns.iter().zip(&record).map(cell).collect()
    }

    fn wrong(&self, index: u64, what: Message) -> DatasetError {
        let line = self.place(index).map_or(1, |(_, line)| line);
        DatasetError::Line { path: self.path.clone(), line, what }
    }
}

fn text(bytes: &[u8]) -> Result<String, String> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|error| format!("not UTF-8: {error}"))
}

/// The error of the CSV reader, with its line.
pub(super) fn csv_error(path: &Path, error: csv::Error) -> DatasetError {
    let path = path.to_path_buf();
    let line = error.position().map_or(1, Position::line);
    match error.into_kind() {
        csv::ErrorKind::Io(cause) => DatasetError::Read { path, cause },
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => DatasetError::Line {
            path,
            line,
            what: Message::new(format!(
                "{len} {}, but the header has {expected_len}",
                if len == 1 { "field" } else { "fields" }
            ))
            .with_hint(Hint::text("quote fields that contain a comma or a line break")),
        },
        csv::ErrorKind::Utf8 { .. } => {
            let what = Message::new("not UTF-8").with_hint(Hint::text("convert the file with `iconv -t UTF-8`"));
            DatasetError::Line { path, line, what }
        }
        other => DatasetError::Line { path, line, what: format!("not CSV: {other:?}").into() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(name: &str, text: &[u8]) -> Result<DelimitedRows, DatasetError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        DelimitedRows::open(&path)
    }

    #[test]
    fn quotes_line_breaks_and_marks_are_read_in_any_order() {
        let text = "\u{feff}problem,answer\r\n\"a \"\"b\"\",\r\nc\",007\r\n\r\nsecond,2\r\nlast,";
        let rows = open("x.csv", text.as_bytes()).unwrap();
        assert_eq!((rows.count(), rows.columns()), (3, &[String::from("problem"), String::from("answer")][..]));
        assert_eq!(rows.row(2).unwrap()["problem"], "last");
        assert_eq!(rows.row(2).unwrap()["answer"], "");
        assert_eq!(rows.row(0).unwrap()["problem"], "a \"b\",\r\nc");
        assert_eq!(rows.row(0).unwrap()["answer"], "007");
        assert_eq!(rows.row(1).unwrap()["problem"], "second");
        let rows = open("x.tsv", b"problem\tanswer\na, b\tc\n").unwrap();
        assert_eq!(rows.row(0).unwrap()["problem"], "a, b");
    }

    #[test]
    fn errors_have_their_line() {
        let error = |text: &[u8]| open("x.csv", text).unwrap_err().to_string();
        assert!(error(b"a,b\n1,2\n3\n").contains("line 3: 1 field, but the header has 2"));
        assert!(error(b"a,a\n1,2\n").contains("line 1: two columns have the name `a`"));
        assert!(error(b"a,\xff\n1,2\n").contains("line 1: not UTF-8"));
        let rows = open("x.csv", b"a,b\n1,2\n3,\xff\n").unwrap();
        let error = rows.row(1).unwrap_err().to_string();
        assert!(error.contains("line 3: column `b`: not UTF-8"), "{error}");
        assert_eq!(open("x.csv", b"").unwrap().count(), 0);
        assert_eq!(open("x.csv", b"a,b\n").unwrap().count(), 0);
    }
}
