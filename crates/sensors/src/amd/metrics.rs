//! Parses the table `gpu_metrics`, in which the driver shows the counters of the firmware.
//!
//! The energy count and the throttle counters are read for the revisions with a known layout and unit (see the kernel's
//! `kgd_pp_interface.h`). Both the revision and the size must be known. A field of all ones is absent. Any other table
//! is an [`UnknownTable`].
//!
//! | revision | GPUs | energy |
//! |---|---|---|
//! | 1.2, 1.3 | MI200 and Radeon | MI200: in 2^-16 J (`smu13_driver_if_aldebaran.h`); Radeon: a 32-bit field without a documented unit, which drivers no longer fill since 2026 |
//! | 1.4 to 1.8 | MI300 and later | in 2^-16 J |
//! | 1.9 | MI300 and later, as a list of typed fields | in 2^-16 J |
//! | 2.x, 3.x | CPUs with graphics | none |

use super::card::Chip;

/// The longest time between two updates: the kernel caches a table for 5 ms (`SMU_GPU_METRICS_CACHE_INTERVAL`), and the
/// firmware takes up to a millisecond more.
pub(super) const UPDATE_PERIOD_S: f64 = 0.01;

/// The energy of one count, in joules: 15.259 microjoules.
pub(super) const UNIT_J: f64 = 1.0 / 65536.0;

/// The values of a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Metrics {
    /// The energy count, in [`UNIT_J`].
    pub(super) energy: Option<u64>,
    /// How long each limiter reduced the clocks.
    pub(super) residency: Option<Residency>,
    /// The limiters that reduce the clocks now, in bits with the same meaning on every chip.
    pub(super) limiters: Option<u64>,
}

/// The number of firmware cycles in which each limiter was active, since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Residency {
    /// All cycles.
    pub(super) cycles: u64,
    /// The signal for an overheated processor.
    pub(super) processor_hot: u64,
    /// The power limit of the package.
    pub(super) power: u64,
    /// The temperature limits of the socket, its voltage regulators and its memory.
    pub(super) thermal: [u64; 3],
}

/// Why a table cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum UnknownTable {
    /// Shorter than its header, or than the size in its header.
    #[error("gpu_metrics ends after {0} bytes")]
    Short(usize),
    /// An unknown revision or size.
    #[error("the layout of gpu_metrics {format}.{content} with {size} bytes is unknown")]
    Revision { format: u8, content: u8, size: usize },
    /// A known revision on a chip without a documented energy unit.
    #[error("gpu_metrics {format}.{content} has no energy counter with a known unit on this GPU")]
    Chip { format: u8, content: u8 },
    /// A list of fields that does not match the size.
    #[error("the list of fields in gpu_metrics 1.9 does not match its size")]
    Fields,
}

/// The offsets of the fields of a revision.
struct Layout {
    energy: usize,
    residency: Option<usize>,
    limiters: Option<usize>,
}

/// Parses the table of a chip.
pub(super) fn parse(bytes: &[u8], chip: Chip) -> Result<Metrics, UnknownTable> {
    let &[low, high, format, content, ..] = bytes else { return Err(UnknownTable::Short(bytes.len())) };
    let size = usize::from(u16::from_le_bytes([low, high]));
    let Some(table) = bytes.get(..size) else { return Err(UnknownTable::Short(bytes.len())) };
    let layout = |energy, residency, limiters| Layout { energy, residency, limiters };
    let layout = match (format, content, size) {
        (1, 2, 104) | (1, 3, 120) if !chip.is_mi200() => return Err(UnknownTable::Chip { format, content }),
        (1, 0 | 1, _) | (2 | 3, _, _) => return Err(UnknownTable::Chip { format, content }),
        (1, 2, 104) | (1, 4, 288) => layout(24, None, None),
        (1, 3, 120) => layout(24, None, Some(112)),
        (1, 5, 360) => layout(88, None, None),
        // Without and with the statistics of the partitions at the end.
        (1, 6, 312 | 1664) => layout(16, Some(32), None),
        (1, 7, 2208) | (1, 8, 3872) => layout(24, Some(40), None),
        (1, 9, _) if chip.is_mi300() => return parse_fields(table),
        _ => return Err(UnknownTable::Revision { format, content, size }),
    };
    Ok(Metrics {
        energy: word(table, layout.energy),
        residency: layout.residency.and_then(|start| {
            let [cycles, processor_hot, power, socket, regulator, memory] =
                [0, 1, 2, 3, 4, 5].map(|place| half(table, start + 4 * place));
            Residency::new(cycles, processor_hot, power, [socket, regulator, memory])
        }),
        limiters: layout.limiters.and_then(|start| word(table, start)),
    })
}

/// Whether the table is from a CPU with graphics.
pub(super) fn is_shared_chip(bytes: &[u8]) -> bool {
    matches!(bytes, [_, _, 2 | 3, _, ..])
}

impl Residency {
    fn new(cycles: Option<u64>, hot: Option<u64>, power: Option<u64>, thermal: [Option<u64>; 3]) -> Option<Self> {
        let [socket, regulator, memory] = thermal;
        Some(Self { cycles: cycles?, processor_hot: hot?, power: power?, thermal: [socket?, regulator?, memory?] })
    }
}

