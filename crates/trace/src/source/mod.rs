//! What a user typed → files → the bytes of each: mapped where the file is plain, unpacked into memory where it is not.
//!
//! The file system is here and nowhere else in the crate. Bytes are handed out as they are: an empty file is no bytes,
//! and whether they are a trace is for the reader to say.

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
pub(crate) use error::shown;
pub use find::{Found, SkipReason, Skipped, find};
pub use unpack::{Cut, Packing};
use unpack::{Fault, Held};

/// The path that stands for standard input.
const STANDARD_INPUT: &str = "-";

/// How bytes are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reading {
    /// What may be read at most.
    pub limits: Limits,
    /// What becomes of a packed file that is cut or damaged.
    pub leniency: Leniency,
}

/// What may be read at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of one file that are held in memory: unpacked, or read where it cannot be mapped. A plain file is
    /// mapped and may be larger.
    pub decompressed_bytes: u64,
}

impl Default for Limits {
    /// 8 GiB a file.
    fn default() -> Self {
        Self { decompressed_bytes: 8 << 30 }
    }
}

/// What becomes of a packed file that is cut or damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Leniency {
    /// It is an error.
    #[default]
    Strict,
    /// What came out of it is kept, and [`Source::cut`] tells. A file of which nothing came out is an error still.
    KeepWhole,
}

/// The bytes of one file: mapped, or unpacked into memory.
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
    /// Bytes as they are, packed or not. The name is for messages.
    #[must_use]
    pub fn from_bytes(name: impl Into<PathBuf>, bytes: Vec<u8>) -> Self {
        Self { path: name.into(), bytes: Bytes::Held(bytes), packing: Packing::None, cut: None }
    }

    /// Bytes that may be packed, which their first bytes tell. The name is for messages.
    pub fn unpack(name: impl Into<PathBuf>, bytes: Vec<u8>, reading: &Reading) -> Result<Self, SourceError> {
        Self::from(name.into(), Bytes::Held(bytes), reading)
    }

    /// The bytes of a file, `-` being standard input. A plain file is mapped. What has no length beforehand (a pipe, a
    /// device, an empty file) and what the system will not map is read.
    pub fn open(path: &Path, reading: &Reading) -> Result<Self, SourceError> {
        Self::open_by(path, reading, |file| map(file).ok())
    }

    /// As [`open`](Self::open), but a plain file is read into memory, within the limit: for who keeps a trace while others
    /// may write to its file. A mapping of a file that is cut meanwhile ends the process.
    pub fn hold(path: &Path, reading: &Reading) -> Result<Self, SourceError> {
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
        let packing = Packing::of(bytes.as_slice());
        if packing == Packing::None {
            return Ok(Self { path, bytes, packing, cut: None });
        }
        let mut held = Held::new(reading.limits.decompressed_bytes);
        let cut = match held.unpack(packing, bytes.as_slice()) {
            Ok(()) => None,
            Err(Fault::Stream(cause)) => {
                let cut = Cut { packing, unpacked_bytes: held.bytes.len() as u64, cause };
                if reading.leniency == Leniency::Strict || held.bytes.is_empty() {
                    return Err(SourceError::Damaged { path, cut });
                }
                Some(cut)
            }
            Err(fault) => return Err(refused(path, packing, fault)),
        };
        Ok(Self { path, bytes: Bytes::Held(held.bytes), packing, cut })
    }

    /// Lets go of bytes that were read and may be read again: of a mapped file they are no longer held in memory for us,
    /// and come back when they are touched. A long trace is read in the memory of its columns, not of its file.
    pub(crate) fn release(&self, bytes: Range<usize>) {
        if let Bytes::Mapped(map) = &self.bytes
            && bytes.len() >= WORTH_RELEASING
        {
            release(map, bytes);
        }
    }

    /// Where the bytes come from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The bytes, unpacked.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }

    /// Whether the bytes are the file's own, and no copy in memory.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        matches!(self.bytes, Bytes::Mapped(_))
    }

    /// How the file is packed.
    #[must_use]
    pub fn packing(&self) -> Packing {
        self.packing
    }

    /// Where and why the packed stream ended before its end; only under [`Leniency::KeepWhole`].
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

/// Fewer bytes are not worth asking the system.
const WORTH_RELEASING: usize = 1 << 18;

#[cfg(unix)]
#[expect(unsafe_code, reason = "the advice that lets go of pages is unsafe of private memory, which this is not")]
fn release(map: &Mmap, bytes: Range<usize>) {
    // SAFETY: the map is read-only and of a file, so a page that is let go of comes back from that file with the same
    // bytes: nothing that was borrowed changes. That the file itself may change is said where it is mapped.
    let released = unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, bytes.start, bytes.len()) };
    // It is advice: where the system does not take it only memory is lost.
    drop(released);
}

#[cfg(not(unix))]
fn release(_: &Mmap, _: Range<usize>) {}

/// Maps a whole file that has a length.
///
/// No advice goes with it. On two cores, 49 MB, one byte a page summed by two threads: none 1.6 ms, sequential 1.1 ms,
/// populated beforehand 2.7 ms, read into memory 29 ms. Of a file that is not in memory yet: none 29 ms, populated 25 ms,
/// sequential 34 ms. No choice is best at all of them, and without advice it is never far from the best.
#[expect(unsafe_code, reason = "a file of gigabytes is mapped, and the system cannot promise that nobody changes it")]
fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: the map is read-only and is of the length that the file has now. Nothing keeps another process from
    // changing the file meanwhile, and no lock would on Unix. One that cuts the file short ends ours by SIGBUS when it
    // touches a page that is gone; one that writes over it makes the bytes change under us. Profilers write a trace
    // once and leave it. Who has one that is still being written gives it by `-`, which copies it.
    unsafe { Mmap::map(file) }
}

