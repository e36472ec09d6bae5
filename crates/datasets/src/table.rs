//! Datasets of rows from files of any format.
//!
//! Opening a table reads every row, so that an invalid row is an error before the first request and not after an hour.
//! The fingerprint is a hash of all queries, so the same table has the same fingerprint in every file format.

use std::fmt;
use std::path::Path;

use ergometer_diagnostics::{Hint, Message};
use sha2::{Digest, Sha256};

use super::columns::{ColumnNames, Columns};
use super::row::{Row, query_of};
use super::{Dataset, DatasetError, Query, Turn};
use crate::fingerprint::hexadecimal;
use crate::grade::Grader;

/// A source of rows by index.
pub(super) trait Rows: Send + Sync {
    /// The number of rows.
    fn count(&self) -> u64;

    /// All columns of all rows, in the order in which they first appear.
    fn columns(&self) -> &[String];

    /// The row at an index below the count.
    fn row(&self, index: u64) -> Result<Row, DatasetError>;

    /// An error about this row, with its position in the file.
    fn wrong(&self, index: u64, what: Message) -> DatasetError;

    /// The turn of a conversation that a row is, if any. Removes the columns that belong to the turn from the row.
    fn turn(&self, _index: u64, _row: &mut Row) -> Option<Turn> {
        None
    }

    /// The number of turns of the conversation that starts at this index.
    fn turns(&self, _index: u64) -> u64 {
        1
    }

    /// Whether reading one row may decompress many others.
    fn is_packed(&self) -> bool {
        false
    }

    /// The number of rows that were skipped.
    fn skipped(&self) -> u64 {
        0
    }
}

/// The id, path, columns and grader of a table.
pub(super) struct TableSpec<'a> {
    pub(super) id: &'static str,
    pub(super) path: &'a Path,
    pub(super) names: &'a ColumnNames,
    pub(super) grader: Grader,
}

/// A dataset of rows.
pub struct Table {
    id: &'static str,
    name: String,
    rows: Box<dyn Rows>,
    columns: Columns,
    fingerprint: String,
    grader: Grader,
}

impl Table {
    /// Chooses the columns and reads every row.
    pub(super) fn new(rows: Box<dyn Rows>, spec: TableSpec<'_>) -> Result<Self, DatasetError> {
        if rows.count() == 0 {
            return Err(DatasetError::Empty { path: spec.path.to_path_buf() });
        }
        let columns = spec.names.resolve(rows.columns()).map_err(|what| rows.wrong(0, what))?;
        let mut digest = Sha256::new();
        for index in 0..rows.count() {
            let query = query(&*rows, index, &columns)?;
            // A query consists of text and JSON values, so writing it cannot fail.
            digest.update(serde_json::to_vec(&query).unwrap_or_default());
            digest.update(b"\n");
        }
        let name = name_of(spec.path);
        let fingerprint = hexadecimal(&digest.finalize());
        Ok(Self { id: spec.id, name, rows, columns, fingerprint, grader: spec.grader })
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Table").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}

impl Dataset for Table {
    fn id(&self) -> &'static str {
        self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn size(&self) -> Option<u64> {
        Some(self.rows.count())
    }

    fn get(&self, index: u64) -> Result<Query, DatasetError> {
        let size = self.rows.count();
        if index >= size {
            return Err(DatasetError::Beyond { index, size });
        }
        query(&*self.rows, index, &self.columns)
    }

    fn turns(&self, index: u64) -> u64 {
        self.rows.turns(index)
    }

    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn grader(&self) -> Grader {
        self.grader.clone()
    }

    fn columns(&self) -> Option<&Columns> {
        Some(&self.columns)
    }

    fn skipped(&self) -> u64 {
        self.rows.skipped()
    }

    fn is_packed(&self) -> bool {
        self.rows.is_packed()
    }
}

fn query(rows: &dyn Rows, index: u64, columns: &Columns) -> Result<Query, DatasetError> {
    let mut row = rows.row(index)?;
    let turn = rows.turn(index, &mut row);
    let query = query_of(row, index, columns).map_err(|what| rows.wrong(index, what))?;
    Ok(Query { turn, ..query })
}

/// The file name without extension, or the folder name.
pub(super) fn name_of(path: &Path) -> String {
    // `.` and `..` have no file name.
    let full = path.file_name().is_none().then(|| path.canonicalize().ok()).flatten();
    let path = full.as_deref().unwrap_or(path);
    let name = if path.is_dir() { path.file_name() } else { path.file_stem() };
    name.map_or_else(|| String::from("dataset"), |name| name.to_string_lossy().into_owned())
}

/// Checks that a path is a regular file.
///
/// Queries are read again when they are sent, but a pipe can be read only once, and opening one may wait forever.
pub(super) fn check_file(path: &Path) -> Result<(), DatasetError> {
    let read = |cause| DatasetError::Read { path: path.to_path_buf(), cause };
    let wrong = |text: &str, hint: &'static str| DatasetError::Format {
        path: path.to_path_buf(),
        what: Message::new(text).with_hint(Hint::text(hint)),
    };
    let kind = std::fs::metadata(path).map_err(read)?;
    if kind.is_dir() {
        return Err(wrong("it is a folder", "pass a file in it"));
    }
    if !kind.is_file() {
        return Err(wrong("it is not a regular file", "save it as a regular file first"));
    }
    Ok(())
}
