//! Cuts files and changes their bytes.

use std::cell::Cell;
use std::fs::File;
use std::io::{Seek, Write};
use std::panic;
use std::path::Path;
use std::sync::{Arc, Once};

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use ergometer_columnar::{ArrowFile, ArrowFormat, FileError, ParquetFile, Selection, read_stream};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{WriterProperties, WriterVersion};

use crate::allocation::largest_during;

/// No allocation may be larger. Valid files of the fixtures need less than a megabyte.
const LARGEST: usize = 96 << 20;

thread_local! {
    static PANICS: Cell<u32> = const { Cell::new(0) };
}

/// Counts the panics of this thread that a user would see.
fn count_printed_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let next = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            PANICS.set(PANICS.get() + 1);
            next(info);
        }));
    });
}

type Reader = fn(&File) -> Result<u64, FileError>;

fn arrow(file: &File, format: ArrowFormat) -> Result<u64, FileError> {
    let file = ArrowFile::open(file.try_clone().unwrap(), format)?;
    let mut rows = 0;
    for number in 0..file.batch_rows().len() {
        rows += file.batch(number)?.map_or(0, |batch| batch.num_rows() as u64);
    }
    Ok(rows)
}

fn arrow_file(file: &File) -> Result<u64, FileError> {
    arrow(file, ArrowFormat::File)
}

fn arrow_stream(file: &File) -> Result<u64, FileError> {
    arrow(file, ArrowFormat::Stream)
}

fn stream(file: &File) -> Result<u64, FileError> {
    let batches = read_stream(file, None)?;
    batches.map(|batch| batch.map(|batch| batch.num_rows() as u64)).sum()
}

fn some_columns(file: &File) -> Result<u64, FileError> {
    let batches = read_stream(file, Some(&["question", "level", "list"]))?;
    batches.map(|batch| batch.map(|batch| batch.num_rows() as u64)).sum()
}

fn parquet(file: &File) -> Result<u64, FileError> {
    let file = ParquetFile::open(file.try_clone().unwrap())?;
    let batches = file.batches(Selection { group: None, columns: None, batch_rows: 1024 })?;
    batches.map(|batch| batch.map(|batch| batch.num_rows() as u64)).sum()
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/datasets").join(name)).unwrap()
}

/// Reads bytes from a file, and fails if a panic is printed or much is allocated.
fn check(file: &mut File, bytes: &[u8], read: Reader, what: &dyn Fn() -> String) -> Result<u64, FileError> {
    file.rewind().unwrap();
    file.set_len(0).unwrap();
    file.write_all(bytes).unwrap();
    let mut result = Ok(0);
    let largest = largest_during(|| result = read(file));
    assert!(largest <= LARGEST, "{}: {largest} bytes are allocated at once", what());
    assert_eq!(PANICS.take(), 0, "{}: a panic is printed", what());
    result
}

/// Reads a file as it is, cut at many positions, and with every byte changed to two values.
fn damage(name: &str, whole: &[u8], read: Reader) {
    count_printed_panics();
    let mut file = tempfile::tempfile().unwrap();
    let rows = check(&mut file, whole, read, &|| name.to_owned()).unwrap();
    assert!(rows > 0, "{name}");
    let mut errors = 0;
    for length in (0..whole.len()).step_by(3) {
        let result = check(&mut file, &whole[..length], read, &|| format!("{name} cut at {length}"));
        errors += u32::from(result.is_err());
    }
    let mut bytes = whole.to_vec();
    for place in 0..whole.len() {
        let old = whole[place];
        let other = [0x00, 0x7f, 0xff][place % 3];
        for new in [old ^ 0x80, if old == other { old.wrapping_add(1) } else { other }] {
            bytes[place] = new;
            let result = check(&mut file, &bytes, read, &|| format!("{name} with {new:#04x} at {place}"));
            errors += u32::from(result.is_err());
        }
        bytes[place] = old;
    }
    assert!(errors > 100, "{name}: {errors} errors");
}

