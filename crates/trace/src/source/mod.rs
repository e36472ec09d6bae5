//! Opens trace files: plain files are mapped, compressed files are unpacked into memory.
//!
//! No other module of the crate uses the file system. This module does not look at the content: an empty file has no
//! bytes, and the reader decides whether the bytes are a trace.

mod error;
mod find;
mod memory;
mod unpack;

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use memmap2::Mmap;
#[cfg(unix)]
use memmap2::UncheckedAdvice;

pub use error::SourceError;
pub(crate) use error::display_path;
pub use find::{SkipReason, Skipped, TraceFiles, find};
pub use unpack::{Cut, Packing};
use unpack::{Fault, LimitedBuffer};

/// The path for standard input.
const STANDARD_INPUT: &str = "-";

/// Options for opening trace files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reading {
    /// The limit on memory.
    pub limits: Limits,
    /// How a compressed file that is cut short or damaged is treated.
    pub leniency: Leniency,
}

/// The limit on memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of one file in memory, uncompressed. It applies to compressed files and to files that cannot be
    /// mapped; a plain file is mapped and may be larger.
    pub decompressed_bytes: u64,
}

impl Default for Limits {
    /// 8 GiB per file.
    fn default() -> Self {
        Self { decompressed_bytes: 8 << 30 }
    }
}

/// How a file that is cut short or damaged is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Leniency {
    /// It is an error.
    #[default]
    Strict,
    /// The undamaged part is read, and [`Source::cut`] says where it ended. If no part can be read, it is an error.
    KeepWhole,
}

/// The bytes of one file, mapped or unpacked into memory.
pub struct Source {
    path: PathBuf,
    bytes: Bytes,
    packing: Packing,
    cut: Option<Cut>,
}

enum Bytes {
    Mapped(Mmap),
    Held(Vec<u8>),
}

impl Bytes {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Held(bytes) => bytes,
        }
    }
}

impl Source {
    /// A source of these bytes as they are, even if they are compressed. The name is used in messages.
    #[must_use]
    pub fn from_bytes(name: impl Into<PathBuf>, bytes: Vec<u8>) -> Self {
        Self { path: name.into(), bytes: Bytes::Held(bytes), packing: Packing::None, cut: None }
    }

    /// A source of bytes that are uncompressed if their first bytes are those of a compressed file. The name is used in
    /// messages.
    pub fn unpack(name: impl Into<PathBuf>, bytes: Vec<u8>, reading: &Reading) -> Result<Self, SourceError> {
        Self::from(name.into(), Bytes::Held(bytes), reading)
    }

    /// Opens a file, or standard input for `-`. A plain file is mapped. Files without a known length (pipes, devices)
    /// and files that the system cannot map are read into memory.
    pub fn open(path: &Path, reading: &Reading) -> Result<Self, SourceError> {
        Self::open_by(path, reading, |file| map(file).ok())
    }

    /// Like [`open`](Self::open), but reads a plain file into memory, within the limit. Use it to keep a trace open
    /// while another process may write to its file: if a mapped file is truncated, the process is killed.
    pub fn open_in_memory(path: &Path, reading: &Reading) -> Result<Self, SourceError> {
        Self::open_by(path, reading, |_| None)
    }

    fn open_by(path: &Path, reading: &Reading, map: fn(&File) -> Option<Mmap>) -> Result<Self, SourceError> {
        let failed = |cause| SourceError::Read { path: path.to_owned(), cause };
        if path == Path::new(STANDARD_INPUT) {
            return Self::from(path.to_owned(), read(path, io::stdin().lock(), reading)?, reading);
        }
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        let map = (metadata.is_file() && metadata.len() > 0).then(|| map(&file)).flatten();
        let bytes = match map {
            Some(map) => Bytes::Mapped(map),
            None => read(path, &file, reading)?,
        };
        Self::from(path.to_owned(), bytes, reading)
    }

    fn from(path: PathBuf, bytes: Bytes, reading: &Reading) -> Result<Self, SourceError> {
        let packing = Packing::detect(bytes.as_slice());
        if packing == Packing::None {
            return Ok(Self { path, bytes, packing, cut: None });
        }
        let mut held = LimitedBuffer::new(reading.limits.decompressed_bytes);
        let cut = match held.unpack(packing, bytes.as_slice()) {
            Ok(()) => None,
            Err(Fault::Stream(cause)) => {
                let cut = Cut { packing, unpacked_bytes: held.bytes.len() as u64, cause };
                if reading.leniency == Leniency::Strict || held.bytes.is_empty() {
                    return Err(SourceError::Damaged { path, cut });
                }
                Some(cut)
            }
            Err(fault) => return Err(source_error(path, packing, fault)),
        };
        Ok(Self { path, bytes: Bytes::Held(held.bytes), packing, cut })
    }

