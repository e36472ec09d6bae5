//! Writes the records as a dataset for `datasets.load_from_disk`: an Arrow stream and two JSON files.
//!
//! The stream is written in batches, so memory use stays constant. `state.json`, which makes the folder a dataset, is
//! removed before the data changes and written last: if it exists, the data beside it is complete and belongs to it.

use std::path::{Path, PathBuf};

use arrow_ipc::writer::StreamWriter;

use super::length::text_bytes;
use super::partial::{PartialFile, remove_file};
use super::state::{HashingWriter, State};
use super::{RecordSchema, StoreError, write_json};
use crate::record::Record;

/// The Arrow stream with the records.
pub const DATA_FILE: &str = "data-00000-of-00001.arrow";
/// The description of the dataset. It is empty, so `datasets` takes the types from the stream.
pub const INFO_FILE: &str = "dataset_info.json";
/// Lists the data files of the dataset.
pub const STATE_FILE: &str = "state.json";

/// The most rows of a batch, the same as in the batches that `datasets` writes.
const BATCH_ROWS: usize = 1000;
/// The most bytes of text in a batch, as buffered records are held twice while they are written.
const BATCH_TEXT_BYTES: usize = 8 << 20;

/// Writes the records of a run into its folder.
///
/// ```
/// use ergometer_runs::store::{DatasetWriter, MetadataShape, RecordSchema};
///
/// let folder = tempfile::tempdir()?;
/// let schema = RecordSchema::new("org/model", &MetadataShape::default());
/// let writer = DatasetWriter::create(folder.path(), schema)?;
/// // writer.push(&record)? for each
/// assert_eq!(writer.finish()?, 0);
/// assert!(folder.path().join("state.json").exists());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct DatasetWriter {
    folder: PathBuf,
    path: PathBuf,
    schema: RecordSchema,
    stream: StreamWriter<HashingWriter<PartialFile>>,
    waiting: Vec<Record>,
    waiting_bytes: usize,
    rows: u64,
}

impl DatasetWriter {
    /// Starts the dataset of a run. Existing files stay until [`finish`](Self::finish).
    pub fn create(folder: &Path, schema: RecordSchema) -> Result<Self, StoreError> {
        let path = folder.join(DATA_FILE);
        let file = HashingWriter::new(PartialFile::create(&path)?);
        let stream = StreamWriter::try_new(file, &schema.schema()).map_err(StoreError::arrow(&path))?;
        let waiting = Vec::with_capacity(BATCH_ROWS);
        Ok(Self { folder: folder.to_owned(), path, schema, stream, waiting, waiting_bytes: 0, rows: 0 })
    }

    /// Adds a record. The metadata shape of the schema must have observed its metadata.
    pub fn push(&mut self, record: &Record) -> Result<(), StoreError> {
        let query_index = record.ergometer.query_index;
        if let Some(key) = self.schema.metadata.misfit(&record.dataset_metadata) {
            return Err(StoreError::UnforeseenMetadata { path: self.path.clone(), key: key.to_owned(), query_index });
        }
        let bytes = text_bytes(record);
        if i32::try_from(bytes).is_err() {
            return Err(StoreError::TooLong { path: self.path.clone(), row: format!("query {query_index}"), bytes });
        }
        if self.waiting_bytes + bytes > BATCH_TEXT_BYTES {
            self.write_batch()?;
        }
        self.waiting.push(record.clone());
        self.waiting_bytes += bytes;
        if self.waiting.len() == BATCH_ROWS {
            self.write_batch()?;
        }
        Ok(())
    }

    /// Finishes the stream and moves the three files into place. Returns the number of records.
    pub fn finish(mut self) -> Result<u64, StoreError> {
        self.write_batch()?;
        let (file, fingerprint) = self.stream.into_inner().map_err(StoreError::arrow(&self.path))?.into_parts();
        let state = self.folder.join(STATE_FILE);
        remove_file(&state)?;
        file.commit()?;
        PartialFile::write_whole(&self.folder.join(INFO_FILE), b"{}\n")?;
        write_json(&state, &State::new(DATA_FILE, &fingerprint))?;
        Ok(self.rows)
    }

