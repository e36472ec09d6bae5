//! Samples of `IOReport`'s group "Energy Model", and the channels whose sum is the energy of each component.
//!
//! Only totals are summed, never a total and its parts. Besides the totals, the group lists cores, clusters and caches
//! (`EACC_CPU0`, `PACC0_CPU`, `MCPU0_0_SRAM`, hundreds of `PCPUDTL0a`). A sum over all names that contain `CPU` was 107
//! W for a CPU that drew 36 W (all-smi, M5 Max).
//!
//! The names on M1 to M5, by macmon, zeus-apple-silicon and all-smi: the CPU is `CPU Energy`, or `DIE_0_CPU Energy` and
//! `DIE_1_CPU Energy` on an Ultra. The GPU is `GPU Energy` (in nanojoules), and again `GPU`, `GPU0` or `GPU0_0` (in
//! millijoules). The Neural Engine is `ANE`, `ANE0`, or `ANE0_0` and `ANE0_1`; memory is `DRAM…` in the same way. Not
//! used are the image, video and display engines, the fabric, the memory controllers, `PCIe`, and the GPU's SRAM: it is
//! unknown whether the GPU's total includes it (0.002 W compared to 0.08 W on an M1 Ultra).

use std::io;

use ergometer_telemetry::{DeviceId, Scope};
use serde::{Deserialize, Serialize};

/// The group of the energy counters.
pub(super) const GROUP: &str = "Energy Model";

/// All channels at one time. The test fixtures are lists of samples.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The end of the read, in nanoseconds of the same clock as `published_ns` (`mach_absolute_time`).
    pub now_ns: u64,
    /// The channels.
    pub channels: Vec<Entry>,
}

/// One channel in a sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The group: `Energy Model`.
    pub group: String,
    /// The subgroup, which is empty for energy.
    pub subgroup: String,
    /// The name, such as `CPU Energy`.
    pub name: String,
    /// The unit: `mJ`, `uJ` or `nJ`. One machine can have all three.
    pub unit: String,
    /// The energy since the system started, in this unit.
    pub value: i64,
    /// When the driver last updated the value, if it reports that.
    #[serde(default)]
    pub published_ns: Option<u64>,
}

/// A source of samples.
pub trait ReadSample: Send {
    /// Reads all channels once.
    fn read(&mut self) -> io::Result<Sample>;
}

/// A component of the chip with an energy counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Component {
    /// The CPU clusters with their caches, without the rest of the chip.
    Cpu,
    Dram,
    Gpu,
    NeuralEngine,
}

impl Component {
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

    /// The display name.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Cpu => "the CPU clusters",
            Self::Dram => "DRAM",
            Self::Gpu => "the GPU",
            Self::NeuralEngine => "the Neural Engine",
        }
    }

    /// Whether its energy always grows while this program runs. GPU and Neural Engine may draw exactly nothing.
    pub(super) fn is_always_active(self) -> bool {
        matches!(self, Self::Cpu | Self::Dram)
    }
}

