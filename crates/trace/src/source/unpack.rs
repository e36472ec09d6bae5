//! Uncompresses gzip, xz and zstd in memory; several streams in one file are joined.
//!
//! It trusts no size in a header: memory grows with the uncompressed bytes, up to the limit. After an error, the bytes
//! uncompressed so far are still available.

use std::fmt;
use std::io::{self, Read};

use flate2::bufread::GzDecoder;
use lzma_rust2::{Action, Status, XzStream};

/// The largest supported window: what `zstd` accepts without `--long`, and twice what `xz -9` needs. The window is held
/// in memory while unpacking, and a header of a few bytes can ask for 4 GiB.
pub(super) const WINDOW_BYTES: u64 = 1 << WINDOW_LOG;
const WINDOW_LOG: u32 = 27;
/// The memory limit for xz in KiB: the window and one mebibyte for the rest of the decoder.
const XZ_MEMORY_KIB: u32 = (1 << (WINDOW_LOG - 10)) + 1024;

const CHUNK_BYTES: usize = 64 * 1024;

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Packing {
    /// Not compressed.
    None,
    /// gzip (`.gz`).
    Gzip,
    /// xz (`.xz`).
    Xz,
    /// Zstandard (`.zst`).
    Zstd,
}

impl Packing {
    /// Detects the compression by the first bytes, not by the file name. No trace begins with these bytes: 1f and fd
    /// are not tags of an `XSpace`, and 28 is the tag of a field it does not have.
    #[must_use]
    pub fn detect(bytes: &[u8]) -> Self {
        match bytes {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            _ => Self::None,
        }
    }
}

impl fmt::Display for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "plain",
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
        })
    }
}

/// Where a compressed stream ended early.
#[derive(Debug)]
pub struct Cut {
    /// How the file is compressed.
    pub packing: Packing,
    /// The number of uncompressed bytes. If only a checksum at the end is wrong, they may contain the damage.
    pub unpacked_bytes: u64,
    /// The error of the decompressor.
    pub cause: io::Error,
}

impl Cut {
    /// Whether the stream is cut short, so that all uncompressed bytes are correct. Otherwise it is damaged.
    #[must_use]
    pub fn ends_early(&self) -> bool {
        self.cause.kind() == io::ErrorKind::UnexpectedEof
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { packing, unpacked_bytes, cause } = self;
        if self.ends_early() {
            write!(f, "its {packing} stream ends early, after {unpacked_bytes} bytes unpacked")
        } else {
            write!(f, "its {packing} stream is damaged, after {unpacked_bytes} bytes unpacked: {cause}")
        }
    }
}

impl std::error::Error for Cut {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

/// The reason why unpacking stopped.
#[derive(Debug)]
pub(super) enum Fault {
    /// The stream ended early, is damaged, or could not be read.
    Stream(io::Error),
    /// The uncompressed bytes exceed the limit.
    TooLarge { limit: u64 },
    /// The window of the stream is larger than [`WINDOW_BYTES`].
    WindowTooLarge,
    /// The system ran out of memory.
    NoMemory { held_bytes: u64 },
}

/// A buffer of uncompressed bytes that never grows beyond its limit.
#[derive(Debug)]
pub(super) struct LimitedBuffer {
    pub(super) bytes: Vec<u8>,
    limit: u64,
}

impl LimitedBuffer {
    pub(super) fn new(limit: u64) -> Self {
        Self { bytes: Vec::new(), limit }
    }

    fn add(&mut self, more: &[u8]) -> Result<(), Fault> {
        let held_bytes = self.bytes.len() as u64;
        if held_bytes.saturating_add(more.len() as u64) > self.limit {
            return Err(Fault::TooLarge { limit: self.limit });
        }
        self.bytes.try_reserve(more.len()).map_err(|_| Fault::NoMemory { held_bytes })?;
        self.bytes.extend_from_slice(more);
        Ok(())
    }

    /// Adds all bytes of a stream.
    pub(super) fn read(&mut self, mut stream: impl Read) -> Result<(), Fault> {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            match stream.read(&mut chunk) {
                Ok(0) => return Ok(()),
                Ok(count) => self.add(&chunk[..count])?,
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(Fault::Stream(cause)),
            }
        }
    }

    /// Adds the uncompressed bytes.
    pub(super) fn unpack(&mut self, packing: Packing, packed: &[u8]) -> Result<(), Fault> {
        match packing {
            Packing::None => self.add(packed),
            Packing::Gzip => self.unpack_gzip(packed),
            Packing::Xz => self.unpack_xz(packed),
            Packing::Zstd => self.unpack_zstd(packed),
        }
    }

    /// One stream at a time, to distinguish a damaged stream from other bytes after the last one.
    fn unpack_gzip(&mut self, mut packed: &[u8]) -> Result<(), Fault> {
        loop {
            let mut stream = GzDecoder::new(packed);
            self.read(&mut stream)?;
            packed = stream.into_inner();
            match Packing::detect(packed) {
                _ if packed.is_empty() => return Ok(()),
                Packing::Gzip => {}
                _ => {
                    let why = format!("{} bytes that are not gzip follow its end", packed.len());
                    return Err(Fault::Stream(io::Error::new(io::ErrorKind::InvalidData, why)));
                }
            }
        }
    }

