//! Whether the messages of an Arrow file fit into it. Its reader asks for as much memory as a message says it needs, and
//! in a damaged file that can be more than there is.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

/// The end of the file format: the footer's length, and `ARROW1`.
const TRAILER: u64 = 10;
/// Before each message: a mark, and the length of its description.
const PREFIX: u64 = 8;

/// What a buffer may be long unpacked, whatever it is packed.
const LARGEST_UNPACKED: i64 = 64 << 20;
/// No packing is better than this: LZ4 packs 255 to one at best, zstd some thousands.
const BEST_RATIO: i64 = 1 << 14;

/// Walks through the messages of a stream.
pub(super) fn check_stream(file: &mut File) -> Result<(), String> {
    let size = size_of(file)?;
    let mut place = 0;
    // What is left after the last whole prefix is the reader's to judge.
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

/// Looks at a message whose body begins at this place; returns how long that is.
fn check_message(file: &mut File, description: &[u8], body: u64, size: u64) -> Result<u64, String> {
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
        // Before what is packed stands how long it is unpacked; -1 says that it is not packed.
        if packed < 8 {
            continue;
        }
        let unpacked = read_at(file, body + start, 8)?;
        let unpacked = i64::from_le_bytes(unpacked.try_into().unwrap_or_default());
        if unpacked > LARGEST_UNPACKED.max(i64::try_from(packed).unwrap_or(i64::MAX).saturating_mul(BEST_RATIO)) {
            return Err(damaged("a buffer says that it is longer than it can be"));
        }
    }
    Ok(length)
}

/// Looks at all blocks the footer of a file names.
pub(super) fn check_file(file: &mut File) -> Result<(), String> {
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

/// A length that fits into what is left.
fn fitting(length: i64, left: u64) -> Result<u64, String> {
    let length = u64::try_from(length).ok().filter(|&length| length <= left);
    length.ok_or_else(|| damaged("a message is longer than the file"))
}

fn size_of(file: &File) -> Result<u64, String> {
    file.metadata().map(|metadata| metadata.len()).map_err(|error| damaged(&error.to_string()))
}

fn read_at(file: &mut File, place: u64, length: u64) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| damaged("a message is too long"))?];
    let read = file.seek(SeekFrom::Start(place)).and_then(|_| file.read_exact(&mut bytes));
    read.map(|()| bytes).map_err(|error| damaged(&error.to_string()))
}

fn damaged(what: &str) -> String {
    format!("cannot be decoded: {what}. hint: is the file cut off?")
}