    /// Releases the memory pages of bytes that were read. The pages of a mapped file are loaded again when they are
    /// accessed. A long trace therefore needs memory for its columns only, not for its file.
    pub(crate) fn release(&self, bytes: Range<usize>) {
        if let Bytes::Mapped(map) = &self.bytes
            && bytes.len() >= WORTH_RELEASING
        {
            release(map, bytes);
        }
    }

    /// The path of the file, or the given name.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The bytes, uncompressed.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }

    /// Whether the file is mapped, not copied to memory.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        matches!(self.bytes, Bytes::Mapped(_))
    }

    /// How the file is compressed.
    #[must_use]
    pub fn packing(&self) -> Packing {
        self.packing
    }

    /// Where and why the compressed stream ended early; only with [`Leniency::KeepWhole`].
    #[must_use]
    pub fn cut(&self) -> Option<&Cut> {
        self.cut.as_ref()
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("path", &self.path)
            .field("bytes", &self.bytes().len())
            .field("is_mapped", &self.is_mapped())
            .field("packing", &self.packing)
            .field("cut", &self.cut)
            .finish()
    }
}

/// Releasing fewer bytes is not worth the system call.
const WORTH_RELEASING: usize = 1 << 18;

#[cfg(unix)]
#[expect(unsafe_code, reason = "advice that drops pages is unsafe for private memory, which this is not")]
fn release(map: &Mmap, bytes: Range<usize>) {
    // SAFETY: the map is read-only and backed by a file, so a dropped page is loaded again from that file with the same
    // bytes, and nothing that was borrowed changes. See `map` for changes to the file itself.
    let released = unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, bytes.start, bytes.len()) };
    // If the system ignores the advice, only memory is lost.
    drop(released);
}

#[cfg(not(unix))]
fn release(_: &Mmap, _: Range<usize>) {}

/// Maps a whole file that is not empty.
///
/// It passes no advice to the system. Measured on two cores with 49 MB, two threads summing one byte per page: without
/// advice 1.6 ms, sequential 1.1 ms, populated 2.7 ms, read into memory 29 ms. With a cold page cache: without advice
/// 29 ms, populated 25 ms, sequential 34 ms. No advice is best in all cases, and none is never far from the best.
#[expect(unsafe_code, reason = "files of gigabytes are mapped, and the system cannot prevent changes to them")]
fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: the map is read-only and has the current length of the file. Nothing prevents another process from
    // changing the file, and no lock would on Unix. If it truncates the file, ours is killed by SIGBUS when it accesses
    // a missing page; if it overwrites the file, the bytes change. Profilers write a trace once. A trace that is still
    // being written can be passed as `-`, which copies it.
    unsafe { Mmap::map(file) }
}

fn read(path: &Path, stream: impl io::Read, reading: &Reading) -> Result<Bytes, SourceError> {
    let mut held = LimitedBuffer::new(reading.limits.decompressed_bytes);
    match held.read(stream) {
        Ok(()) => Ok(Bytes::Held(held.bytes)),
        Err(fault) => Err(source_error(path.to_owned(), Packing::None, fault)),
    }
}

