//! Checks the footer and the page headers of a Parquet file, before the Parquet library allocates what they declare.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::column::page::PageReader;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::serialized_reader::SerializedPageReader;

use crate::FileError;
use crate::delta;
use crate::messages::{LARGEST_UNPACKED, read_at};
use crate::thrift::{Item, ThriftError, walk_struct};

/// The length of the footer, and `PAR1`.
const TRAILER: u64 = 8;
/// The Parquet library walks the columns recursively.
const DEEPEST_COLUMN: usize = 64;
/// Most page headers are shorter; longer ones have long texts as statistics.
const HEADER: u64 = 512;
const LONGEST_HEADER: u64 = 16 << 20;

/// The numbers of `DELTA_LENGTH_BYTE_ARRAY` and `DELTA_BYTE_ARRAY`.
const DELTA_ENCODINGS: [i64; 2] = [6, 7];

/// Checks the lengths in the footer, and the depth of its columns.
pub(crate) fn check_footer(file: &mut File) -> Result<(), FileError> {
    let size = file.seek(SeekFrom::End(0))?;
    let end = size.checked_sub(TRAILER).ok_or_else(|| FileError::damaged("it is too short"))?;
    let trailer = read_at(file, end, TRAILER)?;
    let length = u64::from(u32::from_le_bytes([trailer[0], trailer[1], trailer[2], trailer[3]]));
    if length > end {
        return Err(FileError::damaged("its footer is longer than the file"));
    }
    let footer = read_at(file, end - length, length)?;
    let mut columns = ColumnDepth::default();
    let walked = walk_struct(&footer, &mut |path: &[i16], item| match (path, item) {
        ([2, 5], Item::Integer(children)) => columns.children = children,
        ([2], Item::End) => columns.take(),
        _ => {}
    });
    walked.map_err(|_| FileError::damaged("its footer is invalid"))?;
    if columns.deepest > DEEPEST_COLUMN {
        return Err(FileError::damaged("its columns are nested too deeply"));
    }
    Ok(())
}

/// The depth of columns, which are listed parents first, with their numbers of children.
#[derive(Default)]
struct ColumnDepth {
    children: i64,
    /// How many children of each open parent are still to come.
    open: Vec<i64>,
    deepest: usize,
}

impl ColumnDepth {
    fn take(&mut self) {
        if let Some(left) = self.open.last_mut() {
            *left -= 1;
        }
        let children = std::mem::take(&mut self.children);
        if children > 0 {
            self.open.push(children);
        }
        self.deepest = self.deepest.max(self.open.len());
        while self.open.last() == Some(&0) {
            self.open.pop();
        }
    }
}

/// The fields of a page header that memory depends on.
#[derive(Default)]
struct PageHeader {
    unpacked: Option<i64>,
    packed: Option<i64>,
    values: i64,
    encoding: i64,
    is_dictionary: bool,
}

/// Checks the pages of a column in a row group.
pub(crate) fn check_column(file: &File, column: &ColumnChunkMetaData, rows: usize) -> Result<(), FileError> {
    let mut own = file.try_clone()?;
    let size = own.seek(SeekFrom::End(0))?;
    let (start, length) = column.byte_range();
    let end = start.checked_add(length).filter(|&end| end <= size);
    let end = end.ok_or_else(|| FileError::damaged("a column is longer than the file"))?;
    let (mut at, mut values, mut has_delta) = (start, 0_i64, false);
    while at < end && values < column.num_values() {
        let (header, length) = read_header(&mut own, at, end)?;
        at += length;
        let packed = header.packed.and_then(|packed| u64::try_from(packed).ok()).filter(|&packed| packed <= end - at);
        let unpacked = header.unpacked.and_then(|unpacked| u64::try_from(unpacked).ok());
        let (Some(packed), Some(unpacked)) = (packed, unpacked) else {
            return Err(FileError::damaged("a page is longer than its column"));
        };
        if unpacked > LARGEST_UNPACKED.max(packed.saturating_mul(best_ratio(column.compression()))) {
            return Err(FileError::damaged("a page declares a larger size than it can have"));
        }
        // A value of a dictionary takes at least a byte.
        let most = if header.is_dictionary { unpacked.max(packed) } else { u64::MAX };
        if u64::try_from(header.values).map_or(true, |values| values > most) {
            return Err(FileError::damaged("a page declares more values than it has"));
        }
        if !header.is_dictionary {
            values = values.saturating_add(header.values);
            has_delta |= DELTA_ENCODINGS.contains(&header.encoding);
        }
        at += packed;
    }
    if has_delta {
        // The lengths are inside the compressed pages.
        let mut pages = SerializedPageReader::new(Arc::new(own), column, rows, None)?;
        while let Some(page) = pages.get_next_page()? {
            delta::check_page(&page, column.column_descr())?;
        }
    }
    Ok(())
}

