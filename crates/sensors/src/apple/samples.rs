//! A sample of `IOReport`'s group "Energy Model" as plain data, and which of its channels are whose energy.
//!
//! In go the names and units of channels; out comes for each part of the chip the channels whose sum is its energy.
//! What always holds: totals only, never a total and what it contains. The group lists cores, clusters and caches
//! (`EACC_CPU0`, `PACC0_CPU`, `MCPU0_0_SRAM`, hundreds of `PCPUDTL0a`) beside the totals; summed by a part of their
//! name they gave 107 W for a CPU that drew 36 W (all-smi, M5 Max).
//!
//! The names, as macmon, zeus-apple-silicon and all-smi have them of M1 to M5: the CPU is `CPU Energy`, on an Ultra
//! `DIE_0_CPU Energy` and `DIE_1_CPU Energy`; the GPU is `GPU Energy` (in nanojoules), and once more in millijoules
//! `GPU`, `GPU0` or `GPU0_0`; the Neural Engine `ANE`, `ANE0`, or `ANE0_0` and `ANE0_1`; memory likewise `DRAM…`. Left
//! out are the image, video and display engines, the fabric, memory controllers, `PCIe`, and the GPU's SRAM, of which
//! nobody knows whether the GPU's total holds it (0.002 W beside 0.08 W on an M1 Ultra).

use std::io;

use serde::{Deserialize, Serialize};

use ergometer_telemetry::{DeviceId, Scope};

/// The group of the energy counters.
pub(super) const GROUP: &str = "Energy Model";

/// All channels, read at one time. The fixtures of the tests are lists of these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The end of the read, in nanoseconds of the clock that `published_ns` is of (`mach_absolute_time`).
    pub now_ns: u64,
    /// The channels.
    pub channels: Vec<Entry>,
}

/// One channel in a sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// `Energy Model`.
    pub group: String,
    /// Empty for energy.
    pub subgroup: String,
    /// `CPU Energy`.
    pub name: String,
    /// `mJ`, `uJ` or `nJ`; one machine has all three.
    pub unit: String,
    /// The count since the system started, in that unit.
    pub value: i64,
    /// When the driver last wrote the value; `None` where it does not say.
    #[serde(default)]
    pub published_ns: Option<u64>,
}

/// A source of samples.
pub trait ReadSample: Send {
    /// Reads all channels once.
    fn read(&mut self) -> io::Result<Sample>;
}

/// A part of the chip whose energy is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// The CPU's clusters with their caches, not what else is on the chip.
    Cpu,
    Dram,
    Gpu,
    NeuralEngine,
}

impl Part {
    pub(super) const ALL: [Self; 4] = [Self::Cpu, Self::Dram, Self::Gpu, Self::NeuralEngine];

    pub(super) fn device(self, first_gpu: u32) -> DeviceId {
        match self {
            Self::Cpu | Self::Dram => DeviceId::cpu(0),
            Self::Gpu => DeviceId::gpu(first_gpu),
            Self::NeuralEngine => DeviceId::npu(0),
        }
    }

    pub(super) fn scope(self) -> Scope {
        match self {
            Self::Cpu => Scope::Package,
            Self::Dram => Scope::Dram,
            Self::Gpu | Self::NeuralEngine => Scope::Device,
        }
    }

    /// For people.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Cpu => "the CPU clusters",
            Self::Dram => "DRAM",
            Self::Gpu => "the GPU",
            Self::NeuralEngine => "the Neural Engine",
        }
    }

    /// Whether its energy grows as long as this program runs. GPU and Neural Engine may rest at exactly nothing.
    pub(super) fn never_rests(self) -> bool {
        matches!(self, Self::Cpu | Self::Dram)
    }
}

