//! Reads Arrow IPC files in the file format and in the stream format, one batch at a time and in any order.
//!
//! Opening a file keeps the position of each batch, and a batch is decoded on demand. In a stream with dictionaries a
//! batch depends on earlier ones, so such a stream stays in memory.

use std::fmt;
use std::fs::File;
use std::io::{BufReader, Cursor, Read, Seek, SeekFrom};
use std::sync::{Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, DataType, SchemaRef};

use crate::error::guarded;
use crate::{FileError, messages};

/// The two formats of Arrow IPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrowFormat {
    /// Begins and ends with `ARROW1`, and has a footer. Feather files have it.
    File,
    /// Messages one after another. `datasets` writes it.
    Stream,
}

/// An opened Arrow file.
pub struct ArrowFile {
    schema: SchemaRef,
    rows: Vec<u64>,
    source: Source,
}

enum Source {
    /// The file format, whose footer has the position of each batch.
    File(Box<Mutex<FileReader<BufReader<File>>>>),
    /// The stream format: its schema, and the start of each batch.
    Stream { file: Mutex<File>, schema: Vec<u8>, starts: Vec<u64> },
    /// All batches.
    Memory(Vec<RecordBatch>),
}

impl ArrowFile {
    /// Opens a file and decodes each batch once, to count its rows.
    pub fn open(mut file: File, format: ArrowFormat) -> Result<Self, FileError> {
        match format {
            ArrowFormat::File => messages::check_file(&mut file)?,
            ArrowFormat::Stream => messages::check_stream(&mut file)?,
        }
        file.rewind()?;
        match format {
            ArrowFormat::File => guarded(|| Self::file(file)),
            ArrowFormat::Stream => guarded(|| Self::stream(file)),
        }
    }

    /// The columns.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The number of rows of each batch.
    #[must_use]
    pub fn batch_rows(&self) -> &[u64] {
        &self.rows
    }

    /// Decodes a batch; `None` beyond the last.
    pub fn batch(&self, number: usize) -> Result<Option<RecordBatch>, FileError> {
        guarded(|| self.decode(number))
    }

    fn file(file: File) -> Result<Self, ArrowError> {
        let mut reader = FileReader::try_new(BufReader::new(file), None)?;
        let mut rows = Vec::new();
        for batch in reader.by_ref() {
            rows.push(batch?.num_rows() as u64);
        }
        Ok(Self { schema: reader.schema(), rows, source: Source::File(Box::new(Mutex::new(reader))) })
    }

    fn stream(file: File) -> Result<Self, ArrowError> {
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

    fn decode(&self, number: usize) -> Result<Option<RecordBatch>, ArrowError> {
        match &self.source {
            Source::Memory(batches) => Ok(batches.get(number).cloned()),
            Source::File(reader) => {
                // After a panic only the position is used again, and it is set before each read.
                let mut reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
                reader.set_index(number)?;
                reader.next().transpose()
            }
            Source::Stream { file, schema, starts } => {
                let Some(&start) = starts.get(number) else { return Ok(None) };
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                file.seek(SeekFrom::Start(start))?;
                StreamReader::try_new(Cursor::new(schema).chain(&*file), None)?.next().transpose()
            }
        }
    }
}

impl fmt::Debug for ArrowFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ArrowFile").field("rows", &self.rows).finish_non_exhaustive()
    }
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