fn read(path: &Path, stream: impl io::Read, reading: &Reading) -> Result<Bytes, SourceError> {
    let mut held = Held::new(reading.limits.decompressed_bytes);
    match held.read(stream) {
        Ok(()) => Ok(Bytes::Held(held.bytes)),
        Err(fault) => Err(refused(path.to_owned(), Packing::None, fault)),
    }
}

fn refused(path: PathBuf, packing: Packing, fault: Fault) -> SourceError {
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

    use super::unpack::tests::{PACKINGS, pack, sample};
    use super::*;

    const LENIENT: Reading = Reading { limits: Limits { decompressed_bytes: 1 << 30 }, leniency: Leniency::KeepWhole };

    fn fixture(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/xplane").join(name)
    }

    fn written(bytes: &[u8]) -> tempfile::NamedTempFile {
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
    fn the_packing_is_told_from_the_bytes_and_not_the_name() {
        let bytes = sample(1000);
        for packing in PACKINGS {
            let file = written(&pack(packing, &bytes));
            let opened = Source::open(file.path(), &Reading::default()).unwrap();
            assert_eq!((opened.bytes(), opened.packing(), opened.is_mapped()), (&bytes[..], packing, false));
            let unpacked = Source::unpack("a.pb", pack(packing, &bytes), &Reading::default()).unwrap();
            assert_eq!((unpacked.bytes(), unpacked.path()), (&bytes[..], Path::new("a.pb")));
            let as_is = Source::from_bytes("a.gz", pack(packing, &bytes));
            assert_eq!((as_is.bytes(), as_is.packing()), (&pack(packing, &bytes)[..], Packing::None));
        }
    }

    #[test]
    fn a_cut_file_is_an_error_or_keeps_what_came_out() {
        let bytes = sample(50_000);
        let mut packed = pack(Packing::Gzip, &bytes);
        packed.truncate(packed.len() / 2);
        let error = Source::unpack("a.gz", packed.clone(), &Reading::default()).unwrap_err();
        let SourceError::Damaged { cut, .. } = &error else { panic!("{error}") };
        assert!(cut.ends_early() && cut.unpacked_bytes > 10_000);
        let expected =
            format!("cannot unpack a.gz: its gzip stream ends early, after {} bytes unpacked", cut.unpacked_bytes);
        assert_eq!(
            error.to_string(),
            format!("{expected}. hint: copy the file again; --lenient keeps what was unpacked")
        );

        let kept = Source::unpack("a.gz", packed, &LENIENT).unwrap();
        assert_eq!(kept.bytes().len() as u64, kept.cut().unwrap().unpacked_bytes);
        assert!(bytes.starts_with(kept.bytes()));
        // Of nothing there is nothing to keep.
        let error = Source::unpack("a.gz", vec![0x1f, 0x8b], &LENIENT).unwrap_err().to_string();
        assert!(error.ends_with("after 0 bytes unpacked. hint: copy the file again, nothing of it could be unpacked"));
    }

    #[test]
    fn a_wrong_checksum_is_damage_and_no_early_end() {
        let mut packed = pack(Packing::Gzip, b"abc");
        let sum = packed.len() - 8;
        packed[sum] ^= 1;
        let kept = Source::unpack("a.gz", packed, &LENIENT).unwrap();
        assert!(kept.bytes() == b"abc" && !kept.cut().unwrap().ends_early());
    }

    #[test]
    fn the_limit_holds_for_what_is_in_memory_leniently_too() {
        let limits = Limits { decompressed_bytes: 1000 };
        let packed = written(&pack(Packing::Zstd, &[0; 1001]));
        for leniency in [Leniency::Strict, Leniency::KeepWhole] {
            let error = Source::open(packed.path(), &Reading { limits, leniency }).unwrap_err().to_string();
            assert!(error.contains("larger than the limit of 1000 bytes when unpacked. hint: "), "{error}");
        }
        // A plain file is mapped, whatever its size.
        let plain = written(&[0; 1001]);
        assert!(Source::open(plain.path(), &Reading { limits, ..Reading::default() }).unwrap().is_mapped());
        let error = read(Path::new("-"), &[0; 1001][..], &Reading { limits, ..Reading::default() }).err().unwrap();
        assert!(
            error.to_string().starts_with("cannot read standard input: it is larger than the limit of 1000 bytes. ")
        );
    }

    #[test]
    fn an_empty_file_is_no_bytes() {
        let source = Source::open(written(b"").path(), &Reading::default()).unwrap();
        assert!(source.bytes().is_empty() && !source.is_mapped() && source.packing() == Packing::None);
    }

    #[test]
    fn what_cannot_be_opened_is_told_with_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let error = Source::open(&folder.path().join("gone.pb"), &Reading::default()).unwrap_err().to_string();
        assert!(error.contains("gone.pb: ") && error.contains("hint: check the name"), "{error}");
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
    fn a_source_goes_to_other_threads() {
        fn crosses<T: Send + Sync>() {}
        crosses::<Source>();
    }
}
