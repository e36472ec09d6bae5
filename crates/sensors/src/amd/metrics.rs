//! The table `gpu_metrics`, by which the driver hands out what the firmware counts.
//!
//! In go the bytes of the file; out come the energy count, and what held the clocks back, of those revisions whose
//! layout and unit are certain (the kernel's `kgd_pp_interface.h`). What always holds: a table is read only where its
//! revision and its size are both known, and a field of all ones is absent. Everything else is [`Unknown`].
//!
//! | revision | who writes it | energy |
//! |---|---|---|
//! | 1.2, 1.3 | MI200; Radeon cards too | of MI200 in 2^-16 J (`smu13_driver_if_aldebaran.h`); Radeons have a field of 32 bits without a unit, and their drivers stopped filling it in 2026 |
//! | 1.4 to 1.8 | MI300 and later | in 2^-16 J |
//! | 1.9 | the same, as a list of fields that tell their types | in 2^-16 J |
//! | 2.x, 3.x | processors with graphics | none |

use super::card::Chip;

/// How often the kernel asks the firmware at most, with a margin for the firmware's own millisecond: a table is up to
/// 5 ms old (`SMU_GPU_METRICS_CACHE_INTERVAL`).
pub(super) const UPDATE_PERIOD_S: f64 = 0.01;

/// The energy of one count, in joules: 15.259 microjoules.
pub(super) const UNIT_J: f64 = 1.0 / 65536.0;

/// What a table told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Metrics {
    /// The energy count, in [`UNIT_J`].
    pub(super) energy: Option<u64>,
    /// Since when and for how long each limiter held the clocks back.
    pub(super) residency: Option<Residency>,
    /// What holds the clocks back now, in bits that mean the same on every chip.
    pub(super) limiters: Option<u64>,
}

/// How many of the firmware's cycles a limiter was at work, each since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Residency {
    /// All cycles.
    pub(super) cycles: u64,
    /// The signal that the processor is too hot.
    pub(super) processor_hot: u64,
    /// The limit of the package's power.
    pub(super) power: u64,
    /// The temperatures: of the socket, its voltage regulators, its memory.
    pub(super) thermal: [u64; 3],
}

/// Why a table tells nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unknown {
    /// Shorter than its header, or than the header says.
    #[error("gpu_metrics is cut off after {0} bytes")]
    Short(usize),
    /// A revision and size that nobody here knows.
    #[error("gpu_metrics {format}.{content} of {size} bytes is not known here")]
    Revision { format: u8, content: u8, size: usize },
    /// A known revision of a chip whose fields have no documented unit.
    #[error("gpu_metrics {format}.{content} has no energy counter of a known unit on this GPU")]
    Chip { format: u8, content: u8 },
    /// A list of fields that contradicts itself.
    #[error("the list of fields in gpu_metrics 1.9 does not fit its size")]
    Fields,
}

/// Where the fields of a revision are.
struct Layout {
    energy: usize,
    residency: Option<usize>,
    limiters: Option<usize>,
}

