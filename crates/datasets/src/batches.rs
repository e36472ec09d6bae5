//! Reads rows from files of record batches: Parquet row groups or Arrow messages.
//!
//! A batch is decoded when one of its rows is read. The most recently used batches stay in memory, up to [`KEPT`]
//! bytes, so that small datasets stay decoded and large ones do not fill the memory.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use ergometer_columnar::FileError;
use ergometer_diagnostics::{Message, contain_panic};

use super::DatasetError;
use super::arrow_value::row_of;
use super::column_set::ColumnSet;
use super::error::changed;
use super::row::Row;
use super::table::Rows;

/// Maximum size of the decoded batches in memory, in bytes.
const KEPT: usize = 256 << 20;

/// A file whose row groups can be decoded one by one.
pub(super) trait Batches: Send + Sync {
    /// The number of rows of each row group.
    fn rows(&self) -> &[u64];

    /// The names of the columns.
    fn columns(&self) -> Vec<String>;

    /// Decodes a row group.
    fn decode(&self, group: usize) -> Result<Vec<RecordBatch>, FileError>;
}

/// The rows of one or more files.
pub(super) struct BatchRows {
    files: Vec<(PathBuf, Box<dyn Batches>)>,
    columns: Vec<String>,
    groups: Vec<RowGroup>,
    count: u64,
    cache: Mutex<Cache>,
}

/// A Parquet row group or an Arrow message, with the index of its first row in the dataset and in the file.
#[derive(Debug, Clone, Copy)]
struct RowGroup {
    file: usize,
    number: usize,
    first: u64,
    first_in_file: u64,
}

impl BatchRows {
    pub(super) fn new(files: Vec<(PathBuf, Box<dyn Batches>)>) -> Result<Self, DatasetError> {
        let (mut columns, mut groups, mut count) = (ColumnSet::default(), Vec::new(), 0);
        for (file, (path, batches)) in files.iter().enumerate() {
            let wrong = |what| DatasetError::Format { path: path.clone(), what };
            columns.add(batches.columns().iter()).map_err(wrong)?;
            let mut first_in_file = 0;
            for (group, &rows) in batches.rows().iter().enumerate() {
                if rows > 0 {
                    groups.push(RowGroup { file, number: group, first: count, first_in_file });
                }
                first_in_file += rows;
                count += rows;
            }
        }
        Ok(Self { files, columns: columns.into_names(), groups, count, cache: Mutex::default() })
    }

    fn row_group(&self, index: u64) -> Option<RowGroup> {
        let after = self.groups.partition_point(|group| group.first <= index);
        self.groups.get(after.checked_sub(1)?).copied().filter(|_| index < self.count)
    }

    fn path(&self, group: RowGroup) -> &Path {
        &self.files[group.file].0
    }

    fn decoded(&self, group: RowGroup) -> Result<Arc<Vec<RecordBatch>>, DatasetError> {
        let key = (group.file, group.number);
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(batches) = cache.get(key) {
            return Ok(batches);
        }
        let decoded = self.files[group.file].1.decode(group.number);
        let batches = Arc::new(decoded.map_err(DatasetError::of_file(self.path(group)))?);
        cache.put(key, Arc::clone(&batches));
        Ok(batches)
    }
}

impl fmt::Debug for BatchRows {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("BatchRows").field("count", &self.count).finish_non_exhaustive()
    }
}

impl Rows for BatchRows {
    fn is_packed(&self) -> bool {
        true
    }

    fn count(&self) -> u64 {
        self.count
    }

    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn row(&self, index: u64) -> Result<Row, DatasetError> {
        let group = self.row_group(index).ok_or(DatasetError::Beyond { index, size: self.count })?;
        let mut left = usize::try_from(index - group.first).unwrap_or(usize::MAX);
        for batch in &*self.decoded(group)? {
            if left < batch.num_rows() {
                // Some conversions of Arrow panic on values that are out of range.
                let row = contain_panic(|| row_of(batch, left)).unwrap_or_else(|panic| Err(changed(panic)));
                return row.map_err(|what| self.wrong(index, what));
            }
            left -= batch.num_rows();
        }
        Err(self.wrong(index, changed("the file has fewer rows than it declares")))
    }

    fn wrong(&self, index: u64, what: Message) -> DatasetError {
        match self.row_group(index) {
            Some(group) => DatasetError::Row {
                path: self.path(group).to_path_buf(),
                row: index - group.first + group.first_in_file + 1,
                what,
            },
            None => DatasetError::Beyond { index, size: self.count },
        }
    }
}

/// Decoded row groups, the most recently used last.
#[derive(Default)]
struct Cache {
    groups: Vec<CachedGroup>,
}

struct CachedGroup {
    key: (usize, usize),
    batches: Arc<Vec<RecordBatch>>,
    bytes: usize,
}

impl Cache {
    fn get(&mut self, key: (usize, usize)) -> Option<Arc<Vec<RecordBatch>>> {
        let place = self.groups.iter().rposition(|cached| cached.key == key)?;
        self.groups[place..].rotate_left(1);
        self.groups.last().map(|cached| Arc::clone(&cached.batches))
    }

    fn put(&mut self, key: (usize, usize), batches: Arc<Vec<RecordBatch>>) {
        let bytes = batches.iter().map(RecordBatch::get_array_memory_size).sum();
        self.groups.push(CachedGroup { key, batches, bytes });
        let mut all: usize = self.groups.iter().map(|cached| cached.bytes).sum();
        while all > KEPT && self.groups.len() > 1 {
            all -= self.groups.remove(0).bytes;
        }
    }
}