/// The component of a channel, and its level: the channels of one level are summed, and the lowest existing level is
/// used. `None` for a name that is not a known total.
fn classify(name: &str) -> Option<(Component, u8)> {
    let is_die =
        |name: &str| name.strip_prefix("DIE_").and_then(|rest| rest.strip_suffix("_CPU Energy")).is_some_and(is_number);
    match name {
        "CPU Energy" => Some((Component::Cpu, 0)),
        "GPU Energy" => Some((Component::Gpu, 0)),
        name if is_die(name) => Some((Component::Cpu, 1)),
        name => {
            let blocks = [("ANE", Component::NeuralEngine), ("DRAM", Component::Dram), ("GPU", Component::Gpu)];
            blocks.into_iter().find_map(|(block, component)| {
                let level = match name.strip_prefix(block)?.split_once('_') {
                    None if name == block => 1,
                    None => is_number(&name[block.len()..]).then_some(2)?,
                    Some((unit, die)) => (is_number(unit) && is_number(die)).then_some(3)?,
                };
                Some((component, level))
            })
        }
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a channel may be a total. A subscription to these only has a handful of several hundred channels.
pub(super) fn is_total(name: &str) -> bool {
    classify(name).is_some()
}

/// The channels whose sum is the energy of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ComponentChannels {
    pub(super) component: Component,
    pub(super) names: Vec<String>,
}

/// Finds the channels of each component: the lowest level with known units and without duplicate names (one of two
/// channels with the same name may be a copy). A component without such a level is skipped.
pub(super) fn find_totals(sample: &Sample) -> Vec<ComponentChannels> {
    let classified: Vec<(&Entry, Component, u8)> = sample
        .channels
        .iter()
        .filter(|entry| entry.group == GROUP)
        .filter_map(|entry| classify(&entry.name).map(|(component, level)| (entry, component, level)))
        .collect();
    let at = |component: Component, level: u8| {
        let entries =
            || classified.iter().filter(move |found| (found.1, found.2) == (component, level)).map(|found| found.0);
        let mut names: Vec<String> = entries().map(|entry| entry.name.clone()).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        let usable =
            count > 0 && names.len() == count && entries().all(|entry| nanojoules_per_count(&entry.unit).is_some());
        usable.then_some(ComponentChannels { component, names })
    };
    Component::ALL.into_iter().filter_map(|component| (0..=3).find_map(|level| at(component, level))).collect()
}

/// The energy of a channel in nanojoules, the smallest unit. A `u64` of nanojoules holds 1.8e10 J. The error describes
/// an invalid value.
pub(super) fn nanojoules(entry: &Entry) -> Result<u64, String> {
    let Some(factor) = nanojoules_per_count(&entry.unit) else {
        return Err(format!("`{}` is in `{}`, which is not a known unit of energy", entry.name, entry.unit));
    };
    let count = u64::try_from(entry.value).ok().and_then(|count| count.checked_mul(factor));
    count.ok_or_else(|| format!("`{}` is {} {}, which is not a valid energy", entry.name, entry.value, entry.unit))
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

    fn totals(channels: &[(&str, &str)]) -> Vec<(Component, Vec<String>)> {
        find_totals(&sample(channels)).into_iter().map(|total| (total.component, total.names)).collect()
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn totals_of_one_die_exclude_their_parts() {
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
            (Component::Cpu, names(&["CPU Energy"])),
            (Component::Dram, names(&["DRAM0"])),
            (Component::Gpu, names(&["GPU Energy"])),
            (Component::NeuralEngine, names(&["ANE0"])),
        ];
        assert_eq!(totals(&chip), expected);
    }

    #[test]
    fn two_dies_of_an_ultra_are_summed() {
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
            (Component::Cpu, names(&["DIE_0_CPU Energy", "DIE_1_CPU Energy"])),
            (Component::Dram, names(&["DRAM0_0", "DRAM0_1"])),
            (Component::Gpu, names(&["GPU Energy"])),
            (Component::NeuralEngine, names(&["ANE0_0", "ANE0_1"])),
        ];
        assert_eq!(totals(&chip), expected);
    }

    #[test]
    fn a_total_and_its_dies_are_never_both_counted() {
        let chip = [("DIE_0_CPU Energy", "mJ"), ("CPU Energy", "mJ"), ("ANE0_0", "mJ"), ("ANE", "mJ"), ("ANE0", "mJ")];
        let expected = [(Component::Cpu, names(&["CPU Energy"])), (Component::NeuralEngine, names(&["ANE"]))];
        assert_eq!(totals(&chip), expected);
    }

    #[test]
    fn a_level_with_an_unknown_unit_or_a_duplicate_name_is_skipped() {
        assert_eq!(totals(&[("GPU Energy", "events"), ("GPU0", "mJ")]), [(Component::Gpu, names(&["GPU0"]))]);
        assert_eq!(totals(&[("DRAM0", "mJ"), ("DRAM0", "mJ")]), []);
        assert_eq!(totals(&[("DIE_0_CPU Energy", "mJ"), ("DIE_1_CPU Energy", "")]), [], "half a CPU is not a CPU");
    }

    #[test]
    fn names_that_are_not_totals_and_other_groups_are_skipped() {
        let odd = ["", "_", "ANE_", "ANE0_", "ANE_0", "ANE0_0_1", "ANE٣", "DIE__CPU Energy", "DIE_x_CPU Energy"];
        for name in odd.into_iter().chain(["DIE_0_GPU Energy", "GPU\u{fffd}", "XCPU Energy", "CPU Energy ", "GPUPH"]) {
            assert!(!is_total(name), "{name:?}");
        }
        let mut other = sample(&[("CPU Energy", "mJ")]);
        "CPU Stats".clone_into(&mut other.channels[0].group);
        assert_eq!(find_totals(&other), []);
    }

    #[test]
    fn energies_are_converted_to_nanojoules() {
        let energy = |unit: &str, value: i64| {
            let mut entry = sample(&[("GPU Energy", unit)]).channels.remove(0);
            entry.value = value;
            nanojoules(&entry)
        };
        assert_eq!(energy("mJ", 149_863_636), Ok(149_863_636_000_000));
        assert_eq!(
            (energy("uJ", 7), energy("µJ", 7), energy("nJ ", 7), energy("J", 7)),
            (Ok(7_000), Ok(7_000), Ok(7), Ok(7_000_000_000))
        );
        assert!(energy("kWh", 1).unwrap_err().contains("`kWh`"));
        // IOReport returns this for a channel that it cannot read.
        assert!(energy("mJ", i64::MIN).unwrap_err().contains("not a valid energy"));
        assert!(energy("mJ", i64::MAX).is_err(), "more than a u64 of nanojoules");
    }
}