    /// Uses the decoder's own loop and not its `Read`, which needs up to 64 KiB of complete input before the first byte
    /// of output: a stream that is cut short would lose up to 2 MiB.
    fn unpack_xz(&mut self, mut packed: &[u8]) -> Result<(), Fault> {
        let mut stream = XzStream::new_mem_limit(true, XZ_MEMORY_KIB);
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let before = stream.total_out();
            let result = stream.process(packed, &mut chunk, Action::Finish);
            // Also after an error: the count is of the bytes written before it.
            let count = usize::try_from(stream.total_out() - before).unwrap_or(0).min(chunk.len());
            self.add(&chunk[..count])?;
            match result {
                Ok(step) if step.status == Status::StreamEnd => return Ok(()),
                Ok(step) if step.bytes_consumed == 0 && count == 0 => {
                    return Err(Fault::Stream(io::ErrorKind::UnexpectedEof.into()));
                }
                Ok(step) => packed = packed.get(step.bytes_consumed..).unwrap_or_default(),
                Err(cause) if cause.kind() == io::ErrorKind::OutOfMemory => return Err(Fault::WindowTooLarge),
                Err(cause) => return Err(Fault::Stream(cause)),
            }
        }
    }

    fn unpack_zstd(&mut self, packed: &[u8]) -> Result<(), Fault> {
        // zstd checks every frame, but its error gives the reason only as text. This check types it for the first
        // frame.
        if zstd_window_bytes(packed).is_some_and(|window| window > WINDOW_BYTES) {
            return Err(Fault::WindowTooLarge);
        }
        let mut stream = zstd::stream::read::Decoder::with_buffer(packed).map_err(Fault::Stream)?;
        stream.window_log_max(WINDOW_LOG).map_err(Fault::Stream)?;
        self.read(stream)
    }
}

