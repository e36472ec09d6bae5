//! Reads Arrow IPC files in the file format and in the stream format, which `datasets` writes.
//!
//! Opening a file keeps the position of each batch, and a batch is decoded on demand. In a stream with dictionaries a
//! batch depends on earlier ones, so such a stream stays in memory.

use std::fs::File;
use std::io::{BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use ergometer_diagnostics::Message;

use super::DatasetError;
use super::arrow_lengths;
use super::batches::{Batches, guarded};
use super::error::incomplete;
use super::format::{Magic, magic_of};
use super::table::check_file;

/// An opened Arrow file.
pub(super) struct ArrowFile {
    schema: SchemaRef,
    rows: Vec<u64>,
    source: Source,
}

enum Source {
    /// The file format, whose footer has the position of each batch.
    File(Mutex<FileReader<BufReader<File>>>),
    /// The stream format: its schema, and the start of each batch.
    Stream { file: Mutex<File>, schema: Vec<u8>, starts: Vec<u64> },
    /// All batches.
    Memory(Vec<RecordBatch>),
}

impl ArrowFile {
    pub(super) fn open(path: &Path) -> Result<Self, DatasetError> {
        check_file(path)?;
        let read = |cause| DatasetError::Read { path: path.to_path_buf(), cause };
        let damaged = |what: Message| DatasetError::Format { path: path.to_path_buf(), what };
        let magic = magic_of(path)?;
        let mut file = File::open(path).map_err(read)?;
        match magic {
            Magic::ArrowFile => {
                arrow_lengths::check_file(&mut file).map_err(damaged)?;
                guarded(|| Self::file(file).map_err(|error| undecodable(&error))).map_err(damaged)
            }
            Magic::ArrowStream => {
                arrow_lengths::check_stream(&mut file).map_err(damaged)?;
                guarded(|| Self::stream(file).map_err(|error| undecodable(&error))).map_err(damaged)
            }
            Magic::Empty => Err(DatasetError::Empty { path: path.to_path_buf() }),
            other => Err(damaged(other.message("not an Arrow file"))),
        }
    }

    fn file(mut file: File) -> Result<Self, ArrowError> {
        file.rewind()?;
        let mut reader = FileReader::try_new(BufReader::new(file), None)?;
        let mut rows = Vec::new();
        for batch in reader.by_ref() {
            rows.push(batch?.num_rows() as u64);
        }
        Ok(Self { schema: reader.schema(), rows, source: Source::File(Mutex::new(reader)) })
    }

    fn stream(mut file: File) -> Result<Self, ArrowError> {
        file.rewind()?;
        // Without a buffer, so that the file position is the start of the next message.
        let mut reader = StreamReader::try_new(file, None)?;
        let schema = reader.schema();
        let is_kept = schema.fields().iter().any(|field| has_dictionary(field.data_type()));
        let (mut starts, mut rows, mut batches) = (Vec::new(), Vec::new(), Vec::new());
        let schema_length = reader.get_mut().stream_position()?;
        loop {
            let start = reader.get_mut().stream_position()?;
            let Some(batch) = reader.next() else { break };
            let batch = batch?;
            rows.push(batch.num_rows() as u64);
            starts.push(start);
            if is_kept {
                batches.push(batch);
            }
        }
        let source = if is_kept {
            Source::Memory(batches)
        } else {
            let file = reader.get_mut();
            let mut bytes = Vec::new();
            file.seek(SeekFrom::Start(0))?;
            file.take(schema_length).read_to_end(&mut bytes)?;
            Source::Stream { file: Mutex::new(file.try_clone()?), schema: bytes, starts }
        };
        Ok(Self { schema, rows, source })
    }

    fn batch(&self, part: usize) -> Result<Option<RecordBatch>, ArrowError> {
        match &self.source {
            Source::Memory(batches) => Ok(batches.get(part).cloned()),
            Source::File(reader) => {
                let mut reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
                reader.set_index(part)?;
                reader.next().transpose()
            }
            Source::Stream { file, schema, starts } => {
                let Some(&start) = starts.get(part) else { return Ok(None) };
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                file.seek(SeekFrom::Start(start))?;
                StreamReader::try_new(Cursor::new(schema).chain(&*file), None)?.next().transpose()
            }
        }
    }
}

impl Batches for ArrowFile {
    fn rows(&self) -> &[u64] {
        &self.rows
    }

    fn columns(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    fn decode(&self, part: usize) -> Result<Vec<RecordBatch>, Message> {
        self.batch(part).map(|batch| batch.into_iter().collect()).map_err(|error| undecodable(&error))
    }
}

fn undecodable(error: &ArrowError) -> Message {
    incomplete(format!("cannot be decoded: {error}"))
}

/// Whether a type contains a dictionary.
fn has_dictionary(kind: &DataType) -> bool {
    match kind {
        DataType::Dictionary(..) => true,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => has_dictionary(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_dictionary(field.data_type())),
        DataType::Union(fields, _) => fields.iter().any(|(_, field)| has_dictionary(field.data_type())),
        DataType::RunEndEncoded(_, values) => has_dictionary(values.data_type()),
        _ => false,
    }
}
