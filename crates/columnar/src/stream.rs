//! Reads the Arrow stream format from start to end.

use std::io::{BufReader, Read, Seek};

use arrow_ipc::reader::StreamReader;

use crate::error::guarded;
use crate::{Batches, FileError, messages};

/// Reads the record batches of a stream, with the columns of these names, or all. Names that do not exist are ignored.
pub fn read_stream<'a, R: Read + Seek + 'a>(mut file: R, columns: Option<&[&str]>) -> Result<Batches<'a>, FileError> {
    messages::check_stream(&mut file)?;
    file.rewind()?;
    let mut file = BufReader::new(file);
    let schema = guarded(|| StreamReader::try_new(&mut file, None).map(|reader| reader.schema()))?;
    let places = columns.map(|names| names.iter().filter_map(|name| schema.index_of(name).ok()).collect());
    file.rewind()?;
    let reader = guarded(|| StreamReader::try_new(file, places))?;
    Ok(Batches::new(schema, reader))
}
