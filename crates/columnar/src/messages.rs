//! Checks that the messages of an Arrow file fit into the file.
//!
//! The Arrow reader allocates as much memory as a message declares, which in a damaged file can be more than there is.

use std::io::{Read, Seek, SeekFrom};

use crate::FileError;

/// The length of the trailer of the file format: the footer length and `ARROW1`.
const TRAILER: u64 = 10;
/// The bytes before the length of a message. Files from before Arrow 0.15 do not have them.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// The buffers of a message may always declare up to this decompressed size, in bytes.
pub(crate) const LARGEST_UNPACKED: u64 = 64 << 20;
/// Maximum compression ratio: LZ4 reaches at most 255, zstd some thousands.
const BEST_RATIO: u64 = 1 << 14;
/// A message may always declare this many rows. More need at least a bit each.
const MOST_ROWS_WITHOUT_BYTES: u64 = 1 << 20;

/// Checks all messages of a stream.
pub(crate) fn check_stream<R: Read + Seek>(file: &mut R) -> Result<(), FileError> {
    let size = file.seek(SeekFrom::End(0))?;
    let mut at = 0;
    // The reader checks the bytes after the last whole length.
    while at + 4 <= size {
        let mut length = read_at(file, at, 4)?;
        at += 4;
        if length == CONTINUATION {
            if at + 4 > size {
                return Ok(());
            }
            length = read_at(file, at, 4)?;
            at += 4;
        }
        let length = i32::from_le_bytes([length[0], length[1], length[2], length[3]]);
        if length == 0 {
            return Ok(());
        }
        let description = read_at(file, at, fitting(i64::from(length), size - at)?)?;
        at += description.len() as u64;
        at += check_message(file, &description, at, size)?;
    }
    Ok(())
}

/// Checks all blocks in the footer of a file.
pub(crate) fn check_file<R: Read + Seek>(file: &mut R) -> Result<(), FileError> {
    let size = file.seek(SeekFrom::End(0))?;
    let end = size.checked_sub(TRAILER).ok_or_else(|| FileError::damaged("it is too short"))?;
    let trailer = read_at(file, end, TRAILER)?;
    let length = i32::from_le_bytes([trailer[0], trailer[1], trailer[2], trailer[3]]);
    let length = fitting(i64::from(length), end)?;
    let bytes = read_at(file, end - length, length)?;
    let footer = arrow_ipc::root_as_footer(&bytes).map_err(|error| FileError::damaged(error.to_string()))?;
    for block in footer.recordBatches().into_iter().flatten().chain(footer.dictionaries().into_iter().flatten()) {
        let start = fitting(block.offset(), size)?;
        let length = fitting(i64::from(block.metaDataLength()), size - start)?;
        fitting(block.bodyLength(), size - start - length)?;
        let description = read_at(file, start, length)?;
        let prefix = if description.starts_with(&CONTINUATION) { 8 } else { 4 };
        let description = description.get(prefix..).ok_or_else(|| FileError::damaged("a message is too short"))?;
        check_message(file, description, start + length, size)?;
    }
    Ok(())
}

/// Checks a message whose body starts at this position, and returns the length of the body.
fn check_message<R: Read + Seek>(file: &mut R, description: &[u8], body: u64, size: u64) -> Result<u64, FileError> {
    let message = arrow_ipc::root_as_message(description).map_err(|error| FileError::damaged(error.to_string()))?;
    let length = fitting(message.bodyLength(), size.saturating_sub(body))?;
    let dictionary = message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data());
    let Some(batch) = message.header_as_record_batch().or(dictionary) else { return Ok(length) };
    let mut unpacked = length;
    if batch.compression().is_some() {
        unpacked = 0;
        for buffer in batch.buffers().into_iter().flatten() {
            let start = fitting(buffer.offset(), length)?;
            let packed = fitting(buffer.length(), length - start)?;
            // A compressed buffer starts with its decompressed length, or -1 if it is not compressed.
            if packed >= 8 {
                let declared = read_at(file, body + start, 8)?;
                let declared = i64::from_le_bytes(declared.try_into().unwrap_or_default());
                unpacked = unpacked.saturating_add(u64::try_from(declared).unwrap_or(packed));
            }
        }
        if unpacked > LARGEST_UNPACKED.max(length.saturating_mul(BEST_RATIO)) {
            return Err(FileError::damaged("its buffers declare a larger size than they can have"));
        }
    }
    let most_rows = MOST_ROWS_WITHOUT_BYTES.max(unpacked.saturating_mul(8));
    if u64::try_from(batch.length()).map_or(true, |rows| rows > most_rows) {
        return Err(FileError::damaged("a message declares more rows than it can have"));
    }
    Ok(length)
}

/// Checks that a length fits into the remaining bytes.
fn fitting(length: i64, left: u64) -> Result<u64, FileError> {
    let length = u64::try_from(length).ok().filter(|&length| length <= left);
    length.ok_or_else(|| FileError::damaged("a message is longer than the file"))
}

pub(crate) fn read_at<R: Read + Seek>(file: &mut R, place: u64, length: u64) -> Result<Vec<u8>, FileError> {
    let length = usize::try_from(length).map_err(|_| FileError::damaged("a part of it is too long"))?;
    let mut bytes = vec![0; length];
    file.seek(SeekFrom::Start(place))?;
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}