/// The part a channel is of, and how far from its total: names of one level are summed, and the lowest level that is
/// there is taken. `None` for every name that is not known to be a total.
fn place(name: &str) -> Option<(Part, u8)> {
    let of_die =
        |name: &str| name.strip_prefix("DIE_").and_then(|rest| rest.strip_suffix("_CPU Energy")).is_some_and(is_number);
    match name {
        "CPU Energy" => Some((Part::Cpu, 0)),
        "GPU Energy" => Some((Part::Gpu, 0)),
        name if of_die(name) => Some((Part::Cpu, 1)),
        name => {
            let blocks = [("ANE", Part::NeuralEngine), ("DRAM", Part::Dram), ("GPU", Part::Gpu)];
            blocks.into_iter().find_map(|(block, part)| {
                let level = match name.strip_prefix(block)?.split_once('_') {
                    None if name == block => 1,
                    None => is_number(&name[block.len()..]).then_some(2)?,
                    Some((unit, die)) => (is_number(unit) && is_number(die)).then_some(3)?,
                };
                Some((part, level))
            })
        }
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a channel can be of use: who subscribes to these alone reads a handful of several hundred.
pub(super) fn is_total(name: &str) -> bool {
    place(name).is_some()
}

/// The channels whose sum is the energy of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) part: Part,
    pub(super) names: Vec<String>,
}

/// Chooses for each part the lowest level at which every unit is known and no name comes twice (of two that are called
/// alike nobody can say whether one repeats the other). A part without one is left out.
pub(super) fn choose(sample: &Sample) -> Vec<Choice> {
    let placed: Vec<(&Entry, Part, u8)> = sample
        .channels
        .iter()
        .filter(|entry| entry.group == GROUP)
        .filter_map(|entry| place(&entry.name).map(|(part, level)| (entry, part, level)))
        .collect();
    let at = |part: Part, level: u8| {
        let entries = || placed.iter().filter(move |found| (found.1, found.2) == (part, level)).map(|found| found.0);
        let mut names: Vec<String> = entries().map(|entry| entry.name.clone()).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        let usable =
            count > 0 && names.len() == count && entries().all(|entry| nanojoules_per_count(&entry.unit).is_some());
        usable.then_some(Choice { part, names })
    };
    Part::ALL.into_iter().filter_map(|part| (0..=3).find_map(|level| at(part, level))).collect()
}

/// The energy of a channel in nanojoules, the finest unit there is; a u64 of them holds 1.8e10 J. The error says what
/// is wrong with it.
pub(super) fn nanojoules(entry: &Entry) -> Result<u64, String> {
    let Some(factor) = nanojoules_per_count(&entry.unit) else {
        return Err(format!("`{}` is in `{}`, which is no unit of energy known here", entry.name, entry.unit));
    };
    let count = u64::try_from(entry.value).ok().and_then(|count| count.checked_mul(factor));
    count.ok_or_else(|| format!("`{}` is {} {}, which is no count of energy", entry.name, entry.value, entry.unit))
}

fn nanojoules_per_count(unit: &str) -> Option<u64> {
    match unit.trim() {
        "nJ" => Some(1),
        "uJ" | "µJ" | "μJ" => Some(1_000),
        "mJ" => Some(1_000_000),
        "J" => Some(1_000_000_000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(channels: &[(&str, &str)]) -> Sample {
        let entry = |&(name, unit): &(&str, &str)| Entry {
            group: GROUP.to_owned(),
            subgroup: String::new(),
            name: name.to_owned(),
            unit: unit.to_owned(),
            value: 1,
            published_ns: None,
        };
        Sample { now_ns: 0, channels: channels.iter().map(entry).collect() }
    }

    fn chosen(channels: &[(&str, &str)]) -> Vec<(Part, Vec<String>)> {
        choose(&sample(channels)).into_iter().map(|choice| (choice.part, choice.names)).collect()
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn one_die_has_its_totals_and_none_of_their_parts() {
        let chip = [
            ("EACC_CPU0", "mJ"),
            ("EACC_CPU", "mJ"),
            ("PACC0_CPU", "mJ"),
            ("PACC_0", "mJ"),
            ("MCPU0", "mJ"),
            ("PCPUDTL0a", "mJ"),
            ("CPU Energy", "mJ"),
            ("GPU0", "mJ"),
            ("GPU SRAM0", "mJ"),
            ("GPU CS0", "mJ"),
            ("ANE0", "mJ"),
            ("ANE0_SRAM", "mJ"),
            ("ISP0", "mJ"),
            ("AVE0", "mJ"),
            ("DCS0", "mJ"),
            ("AMCC0", "mJ"),
            ("DRAM0", "mJ"),
            ("DISP0", "mJ"),
            ("PCIe Port 0 Energy", "uJ"),
            ("apciec0 Energy", "uJ"),
            ("GPU Energy", "nJ"),
        ];
        let expected = [
            (Part::Cpu, names(&["CPU Energy"])),
            (Part::Dram, names(&["DRAM0"])),
            (Part::Gpu, names(&["GPU Energy"])),
            (Part::NeuralEngine, names(&["ANE0"])),
        ];
        assert_eq!(chosen(&chip), expected);
    }

    #[test]
    fn an_ultra_has_two_dies_and_they_are_summed() {
        let chip = [
            ("DIE_0_EACC_CPU", "mJ"),
            ("DIE_0_CPU Energy", "mJ"),
            ("DIE_1_CPU Energy", "mJ"),
            ("GPU0_0", "mJ"),
            ("ANE0_0", "mJ"),
            ("ANE0_1", "mJ"),
            ("DRAM0_0", "mJ"),
            ("DRAM0_1", "mJ"),
            ("GPU Energy", "nJ"),
        ];
        let expected = [
            (Part::Cpu, names(&["DIE_0_CPU Energy", "DIE_1_CPU Energy"])),
            (Part::Dram, names(&["DRAM0_0", "DRAM0_1"])),
            (Part::Gpu, names(&["GPU Energy"])),
            (Part::NeuralEngine, names(&["ANE0_0", "ANE0_1"])),
        ];
        assert_eq!(chosen(&chip), expected);
    }

    #[test]
    fn a_total_and_its_dies_are_never_both_counted() {
        let chip = [("DIE_0_CPU Energy", "mJ"), ("CPU Energy", "mJ"), ("ANE0_0", "mJ"), ("ANE", "mJ"), ("ANE0", "mJ")];
        let expected = [(Part::Cpu, names(&["CPU Energy"])), (Part::NeuralEngine, names(&["ANE"]))];
        assert_eq!(chosen(&chip), expected);
    }

    #[test]
    fn a_unit_that_is_unknown_or_a_name_that_comes_twice_rules_out_its_level() {
        assert_eq!(chosen(&[("GPU Energy", "events"), ("GPU0", "mJ")]), [(Part::Gpu, names(&["GPU0"]))]);
        assert_eq!(chosen(&[("DRAM0", "mJ"), ("DRAM0", "mJ")]), []);
        assert_eq!(chosen(&[("DIE_0_CPU Energy", "mJ"), ("DIE_1_CPU Energy", "")]), [], "half a CPU is none");
    }

    #[test]
    fn names_that_are_no_totals_are_left_out_and_so_is_another_group() {
        let odd = ["", "_", "ANE_", "ANE0_", "ANE_0", "ANE0_0_1", "ANE٣", "DIE__CPU Energy", "DIE_x_CPU Energy"];
        for name in odd.into_iter().chain(["DIE_0_GPU Energy", "GPU\u{fffd}", "XCPU Energy", "CPU Energy ", "GPUPH"]) {
            assert!(!is_total(name), "{name:?}");
        }
        let mut other = sample(&[("CPU Energy", "mJ")]);
        "CPU Stats".clone_into(&mut other.channels[0].group);
        assert_eq!(choose(&other), []);
    }

    #[test]
    fn counts_come_out_in_nanojoules() {
        let of = |unit: &str, value: i64| {
            let mut entry = sample(&[("GPU Energy", unit)]).channels.remove(0);
            entry.value = value;
            nanojoules(&entry)
        };
        assert_eq!(of("mJ", 149_863_636), Ok(149_863_636_000_000));
        assert_eq!(
            (of("uJ", 7), of("µJ", 7), of("nJ ", 7), of("J", 7)),
            (Ok(7_000), Ok(7_000), Ok(7), Ok(7_000_000_000))
        );
        assert!(of("kWh", 1).unwrap_err().contains("`kWh`"));
        // What IOReport answers for a channel it cannot read.
        assert!(of("mJ", i64::MIN).unwrap_err().contains("no count"));
        assert!(of("mJ", i64::MAX).is_err(), "more than a u64 of nanojoules");
    }
}