/// The window of the first frame, from its header (RFC 8878, 3.1.1.1).
fn zstd_window_bytes(packed: &[u8]) -> Option<u64> {
    let (&descriptor, rest) = packed.get(4..)?.split_first()?;
    if descriptor & 0x20 == 0 {
        let window = *rest.first()?;
        let base = 1_u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    // A single segment: the window is the size of the content, which follows the dictionary id.
    let dictionary_id_bytes = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let (size_bytes, least) = [(1, 0), (2, 256), (4, 0), (8, 0)][usize::from(descriptor >> 6)];
    let size = rest.get(dictionary_id_bytes..)?.get(..size_bytes)?;
    let size = size.iter().rev().fold(0_u64, |size, &byte| size << 8 | u64::from(byte));
    size.checked_add(least)
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Write;

    use lzma_rust2::{XzOptions, XzWriter};
    use proptest::prelude::*;

    use super::*;

    pub(in crate::source) const PACKINGS: [Packing; 3] = [Packing::Gzip, Packing::Xz, Packing::Zstd];

    pub(in crate::source) fn pack(packing: Packing, bytes: &[u8]) -> Vec<u8> {
        match packing {
            Packing::None => bytes.to_vec(),
            Packing::Gzip => {
                let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
                writer.write_all(bytes).unwrap();
                writer.finish().unwrap()
            }
            Packing::Xz => {
                let mut writer = XzWriter::new(Vec::new(), XzOptions::with_preset(1)).unwrap();
                writer.write_all(bytes).unwrap();
                writer.finish().unwrap()
            }
            Packing::Zstd => zstd::encode_all(bytes, 3).unwrap(),
        }
    }

    /// Bytes that compress to about a third.
    pub(in crate::source) fn sample(count: u32) -> Vec<u8> {
        (0..count).flat_map(|at| [at.wrapping_mul(2_654_435_761).to_le_bytes()[3], 7, 9]).collect()
    }

    fn unpack(packed: &[u8], limit: u64) -> (Vec<u8>, Result<(), Fault>) {
        let mut held = LimitedBuffer::new(limit);
        let result = held.unpack(Packing::detect(packed), packed);
        (held.bytes, result)
    }

    #[test]
    fn bombs_stop_at_the_limit() {
        let zeros = vec![0; 4 << 20];
        for packing in PACKINGS {
            let packed = pack(packing, &zeros);
            assert!(packed.len() < 8 << 10, "{packing}: {}", packed.len());
            let (bytes, result) = unpack(&packed, 100_000);
            assert!(matches!(result, Err(Fault::TooLarge { limit: 100_000 })), "{packing}: {result:?}");
            assert!(bytes.capacity() <= 200_000, "{packing}: {}", bytes.capacity());
            assert!(unpack(&packed, 4 << 20).1.is_ok(), "{packing}");
        }
    }

    #[test]
    fn bytes_after_a_stream_are_damage() {
        let bytes = sample(1000);
        for packing in PACKINGS {
            for after in [&b"x"[..], b"rubbish behind it", &[0x1f, 0x8b], &[0xff; 40]] {
                let packed = [&pack(packing, &bytes), after].concat();
                let (unpacked, result) = unpack(&packed, u64::MAX);
                assert!(matches!(result, Err(Fault::Stream(_))), "{packing}: {result:?}");
                assert_eq!(unpacked, bytes, "{packing}");
            }
        }
    }

    #[test]
    fn a_truncated_stream_gives_its_first_part() {
        let bytes = sample(40_000);
        for packing in PACKINGS {
            let packed = pack(packing, &bytes);
            let mut most = 0;
            for cut in (10..packed.len()).step_by(packed.len() / 50) {
                let (unpacked, result) = unpack(&packed[..cut], u64::MAX);
                assert!(matches!(&result, Err(Fault::Stream(cause)) if cause.kind() == io::ErrorKind::UnexpectedEof));
                assert!(bytes.starts_with(&unpacked), "{packing} cut at {cut}");
                most = most.max(unpacked.len());
            }
            // xz gives single bytes; zstd gives blocks of 128 KiB, of which there is only one.
            assert!(packing == Packing::Zstd || most > bytes.len() * 9 / 10, "{packing}: {most}");
        }
    }

    #[test]
    fn a_window_of_gigabytes_is_rejected_before_it_is_allocated() {
        let mut options = XzOptions::with_preset(1);
        options.lzma_options.dict_size = 256 << 10;
        let mut writer = XzWriter::new(Vec::new(), options).unwrap();
        writer.write_all(b"abc").unwrap();
        let mut xz = writer.finish().unwrap();
        // Bytes 12 to 24 are the block's header: size, flags, filter 0x21, its size, the dictionary, padding, CRC-32.
        assert_eq!(xz[12..16], [2, 0, 0x21, 1]);
        xz[16] = 40;
        let mut sum = flate2::Crc::new();
        sum.update(&xz[12..20]);
        xz[20..24].copy_from_slice(&sum.sum().to_le_bytes());
        let long_window = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 21 << 3, 1, 0, 0];
        let long_segment = [0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0xff, 0, 0, 0, 1, 0, 0];
        for packed in [&xz[..], &long_window, &long_segment] {
            let (_, result) = unpack(packed, u64::MAX);
            assert!(matches!(result, Err(Fault::WindowTooLarge)), "{result:?}");
        }
        // zstd itself rejects a second frame with such a window.
        let (unpacked, result) = unpack(&[&pack(Packing::Zstd, b"abc")[..], &long_window].concat(), u64::MAX);
        assert!(matches!(result, Err(Fault::Stream(_))) && unpacked == b"abc", "{result:?}");
    }

    #[test]
    fn zstd_headers_contain_their_window() {
        assert_eq!(zstd_window_bytes(&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x51]), Some((1 << 20) + (1 << 17)));
        assert_eq!(zstd_window_bytes(&[0x28, 0xb5, 0x2f, 0xfd, 0x60, 1, 0]), Some(257));
        assert_eq!(zstd_window_bytes(&[0x28, 0xb5, 0x2f, 0xfd, 0x61, 9, 1, 0]), Some(257));
        assert_eq!(zstd_window_bytes(&[0x28, 0xb5, 0x2f, 0xfd, 0x60, 1]), None);
        assert_eq!(zstd_window_bytes(&[0x28, 0xb5, 0x2f, 0xfd]), None);
    }

    fn any_packing() -> impl Strategy<Value = Packing> {
        proptest::sample::select(PACKINGS.to_vec())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn concatenated_streams_are_joined(
            packing in any_packing(),
            parts in proptest::collection::vec(proptest::collection::vec(0_u8..4, 0..3000), 1..4),
        ) {
            let packed = parts.iter().flat_map(|part| pack(packing, part)).collect::<Vec<_>>();
            prop_assert_eq!(Packing::detect(&packed), packing);
            let (bytes, result) = unpack(&packed, u64::MAX);
            prop_assert!(result.is_ok(), "{:?}", result);
            prop_assert_eq!(bytes, parts.concat());
        }

        #[test]
        fn damage_anywhere_is_reported_and_never_panics(packing in any_packing(), at: prop::sample::Index, flip in 1_u8..) {
            let bytes = sample(3000);
            let mut packed = pack(packing, &bytes);
            let at = at.index(packed.len());
            packed[at] ^= flip;
            let (unpacked, result) = unpack(&packed, 1 << 20);
            // Some bits of a gzip header do not affect the content, and zstd has no checksum here.
            if packing == Packing::Xz && Packing::detect(&packed) == Packing::Xz {
                prop_assert!(result.is_err());
            }
            prop_assert!(unpacked.len() <= 1 << 20);
        }

        #[test]
        fn random_bytes_after_the_magic_number_never_panic(packing in any_packing(), rest: Vec<u8>) {
            let magic: &[u8] = match packing {
                Packing::Xz => &[0xfd, b'7', b'z', b'X', b'Z', 0],
                Packing::Zstd => &[0x28, 0xb5, 0x2f, 0xfd],
                _ => &[0x1f, 0x8b],
            };
            let (unpacked, _) = unpack(&[magic, &rest].concat(), 1 << 20);
            prop_assert!(unpacked.len() <= 1 << 20);
        }
    }
}