fn source_error(path: PathBuf, packing: Packing, fault: Fault) -> SourceError {
    match fault {
        Fault::Stream(cause) => SourceError::Read { path, cause },
        Fault::TooLarge { limit } => SourceError::TooLarge { path, packing, limit },
        Fault::WindowTooLarge => SourceError::WindowTooLarge { path, packing },
        Fault::NoMemory { held_bytes } => SourceError::NoMemory { path, held_bytes },
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use ergometer_diagnostics::{CommandLine, Diagnostic};

    use super::unpack::tests::{PACKINGS, pack, sample};
    use super::*;

    const LENIENT: Reading = Reading { limits: Limits { decompressed_bytes: 1 << 30 }, leniency: Leniency::KeepWhole };

    fn fixture(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/xplane").join(name)
    }

    fn temporary_file(bytes: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), bytes).unwrap();
        file
    }

    #[test]
    fn fixtures_open_to_their_length() {
        for (name, bytes, packing) in [
            ("gpu_autotune.xplane.pb", 220_094, Packing::None),
            ("gpu_train_200.xplane.pb.xz", 12_279_761, Packing::Xz),
            ("h200_kernels_a.xplane.pb.xz", 12_880_625, Packing::Xz),
        ] {
            let source = Source::open(&fixture(name), &Reading::default()).unwrap();
            assert_eq!((source.bytes().len(), source.packing()), (bytes, packing), "{name}");
            assert_eq!(source.is_mapped(), packing == Packing::None, "{name}");
            assert_eq!(source.bytes()[0], 0x0a, "{name} begins with a plane");
            assert!(source.cut().is_none());
        }
    }

    #[test]
    fn the_compression_is_detected_by_the_bytes_and_not_the_name() {
        let bytes = sample(1000);
        for packing in PACKINGS {
            let file = temporary_file(&pack(packing, &bytes));
            let opened = Source::open(file.path(), &Reading::default()).unwrap();
            assert_eq!((opened.bytes(), opened.packing(), opened.is_mapped()), (&bytes[..], packing, false));
            let unpacked = Source::unpack("a.pb", pack(packing, &bytes), &Reading::default()).unwrap();
            assert_eq!((unpacked.bytes(), unpacked.path()), (&bytes[..], Path::new("a.pb")));
            let as_is = Source::from_bytes("a.gz", pack(packing, &bytes));
            assert_eq!((as_is.bytes(), as_is.packing()), (&pack(packing, &bytes)[..], Packing::None));
        }
    }

    #[test]
    fn a_cut_file_is_an_error_or_keeps_its_first_part() {
        let bytes = sample(50_000);
        let mut packed = pack(Packing::Gzip, &bytes);
        packed.truncate(packed.len() / 2);
        let error = Source::unpack("a.gz", packed.clone(), &Reading::default()).unwrap_err();
        let SourceError::Damaged { cut, .. } = &error else { panic!("{error}") };
        assert!(cut.ends_early() && cut.unpacked_bytes > 10_000);
        let expected =
            format!("cannot unpack a.gz: its gzip stream ends early, after {} bytes unpacked", cut.unpacked_bytes);
        assert_eq!(error.to_string(), expected);
        assert_eq!(
            error.one_line(&CommandLine),
            format!("{expected}. hint: copy the file again, or pass --lenient to read the part that was unpacked")
        );

        let kept = Source::unpack("a.gz", packed, &LENIENT).unwrap();
        assert_eq!(kept.bytes().len() as u64, kept.cut().unwrap().unpacked_bytes);
        assert!(bytes.starts_with(kept.bytes()));
        // If no byte can be uncompressed, lenient reading fails too.
        let error = Source::unpack("a.gz", vec![0x1f, 0x8b], &LENIENT).unwrap_err().one_line(&CommandLine);
        assert!(error.ends_with("after 0 bytes unpacked. hint: copy the file again: no part of it could be unpacked"));
    }

    #[test]
    fn a_wrong_checksum_is_damage_not_an_early_end() {
        let mut packed = pack(Packing::Gzip, b"abc");
        let sum = packed.len() - 8;
        packed[sum] ^= 1;
        let kept = Source::unpack("a.gz", packed, &LENIENT).unwrap();
        assert!(kept.bytes() == b"abc" && !kept.cut().unwrap().ends_early());
    }

    #[test]
    fn the_limit_on_memory_also_holds_leniently() {
        let limits = Limits { decompressed_bytes: 1000 };
        let packed = temporary_file(&pack(Packing::Zstd, &[0; 1001]));
        for leniency in [Leniency::Strict, Leniency::KeepWhole] {
            let error = Source::open(packed.path(), &Reading { limits, leniency }).unwrap_err().to_string();
            assert!(error.contains("larger than the limit of 1000 bytes when uncompressed"), "{error}");
        }
        // A plain file of any size is mapped.
        let plain = temporary_file(&[0; 1001]);
        assert!(Source::open(plain.path(), &Reading { limits, ..Reading::default() }).unwrap().is_mapped());
        let error = read(Path::new("-"), &[0; 1001][..], &Reading { limits, ..Reading::default() }).err().unwrap();
        assert_eq!(error.to_string(), "cannot read standard input: it is larger than the limit of 1000 bytes");
    }

    #[test]
    fn an_empty_file_is_no_bytes() {
        let source = Source::open(temporary_file(b"").path(), &Reading::default()).unwrap();
        assert!(source.bytes().is_empty() && !source.is_mapped() && source.packing() == Packing::None);
    }

    #[test]
    fn an_error_of_opening_names_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let error = Source::open(&folder.path().join("gone.pb"), &Reading::default()).unwrap_err();
        let error = error.one_line(&CommandLine);
        assert!(error.contains("gone.pb: ") && error.contains("hint: pass the path"), "{error}");
        let error = Source::open(folder.path(), &Reading::default()).unwrap_err();
        assert!(
            matches!(&error, SourceError::Read { cause, .. } if cause.kind() == io::ErrorKind::IsADirectory),
            "{error}"
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_device_is_read_and_not_mapped() {
        let source = Source::open(Path::new("/dev/null"), &Reading::default()).unwrap();
        assert!(source.bytes().is_empty() && !source.is_mapped());
        let limits = Limits { decompressed_bytes: 1000 };
        let endless = Source::open(Path::new("/dev/zero"), &Reading { limits, ..Reading::default() });
        assert!(matches!(endless, Err(SourceError::TooLarge { limit: 1000, .. })));
    }

    #[test]
    fn a_source_can_be_sent_to_other_threads() {
        fn crosses<T: Send + Sync>() {}
        crosses::<Source>();
    }
}