/// Reads a table of this chip.
pub(super) fn parse(bytes: &[u8], chip: Chip) -> Result<Metrics, Unknown> {
    let &[low, high, format, content, ..] = bytes else { return Err(Unknown::Short(bytes.len())) };
    let size = usize::from(u16::from_le_bytes([low, high]));
    let Some(table) = bytes.get(..size) else { return Err(Unknown::Short(bytes.len())) };
    let layout = |energy, residency, limiters| Layout { energy, residency, limiters };
    let layout = match (format, content, size) {
        (1, 2, 104) | (1, 3, 120) if !chip.is_mi200() => return Err(Unknown::Chip { format, content }),
        (1, 0 | 1, _) | (2 | 3, _, _) => return Err(Unknown::Chip { format, content }),
        (1, 2, 104) | (1, 4, 288) => layout(24, None, None),
        (1, 3, 120) => layout(24, None, Some(112)),
        (1, 5, 360) => layout(88, None, None),
        // With and without the statistics of the partitions at its end.
        (1, 6, 312 | 1664) => layout(16, Some(32), None),
        (1, 7, 2208) | (1, 8, 3872) => layout(24, Some(40), None),
        (1, 9, _) if chip.is_mi300() => return parse_fields(table),
        _ => return Err(Unknown::Revision { format, content, size }),
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

/// Whether a table of this format is one of processors with graphics.
pub(super) fn is_shared_chip(bytes: &[u8]) -> bool {
    matches!(bytes, [_, _, 2 | 3, _, ..])
}

impl Residency {
    fn new(cycles: Option<u64>, hot: Option<u64>, power: Option<u64>, thermal: [Option<u64>; 3]) -> Option<Self> {
        let [socket, regulator, memory] = thermal;
        Some(Self { cycles: cycles?, processor_hot: hot?, power: power?, thermal: [socket?, regulator?, memory?] })
    }
}

/// Revision 1.9: a count of fields, then for each a word that names it, its type and how many values follow.
fn parse_fields(table: &[u8]) -> Result<Metrics, Unknown> {
    const FIELDS: usize = 15;
    let count = half(table, 4).ok_or(Unknown::Fields)?;
    let mut rest = table.get(8..).ok_or(Unknown::Fields)?;
    let mut found: [Option<u64>; FIELDS] = [None; FIELDS];
    for _ in 0..count {
        let (name, values) = rest.split_first_chunk::<8>().ok_or(Unknown::Fields)?;
        let name = u64::from_le_bytes(*name);
        let bits = |shift: u32, width: u32| usize::try_from(name >> shift & ((1 << width) - 1)).unwrap_or(usize::MAX);
        let (many, field, kind) = (bits(0, 10), bits(10, 10), bits(20, 4));
        // Types are in pairs, without and with a sign: 8, 16, 32 and 64 bits.
        let width = if kind < 8 { 1 << (kind / 2) } else { return Err(Unknown::Fields) };
        let (values, after) = values.split_at_checked(width * many).ok_or(Unknown::Fields)?;
        rest = after;
        if let (Some(place), 1, 0) = (found.get_mut(field), many, kind % 2) {
            *place = number(values);
        }
    }
    if !rest.is_empty() {
        return Err(Unknown::Fields);
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

/// An unsigned number, its low byte first; all ones are no number.
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
    /// 1.2 MJ, two hours of an MI300X at work.
    const ENERGY: u64 = 1_200_000 << 16;

    fn energy(format: (u8, u8), size: usize, offset: usize, chip: Chip) -> Result<Option<u64>, Unknown> {
        parse(&table(format, size, &[(offset, &ENERGY.to_le_bytes())]), chip).map(|metrics| metrics.energy)
    }

    #[test]
    fn every_known_revision_tells_its_energy() {
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
    fn what_is_not_certain_is_not_guessed() {
        assert_eq!(energy((1, 3), 120, 24, RX_7900), Err(Unknown::Chip { format: 1, content: 3 }));
        assert_eq!(energy((2, 2), 128, 24, MI300X), Err(Unknown::Chip { format: 2, content: 2 }));
        for (format, size) in [((1, 3), 128), ((1, 6), 384), ((1, 10), 1150), ((4, 0), 512)] {
            let (format, content) = format;
            assert_eq!(energy((format, content), size, 24, MI250X), Err(Unknown::Revision { format, content, size }));
        }
        let list = fields_1_9(ENERGY, [0; 6]);
        assert!(matches!(parse(&list, RX_7900), Err(Unknown::Revision { content: 9, .. })));
        assert_eq!(parse(&list[..200], MI300X), Err(Unknown::Short(200)));
        assert_eq!(parse(b"", MI300X), Err(Unknown::Short(0)));
        let mut longer = list.clone();
        longer[4] += 1;
        assert_eq!(parse(&longer, MI300X), Err(Unknown::Fields));
        let mut shorter = list;
        shorter[4] -= 1;
        assert_eq!(parse(&shorter, MI300X), Err(Unknown::Fields));
    }

    #[test]
    fn all_ones_are_absent() {
        let absent = table((1, 4), 288, &[(24, &[0xff; 8])]);
        assert_eq!(parse(&absent, MI300X), Ok(Metrics::default()));
        let absent = fields_1_9(u64::MAX, [0; 6]);
        assert_eq!(parse(&absent, MI300X).unwrap().energy, None);
    }

    #[test]
    fn residencies_are_told_by_the_revisions_that_have_them() {
        let counted = [55_262_364, 0, 754_247, 1, 2, 3];
        let told = Residency { cycles: 55_262_364, processor_hot: 0, power: 754_247, thermal: [1, 2, 3] };
        assert_eq!(parse(&fields_1_9(ENERGY, counted), MI300X).unwrap().residency, Some(told));
        let bytes: Vec<u8> = counted.iter().flat_map(|count| count.to_le_bytes()).collect();
        for (content, size, offset) in [(6, 1664, 32), (7, 2208, 40), (8, 3872, 40)] {
            let table = table((1, content), size, &[(offset, &bytes)]);
            assert_eq!(parse(&table, MI300X).unwrap().residency, Some(told), "1.{content}");
        }
    }
}