#[test]
fn damaged_arrow_files_are_errors() {
    for name in ["file.arrow", "lz4.feather", "zstd.feather"] {
        damage(name, &fixture(name), arrow_file);
    }
}

#[test]
fn damaged_streams_are_errors() {
    for name in ["stream.arrow", "plain-stream.arrow", "types.arrow"] {
        damage(name, &fixture(name), arrow_stream);
        damage(name, &fixture(name), stream);
    }
    damage("plain-stream.arrow", &fixture("plain-stream.arrow"), some_columns);
}

#[test]
fn damaged_plain_parquet_files_are_errors() {
    damage("none.parquet", &fixture("none.parquet"), parquet);
}

#[test]
fn damaged_snappy_parquet_files_are_errors() {
    damage("snappy.parquet", &fixture("snappy.parquet"), parquet);
}

#[test]
fn damaged_zstd_parquet_files_are_errors() {
    damage("zstd.parquet", &fixture("zstd.parquet"), parquet);
}

#[test]
fn damaged_gzip_parquet_files_are_errors() {
    damage("gzip.parquet", &fixture("gzip.parquet"), parquet);
}

#[test]
fn damaged_lz4_parquet_files_are_errors() {
    damage("lz4.parquet", &fixture("lz4.parquet"), parquet);
}

#[test]
fn damaged_parquet_files_of_many_types_are_errors() {
    damage("types.parquet", &fixture("types.parquet"), parquet);
}

/// Lengths of gigabytes, where a reader would allocate them.
#[test]
fn declared_lengths_are_not_allocated() {
    count_printed_panics();
    let mut file = tempfile::tempfile().unwrap();
    let mut error = |name: &str, bytes: &[u8], read: Reader| {
        check(&mut file, bytes, read, &|| name.to_owned()).unwrap_err().to_string()
    };
    // A message of two gigabytes, with and without the marker before its length.
    let long = i32::MAX.to_le_bytes();
    assert_eq!(error("message", &[&[0xff; 4], &long[..]].concat(), stream), "a message is longer than the file");
    assert_eq!(error("old message", &[&long[..], &[0; 8]].concat(), stream), "a message is longer than the file");
    // A footer with the field 4, a list of 2^31 row groups.
    let footer = [0x49, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07, 0];
    let with_footer =
        |footer: &[u8]| [b"PAR1", footer, &u32::try_from(footer.len()).unwrap().to_le_bytes(), b"PAR1"].concat();
    assert_eq!(error("row groups", &with_footer(&footer), parquet), "its footer is invalid");
    // A footer with columns in columns in columns.
    let column = [0x48, 0x01, b'a', 0x15, 0x02, 0x00];
    let columns = [&[0x29, 0xfc, 0xa0, 0x8d, 0x06][..], &column.repeat(100_000), &[0]].concat();
    assert_eq!(error("columns", &with_footer(&columns), parquet), "its columns are nested too deeply");
    assert!(error("short", b"PAR1", parquet).contains("too short"));
}

#[test]
fn damaged_delta_pages_are_errors() {
    for (encoding, version) in [
        (Encoding::DELTA_LENGTH_BYTE_ARRAY, WriterVersion::PARQUET_1_0),
        (Encoding::DELTA_BYTE_ARRAY, WriterVersion::PARQUET_1_0),
        (Encoding::DELTA_BYTE_ARRAY, WriterVersion::PARQUET_2_0),
    ] {
        damage(&format!("{encoding} {version:?}"), &texts(encoding, version), parquet);
    }
}

/// A Parquet file with a nullable column of texts.
fn texts(encoding: Encoding, version: WriterVersion) -> Vec<u8> {
    let texts: StringArray = (0..300).map(|number| (number % 7 > 0).then(|| format!("question {number}"))).collect();
    let batch = RecordBatch::try_from_iter([("question", Arc::new(texts) as ArrayRef)]).unwrap();
    let properties = WriterProperties::builder()
        .set_writer_version(version)
        .set_dictionary_enabled(false)
        .set_encoding(encoding)
        .set_compression(Compression::SNAPPY)
        .build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    bytes
}