/// The maximum compression ratio of a codec.
fn best_ratio(codec: Compression) -> u64 {
    match codec {
        Compression::SNAPPY => 64,
        Compression::LZ4 | Compression::LZ4_RAW => 256,
        Compression::GZIP(_) => 1 << 11,
        // The library decompresses nothing else.
        _ => 1 << 14,
    }
}

fn read_header(file: &mut File, at: u64, end: u64) -> Result<(PageHeader, u64), FileError> {
    let mut length = HEADER;
    loop {
        let bytes = read_at(file, at, length.min(end - at))?;
        let mut header = PageHeader::default();
        let walked = walk_struct(&bytes, &mut |path: &[i16], item| {
            let Item::Integer(value) = item else { return };
            match path {
                [2] => header.unpacked = Some(value),
                [3] => header.packed = Some(value),
                [5 | 8, 1] => header.values = value,
                [5, 2] | [8, 4] => header.encoding = value,
                [7, 1] => (header.values, header.is_dictionary) = (value, true),
                _ => {}
            }
        });
        match walked {
            Ok(walked) => return Ok((header, walked as u64)),
            Err(ThriftError::EndsEarly) if length < end - at && length < LONGEST_HEADER => length *= 8,
            Err(_) => return Err(FileError::damaged("a page header is invalid")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use parquet::basic::Type as PhysicalType;
    use parquet::schema::types::{ColumnDescriptor, ColumnPath, Type};

    use super::*;

    /// A field with an integer: the step from the last field number, and the value.
    fn integer(step: u8, value: i64) -> Vec<u8> {
        let mut bytes = vec![step << 4 | 0x05];
        let mut rest = (value << 1 ^ value >> 63).cast_unsigned();
        while rest >= 0x80 {
            bytes.push((rest & 0x7f) as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push((rest & 0x7f) as u8);
        bytes
    }

    /// The header of a page with these sizes: its field 5 describes data, its field 7 a dictionary.
    fn header(unpacked: i64, packed: i64, (kind, values): (u8, i64)) -> Vec<u8> {
        let sizes = [integer(1, 0), integer(1, unpacked), integer(1, packed)].concat();
        [&sizes[..], &[(kind - 3) << 4 | 0x0c], &integer(1, values), &integer(1, 0), &[0, 0]].concat()
    }

    fn checked(bytes: &[u8], codec: Compression) -> Result<(), String> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        let kind = Type::primitive_type_builder("a", PhysicalType::BYTE_ARRAY).build().unwrap();
        let descriptor = ColumnDescriptor::new(Arc::new(kind), 0, 0, ColumnPath::from("a"));
        let column = ColumnChunkMetaData::builder(Arc::new(descriptor))
            .set_compression(codec)
            .set_num_values(10)
            .set_data_page_offset(0)
            .set_total_compressed_size(i64::try_from(bytes.len()).unwrap())
            .build()
            .unwrap();
        check_column(&file, &column, 10).map_err(|error| error.to_string())
    }

    #[test]
    fn a_page_cannot_declare_more_than_its_codec_reaches() {
        let page = |unpacked: i64| [header(unpacked, 4, (5, 10)), vec![0; 4]].concat();
        assert_eq!(checked(&page(1 << 20), Compression::SNAPPY), Ok(()));
        let expected = Err(String::from("a page declares a larger size than it can have"));
        assert_eq!(checked(&page(i64::from(i32::MAX)), Compression::SNAPPY), expected);
        assert_eq!(
            checked(&page(i64::from(i32::MAX)), Compression::ZSTD(parquet::basic::ZstdLevel::default())),
            expected
        );
        assert_eq!(checked(&page(-1), Compression::SNAPPY), Err(String::from("a page is longer than its column")));
    }

    #[test]
    fn a_page_is_not_longer_than_its_column() {
        let page = [header(4, 5, (5, 10)), vec![0; 4]].concat();
        assert_eq!(checked(&page, Compression::SNAPPY), Err(String::from("a page is longer than its column")));
    }

    #[test]
    fn a_dictionary_has_a_byte_for_each_value() {
        let page = |values: i64| [header(40, 4, (7, values)), vec![0; 4], header(4, 4, (5, 10)), vec![0; 4]].concat();
        assert_eq!(checked(&page(40), Compression::SNAPPY), Ok(()));
        let expected = Err(String::from("a page declares more values than it has"));
        assert_eq!(checked(&page(1 << 30), Compression::SNAPPY), expected);
        assert_eq!(checked(&page(-1), Compression::SNAPPY), expected);
    }

    #[test]
    fn a_header_may_have_long_statistics() {
        let text = [&[0x38, 0x90, 0x4e][..], &[b'a'; 10_000]].concat();
        let sizes = [integer(1, 0), integer(1, 4), integer(1, 4)].concat();
        let long = [&sizes[..], &[0x2c], &integer(1, 10), &[0x4c], &text, &[0, 0, 0], &[0; 4]].concat();
        assert_eq!(checked(&long, Compression::SNAPPY), Ok(()));
        assert_eq!(checked(&long[..5000], Compression::SNAPPY), Err(String::from("a page header is invalid")));
    }
}