/// Parses revision 1.9: the number of fields, then for each field a word with its id, type and number of values.
fn parse_fields(table: &[u8]) -> Result<Metrics, UnknownTable> {
    const FIELDS: usize = 15;
    let count = half(table, 4).ok_or(UnknownTable::Fields)?;
    let mut rest = table.get(8..).ok_or(UnknownTable::Fields)?;
    let mut found: [Option<u64>; FIELDS] = [None; FIELDS];
    for _ in 0..count {
        let (name, values) = rest.split_first_chunk::<8>().ok_or(UnknownTable::Fields)?;
        let name = u64::from_le_bytes(*name);
        let bits = |shift: u32, width: u32| usize::try_from(name >> shift & ((1 << width) - 1)).unwrap_or(usize::MAX);
        let (many, field, kind) = (bits(0, 10), bits(10, 10), bits(20, 4));
        // The types are pairs of unsigned and signed with 8, 16, 32 and 64 bits.
        let width = if kind < 8 { 1 << (kind / 2) } else { return Err(UnknownTable::Fields) };
        let (values, after) = values.split_at_checked(width * many).ok_or(UnknownTable::Fields)?;
        rest = after;
        if let (Some(place), 1, 0) = (found.get_mut(field), many, kind % 2) {
            *place = number(values);
        }
    }
    if !rest.is_empty() {
        return Err(UnknownTable::Fields);
    }
    let residency = Residency::new(found[9], found[10], found[11], [found[12], found[13], found[14]]);
    Ok(Metrics { energy: found[7], residency, limiters: None })
}

fn word(table: &[u8], start: usize) -> Option<u64> {
    number(table.get(start..start + 8)?)
}

fn half(table: &[u8], start: usize) -> Option<u64> {
    number(table.get(start..start + 4)?)
}

/// An unsigned little-endian number. All ones mean no number.
fn number(bytes: &[u8]) -> Option<u64> {
    let value = bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
    bytes.iter().any(|&byte| byte != u8::MAX).then_some(value)
}

#[cfg(all(test, unix))]
mod tests {
    use super::super::fake::{fields_1_9, table};
    use super::*;

    const MI250X: Chip = Chip(0x7408);
    const MI300X: Chip = Chip(0x74a1);
    const RX_7900: Chip = Chip(0x744c);
    /// 1.2 MJ: half an hour of a busy MI300X.
    const ENERGY: u64 = 1_200_000 << 16;

    fn energy(format: (u8, u8), size: usize, offset: usize, chip: Chip) -> Result<Option<u64>, UnknownTable> {
        parse(&table(format, size, &[(offset, &ENERGY.to_le_bytes())]), chip).map(|metrics| metrics.energy)
    }

    #[test]
    fn every_known_revision_has_energy() {
        for (content, size, offset) in
            [(4, 288, 24), (5, 360, 88), (6, 312, 16), (6, 1664, 16), (7, 2208, 24), (8, 3872, 24)]
        {
            assert_eq!(energy((1, content), size, offset, MI300X), Ok(Some(ENERGY)), "1.{content}");
        }
        assert_eq!(energy((1, 2), 104, 24, MI250X), Ok(Some(ENERGY)));
        assert_eq!(energy((1, 3), 120, 24, MI250X), Ok(Some(ENERGY)));
        assert_eq!(parse(&fields_1_9(ENERGY, [0; 6]), MI300X).map(|metrics| metrics.energy), Ok(Some(ENERGY)));
    }

    #[test]
    fn an_unknown_layout_is_not_guessed() {
        assert_eq!(energy((1, 3), 120, 24, RX_7900), Err(UnknownTable::Chip { format: 1, content: 3 }));
        assert_eq!(energy((2, 2), 128, 24, MI300X), Err(UnknownTable::Chip { format: 2, content: 2 }));
        for (format, size) in [((1, 3), 128), ((1, 6), 384), ((1, 10), 1150), ((4, 0), 512)] {
            let (format, content) = format;
            assert_eq!(
                energy((format, content), size, 24, MI250X),
                Err(UnknownTable::Revision { format, content, size })
            );
        }
        let list = fields_1_9(ENERGY, [0; 6]);
        assert!(matches!(parse(&list, RX_7900), Err(UnknownTable::Revision { content: 9, .. })));
        assert_eq!(parse(&list[..200], MI300X), Err(UnknownTable::Short(200)));
        assert_eq!(parse(b"", MI300X), Err(UnknownTable::Short(0)));
        let mut longer = list.clone();
        longer[4] += 1;
        assert_eq!(parse(&longer, MI300X), Err(UnknownTable::Fields));
        let mut shorter = list;
        shorter[4] -= 1;
        assert_eq!(parse(&shorter, MI300X), Err(UnknownTable::Fields));
    }

    #[test]
    fn all_ones_are_absent() {
        let absent = table((1, 4), 288, &[(24, &[0xff; 8])]);
        assert_eq!(parse(&absent, MI300X), Ok(Metrics::default()));
        let absent = fields_1_9(u64::MAX, [0; 6]);
        assert_eq!(parse(&absent, MI300X).unwrap().energy, None);
    }

    #[test]
    fn residencies_are_read_from_the_revisions_that_have_them() {
        let counted = [55_262_364, 0, 754_247, 1, 2, 3];
        let expected = Residency { cycles: 55_262_364, processor_hot: 0, power: 754_247, thermal: [1, 2, 3] };
        assert_eq!(parse(&fields_1_9(ENERGY, counted), MI300X).unwrap().residency, Some(expected));
        let bytes: Vec<u8> = counted.iter().flat_map(|count| count.to_le_bytes()).collect();
        for (content, size, offset) in [(6, 1664, 32), (7, 2208, 40), (8, 3872, 40)] {
            let table = table((1, content), size, &[(offset, &bytes)]);
            assert_eq!(parse(&table, MI300X).unwrap().residency, Some(expected), "1.{content}");
        }
    }
}
