//! Checks that the messages of an Arrow file fit into the file.
//!
//! The Arrow reader allocates as much memory as a message declares, which in a damaged file can be more than there is.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use ergometer_diagnostics::Message;

use super::error::incomplete;

/// The length of the trailer of the file format: the footer length and `ARROW1`.
const TRAILER: u64 = 10;
/// The length of the prefix of a message: a marker and the length of its metadata.
const PREFIX: u64 = 8;

/// A buffer may always declare up to this decompressed size, in bytes.
const LARGEST_UNPACKED: i64 = 64 << 20;
/// Maximum compression ratio: LZ4 reaches at most 255, zstd some thousands.
const BEST_RATIO: i64 = 1 << 14;

/// Checks all messages of a stream.
pub(super) fn check_stream(file: &mut File) -> Result<(), Message> {
    let size = size_of(file)?;
    let mut place = 0;
    // The reader checks the bytes after the last whole prefix.
    while place + PREFIX <= size {
        let prefix = read_at(file, place, PREFIX)?;
        let length = i32::from_le_bytes([prefix[4], prefix[5], prefix[6], prefix[7]]);
        if length == 0 {
            return Ok(());
        }
        place += PREFIX;
        let description = read_at(file, place, fitting(i64::from(length), size - place)?)?;
        place += description.len() as u64;
        place += check_message(file, &description, place, size)?;
    }
    Ok(())
}

/// Checks a message whose body starts at this position, and returns the length of the body.
fn check_message(file: &mut File, description: &[u8], body: u64, size: u64) -> Result<u64, Message> {
    let message = arrow_ipc::root_as_message(description).map_err(|error| damaged(&error.to_string()))?;
    let length = fitting(message.bodyLength(), size.saturating_sub(body))?;
    let dictionary = message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data());
    let Some(batch) = message.header_as_record_batch().or(dictionary) else { return Ok(length) };
    if batch.compression().is_none() {
        return Ok(length);
    }
    for buffer in batch.buffers().into_iter().flatten() {
        let start = fitting(buffer.offset(), length)?;
        let packed = fitting(buffer.length(), length - start)?;
        // A compressed buffer starts with its decompressed length, or -1 if it is not compressed.
        if packed < 8 {
            continue;
        }
        let unpacked = read_at(file, body + start, 8)?;
        let unpacked = i64::from_le_bytes(unpacked.try_into().unwrap_or_default());
        if unpacked > LARGEST_UNPACKED.max(i64::try_from(packed).unwrap_or(i64::MAX).saturating_mul(BEST_RATIO)) {
            return Err(damaged("a buffer declares a larger size than it can have"));
        }
    }
    Ok(length)
}

/// Checks all blocks in the footer of a file.
pub(super) fn check_file(file: &mut File) -> Result<(), Message> {
    let size = size_of(file)?;
    let end = size.checked_sub(TRAILER).ok_or_else(|| damaged("it is too short"))?;
    let trailer = read_at(file, end, TRAILER)?;
    let length = i32::from_le_bytes([trailer[0], trailer[1], trailer[2], trailer[3]]);
    let length = fitting(i64::from(length), end)?;
    let bytes = read_at(file, end - length, length)?;
    let footer = arrow_ipc::root_as_footer(&bytes).map_err(|error| damaged(&error.to_string()))?;
    for block in footer.recordBatches().into_iter().flatten().chain(footer.dictionaries().into_iter().flatten()) {
        let start = fitting(block.offset(), size)?;
        let length = fitting(i64::from(block.metaDataLength()), size - start)?;
        fitting(block.bodyLength(), size - start - length)?;
        let description = read_at(file, start, length)?;
        let description = description.get(8..).ok_or_else(|| damaged("a message is too short"))?;
        check_message(file, description, start + length, size)?;
    }
    Ok(())
}

/// Checks that a length fits into the remaining bytes.
fn fitting(length: i64, left: u64) -> Result<u64, Message> {
    let length = u64::try_from(length).ok().filter(|&length| length <= left);
    length.ok_or_else(|| damaged("a message is longer than the file"))
}

fn size_of(file: &File) -> Result<u64, Message> {
    file.metadata().map(|metadata| metadata.len()).map_err(|error| damaged(&error.to_string()))
}

fn read_at(file: &mut File, place: u64, length: u64) -> Result<Vec<u8>, Message> {
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| damaged("a message is too long"))?];
    let read = file.seek(SeekFrom::Start(place)).and_then(|_| file.read_exact(&mut bytes));
    read.map(|()| bytes).map_err(|error| damaged(&error.to_string()))
}

fn damaged(what: &str) -> Message {
    incomplete(format!("cannot be decoded: {what}"))
}
