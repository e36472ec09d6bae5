//! Reads the rows of a recording one after the other, with their position for errors.
//!
//! JSON Lines and CSV, compressed with gzip or not, are read as a stream, so that no row stays in memory. Other formats
//! are read by the readers of datasets.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use csv::{ReaderBuilder, StringRecord};
use ergometer_diagnostics::Message;
use flate2::bufread::MultiGzDecoder;
use serde_json::Value;

use super::super::DatasetError;
use super::super::delimited::csv_error;
use super::super::format::Format;
use super::super::jsonl::{LONGEST_LINE, trimmed};
use super::super::registry::rows;
use super::super::row::{Row, row_of};
use super::super::table::check_file;

/// Handles a row; its errors are reported with the position of the row.
type Take<'a> = dyn FnMut(Row) -> Result<(), Message> + 'a;

/// Reads a whole file.
pub(super) fn read(path: &Path, take: &mut Take<'_>) -> Result<(), DatasetError> {
    check_file(path)?;
    let opened = unpacked(path).map_err(|cause| DatasetError::Read { path: path.to_path_buf(), cause })?;
    let inner = unpacked_name(path);
    let is_packed = inner != path;
    let format = match Format::from_extension(&inner) {
        // Many JSON Lines files have this extension.
        Some(Format::Json) if is_packed => Format::Jsonl,
        Some(Format::Json) => Format::detect(path)?,
        Some(format) => format,
        None => begins_as(path)?,
    };
    match format {
        Format::Jsonl => lines(path, opened, take),
        Format::Delimited => {
            let is_tsv = inner.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("tsv"));
            delimited(path, opened, if is_tsv { b'\t' } else { b',' }, take)
        }
        other => {
            let rows = rows(path, other, None, None)?;
            (0..rows.count()).try_for_each(|index| take(rows.row(index)?).map_err(|what| rows.wrong(index, what)))
        }
    }
}

/// The file name without `.gz`.
pub(super) fn unpacked_name(path: &Path) -> PathBuf {
    let is_packed = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gz"));
    if is_packed { path.with_extension("") } else { path.to_path_buf() }
}

/// The content of a file, decompressed if it is compressed.
fn unpacked(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let mut file = BufReader::with_capacity(1 << 16, File::open(path)?);
    fill(&mut file)?;
    if file.buffer().starts_with(&[0x1f, 0x8b]) {
        return Ok(Box::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(file))));
    }
    Ok(Box::new(file))
}

/// Fills the buffer, again if a signal interrupts it.
fn fill(file: &mut impl BufRead) -> io::Result<()> {
    loop {
        match file.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            filled => return filled.map(|_| ()),
        }
    }
}

/// JSON Lines or CSV, by the first character.
fn begins_as(path: &Path) -> Result<Format, DatasetError> {
    let read = |cause| DatasetError::Read { path: path.to_path_buf(), cause };
    let mut file = unpacked(path).map_err(read)?;
    fill(&mut file).map_err(read)?;
    let is_json = trimmed(file.fill_buf().map_err(read)?).starts_with(b"{");
    Ok(if is_json { Format::Jsonl } else { Format::Delimited })
}

fn lines(path: &Path, mut file: Box<dyn BufRead>, take: &mut Take<'_>) -> Result<(), DatasetError> {
    let mut bytes = Vec::new();
    for line in 1.. {
        bytes.clear();
        let read = file.by_ref().take(LONGEST_LINE + 1).read_until(b'\n', &mut bytes);
        let length = read.map_err(|cause| DatasetError::Read { path: path.to_path_buf(), cause })?;
        if length == 0 {
            break;
        }
        let text = trimmed(&bytes);
        let taken = match length as u64 {
            length if length > LONGEST_LINE => Err(format!("longer than {} MiB", LONGEST_LINE >> 20).into()),
            _ if text.is_empty() => Ok(()),
            _ => row_of(text).and_then(&mut *take),
        };
        taken.map_err(|what| DatasetError::Line { path: path.to_path_buf(), line, what })?;
    }
    Ok(())
}

fn delimited(path: &Path, file: Box<dyn BufRead>, delimiter: u8, take: &mut Take<'_>) -> Result<(), DatasetError> {
    let mut reader = ReaderBuilder::new().delimiter(delimiter).from_reader(file);
    let columns = reader.headers().map_err(|error| csv_error(path, error))?.clone();
    let mut record = StringRecord::new();
    while reader.read_record(&mut record).map_err(|error| csv_error(path, error))? {
        let cells = columns.iter().zip(&record);
        let row: Row = cells.map(|(name, text)| (name.trim().to_owned(), Value::String(text.to_owned()))).collect();
        let line = record.position().map_or(1, csv::Position::line);
        take(row).map_err(|what| DatasetError::Line { path: path.to_path_buf(), line, what })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader whose first read a signal interrupts.
    struct Interrupted(bool);

    impl Read for Interrupted {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            if std::mem::take(&mut self.0) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            bytes[..2].copy_from_slice(b"{}");
            Ok(2)
        }
    }

    #[test]
    fn an_interrupted_read_is_repeated() {
        let mut file = BufReader::new(Interrupted(true));
        fill(&mut file).unwrap();
        assert_eq!(file.buffer(), b"{}");
    }
}