    fn write_batch(&mut self) -> Result<(), StoreError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let batch = self.schema.root.batch(&self.waiting);
        self.stream.write(&batch).map_err(StoreError::arrow(&self.path))?;
        self.rows += self.waiting.len() as u64;
        self.waiting.clear();
        self.waiting_bytes = 0;
        Ok(())
    }
}

impl std::fmt::Debug for DatasetWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DatasetWriter").field("path", &self.path).field("rows", &self.rows).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, Int64Type};
    use arrow_array::{Array, RecordBatch, StructArray};
    use arrow_ipc::reader::StreamReader;
    use arrow_schema::DataType;
    use proptest::prelude::*;
    use serde_json::{Map, Value};

    use super::super::MetadataShape;
    use super::super::example::{any_json, bare_record, record};
    use super::*;

    fn write(folder: &Path, model: &str, records: &[Record]) -> u64 {
        let mut shape = MetadataShape::default();
        for record in records {
            shape.observe(&record.dataset_metadata);
        }
        let mut writer = DatasetWriter::create(folder, RecordSchema::new(model, &shape)).unwrap();
        for record in records {
            writer.push(record).unwrap();
        }
        writer.finish().unwrap()
    }

    fn read(folder: &Path) -> Vec<RecordBatch> {
        let reader = StreamReader::try_new(File::open(folder.join(DATA_FILE)).unwrap(), None).unwrap();
        reader.map(Result::unwrap).collect()
    }

    fn inner<'a>(batch: &'a RecordBatch, path: &[&str]) -> &'a StructArray {
        let first = batch[path[0]].as_struct();
        path[1..].iter().fold(first, |structure, name| structure[*name].as_struct())
    }

    fn state(folder: &Path) -> Map<String, Value> {
        serde_json::from_slice(&fs::read(folder.join(STATE_FILE)).unwrap()).unwrap()
    }

    #[test]
    fn a_record_is_read_back_with_none_as_null() {
        let folder = tempfile::tempdir().unwrap();
        let model = "org/modèle.v1.5:free";
        assert_eq!(write(folder.path(), model, &[record(0), bare_record(1)]), 2);
        let batches = read(folder.path());
        let batch = &batches[0];
        let metrics = inner(batch, &["model_metrics", model]);
        let float = |structure: &StructArray, name: &str| {
            structure[name].as_primitive::<Float64Type>().iter().collect::<Vec<_>>()
        };
        let energy = metrics["energy_metrics"].as_struct();
        assert_eq!(float(energy, "per_query_joules"), [Some(12.5), None]);
        assert_eq!(float(energy, "total_joules"), [Some(12.5), None], "the total is the same");
        let watts = inner(batch, &["model_metrics", model, "power_metrics", "gpu", "total_watts"]);
        assert_eq!((float(watts, "median"), watts.null_count()), (vec![Some(300.0), None], 0));
        let tokens = metrics["token_metrics"].as_struct();
        assert_eq!(tokens["output"].as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [Some(34), None]);
        assert_eq!([0, 1].map(|row| metrics["gpu_info"].is_null(row)), [false, true]);
        assert_eq!([0, 1].map(|row| batch["model_answers"].as_struct()[model].is_null(row)), [false, true]);

        let ours = inner(batch, &["ergometer", "energy"]);
        assert_eq!([0, 1].map(|row| ours["measured"].is_null(row)), [false, true]);
        let devices = ours["devices"].as_list::<i32>();
        assert_eq!((devices.value_length(0), devices.value_length(1)), (1, 0));
        let device = devices.value(0);
        assert_eq!(device.as_struct()["device"].as_string::<i32>().value(0), "gpu:0");
        assert_eq!(device.as_struct()["gross"].as_struct()["method"].as_string::<i32>().value(0), "equal_share");
        assert!(device.as_struct()["net"].is_null(0));
        let sent = inner(batch, &["ergometer"])["sent_ns"].as_primitive::<Int64Type>().value(0);
        assert_eq!(sent, record(0).ergometer.sent.nanos_since_epoch());
    }

    #[test]
    fn batches_keep_the_order_of_records() {
        let folder = tempfile::tempdir().unwrap();
        let records: Vec<_> = (0..2500).map(record).collect();
        assert_eq!(write(folder.path(), "m", &records), 2500);
        let batches = read(folder.path());
        assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [1000, 1000, 500]);
        let indices = batches.iter().flat_map(|batch| {
            inner(batch, &["ergometer"])["query_index"].as_primitive::<Int64Type>().values().to_vec()
        });
        assert!(indices.eq(0..2500));
    }

    #[test]
    fn long_texts_end_a_batch_early() {
        let folder = tempfile::tempdir().unwrap();
        let long = Record { problem: "é".repeat(2 << 20), ..record(0) };
        write(folder.path(), "m", &[long.clone(), long.clone(), long]);
        let rows: Vec<_> = read(folder.path()).iter().map(RecordBatch::num_rows).collect();
        assert_eq!(rows, [1, 1, 1]);
    }

    #[test]
    fn an_empty_dataset_is_valid() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(write(folder.path(), "m", &[]), 0);
        assert!(read(folder.path()).is_empty());
        let state = state(folder.path());
        assert_eq!(state.len(), 7);
        assert_eq!(state["_data_files"][0]["filename"], DATA_FILE);
    }

    #[test]
    fn the_fingerprint_follows_from_the_content() {
        let prints = [[record(0)], [record(0)], [record(1)]].map(|records| {
            let folder = tempfile::tempdir().unwrap();
            write(folder.path(), "m", &records);
            state(folder.path())["_fingerprint"].as_str().unwrap().to_owned()
        });
        assert!(prints[0] == prints[1] && prints[1] != prints[2] && prints[0].len() == 16, "{prints:?}");
    }

    #[test]
    fn a_second_dataset_replaces_the_first() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "m", &[record(0), record(1)]);
        let first = state(folder.path());
        write(folder.path(), "m", &[record(0)]);
        assert_eq!(read(folder.path())[0].num_rows(), 1);
        assert_ne!(state(folder.path()), first);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "no other file is left");
    }

    #[test]
    fn unobserved_metadata_is_an_error_and_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let schema = RecordSchema::new("m", &MetadataShape::default());
        let mut writer = DatasetWriter::create(folder.path(), schema).unwrap();
        let error = writer.push(&record(0)).unwrap_err().to_string();
        assert!(error.contains("the metadata `level` of query 0 is not in the schema"), "{error}");
        drop(writer);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn all_metadata_is_written(
            maps in prop::collection::vec(prop::collection::vec(("[a-c\0]{0,2}", any_json()), 0..4), 1..6),
            model in any::<String>(),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let with = |entries: &Vec<(String, Value)>| Record {
                dataset_metadata: entries.iter().cloned().collect(),
                ..record(0)
            };
            let records: Vec<_> = maps.iter().map(with).collect();
            write(folder.path(), &model, &records);
            let batches = read(folder.path());
            let metadata = inner(&batches[0], &["dataset_metadata"]);
            for (row, record) in records.iter().enumerate() {
                for (key, value) in &record.dataset_metadata {
                    prop_assert!(holds(metadata, key, row, value), "{key} of record {row} is not {value}");
                }
            }
        }
    }

    /// Whether the field of this key, or the last field, holds this value: as it is or as JSON.
    fn holds(metadata: &StructArray, key: &str, row: usize, value: &Value) -> bool {
        let Some(column) = metadata.column_by_name(key) else {
            let rest: Value = serde_json::from_str(metadata["other_json"].as_string::<i32>().value(row)).unwrap();
            return rest[key] == *value;
        };
        if column.is_null(row) {
            return value.is_null();
        }
        match column.data_type() {
            DataType::Boolean => *value == column.as_boolean().value(row),
            DataType::Int64 => *value == column.as_primitive::<Int64Type>().value(row),
            DataType::Float64 => Some(column.as_primitive::<Float64Type>().value(row)) == value.as_f64(),
            _ => {
                let text = column.as_string::<i32>().value(row);
                value.as_str() == Some(text) || serde_json::from_str::<Value>(text).is_ok_and(|stored| stored == *value)
            }
        }
    }
}
