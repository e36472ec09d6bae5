//! Checks the lengths in delta-encoded pages of texts, before the Parquet library allocates them.
//!
//! Such a page begins with one or two blocks of integers, and each block declares how many it has.
//! <https://parquet.apache.org/docs/file-format/data-pages/encodings/>

use parquet::basic::Encoding;
use parquet::column::page::Page;
use parquet::schema::types::ColumnDescriptor;

use crate::FileError;
use crate::thrift::varint;

/// Checks a decompressed page.
pub(crate) fn check_page(page: &Page, column: &ColumnDescriptor) -> Result<(), FileError> {
    let blocks = match page.encoding() {
        Encoding::DELTA_LENGTH_BYTE_ARRAY => 1,
        Encoding::DELTA_BYTE_ARRAY => 2,
        _ => return Ok(()),
    };
    let bytes = page.buffer();
    let start = match page {
        Page::DictionaryPage { .. } => return Ok(()),
        Page::DataPage { num_values, def_level_encoding, rep_level_encoding, .. } => {
            let repetition = levels(bytes, 0, *num_values, (*rep_level_encoding, column.max_rep_level()));
            repetition
                .and_then(|start| levels(bytes, start, *num_values, (*def_level_encoding, column.max_def_level())))
        }
        Page::DataPageV2 { def_levels_byte_len, rep_levels_byte_len, .. } => {
            usize::try_from(u64::from(*def_levels_byte_len) + u64::from(*rep_levels_byte_len)).ok()
        }
    };
    let mut at = start.ok_or_else(damaged)?;
    for _ in 0..blocks {
        skip_block(bytes, &mut at, u64::from(page.num_values())).ok_or_else(damaged)?;
    }
    Ok(())
}

/// The position after the levels at this position.
fn levels(bytes: &[u8], at: usize, values: u32, (encoding, highest): (Encoding, i16)) -> Option<usize> {
    if highest == 0 {
        return Some(at);
    }
    if encoding == Encoding::RLE {
        let length = u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?);
        return at.checked_add(4)?.checked_add(usize::try_from(length).ok()?);
    }
    let bits = u64::from(16 - highest.leading_zeros());
    at.checked_add(usize::try_from((u64::from(values) * bits).div_ceil(8)).ok()?)
}

/// Moves over a block of integers; `None` if it has more than `most`, or does not fit.
fn skip_block(bytes: &[u8], at: &mut usize, most: u64) -> Option<()> {
    let mut next = || varint(bytes, at).ok();
    let (block, parts, count, _first) = (next()?, next()?, next()?, next()?);
    if parts == 0 || count > most {
        return None;
    }
    let per_part = block / parts;
    let mut left = count.saturating_sub(1);
    while left > 0 {
        varint(bytes, at).ok()?;
        let widths = bytes.get(*at..at.checked_add(usize::try_from(parts).ok()?)?)?;
        *at += widths.len();
        for &width in widths {
            if left == 0 {
                break;
            }
            *at = at.checked_add(usize::try_from(per_part.checked_mul(u64::from(width))? / 8).ok()?)?;
            left = left.saturating_sub(per_part.max(1));
        }
    }
    Some(())
}

fn damaged() -> FileError {
    FileError::damaged("a page declares more values than it has")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use parquet::basic::Type as PhysicalType;
    use parquet::schema::types::{ColumnPath, Type};

    use super::*;

    /// A page of three texts with these bytes as its values, after levels of a nullable column.
    fn checked(encoding: Encoding, values: &[u8]) -> Result<(), String> {
        let kind = Type::primitive_type_builder("a", PhysicalType::BYTE_ARRAY).build().unwrap();
        let column = ColumnDescriptor::new(Arc::new(kind), 1, 0, ColumnPath::from("a"));
        let levels = [2, 0, 0, 0, 6, 1];
        let first = Page::DataPage {
            buf: Bytes::from([&levels[..], values].concat()),
            num_values: 3,
            encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        let second = Page::DataPageV2 {
            buf: Bytes::from([&levels[4..], values].concat()),
            num_values: 3,
            encoding,
            num_nulls: 0,
            num_rows: 3,
            def_levels_byte_len: 2,
            rep_levels_byte_len: 0,
            is_compressed: false,
            statistics: None,
        };
        let result = check_page(&first, &column).map_err(|error| error.to_string());
        assert_eq!(check_page(&second, &column).map_err(|error| error.to_string()), result);
        result
    }

    #[test]
    fn a_page_has_at_most_as_many_lengths_as_values() {
        let damaged = Err(damaged().to_string());
        // Blocks of 128 in 4 parts, three lengths from 2, each larger by 1 to 2: one bit each in the first part.
        let lengths = [0x80, 0x01, 0x04, 0x03, 0x04, 0x02, 1, 0, 0, 0, 0b10, 0, 0, 0];
        let more = [0x80, 0x01, 0x04, 0xff, 0xff, 0xff, 0xff, 0x07, 0x04, 0x02, 1, 0, 0, 0];
        assert_eq!(checked(Encoding::DELTA_LENGTH_BYTE_ARRAY, &lengths), Ok(()));
        assert_eq!(checked(Encoding::DELTA_LENGTH_BYTE_ARRAY, &more), damaged);
        assert_eq!(checked(Encoding::DELTA_LENGTH_BYTE_ARRAY, &lengths[..5]), damaged);
        // Prefixes and suffixes.
        assert_eq!(checked(Encoding::DELTA_BYTE_ARRAY, &lengths.repeat(2)), Ok(()));
        assert_eq!(checked(Encoding::DELTA_BYTE_ARRAY, &[&lengths[..], &more].concat()), damaged);
        assert_eq!(checked(Encoding::DELTA_BYTE_ARRAY, &lengths), damaged);
        assert_eq!(checked(Encoding::PLAIN, &more), Ok(()));
    }
}
