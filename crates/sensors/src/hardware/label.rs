//! Builds the label of a machine for names of runs, such as `H200x8`, from the names of its GPUs and CPU.
//!
//! A label is never empty, holds ASCII letters, digits and `_` only, and has at most 40 characters.

use super::name::DeviceName;

/// The label of a machine whose devices have no names.
pub const UNKNOWN_HARDWARE: &str = "UNKNOWN_HW";

/// The longest label, in characters. It is one of four parts of a folder name.
const LONGEST: usize = 40;

/// The label of a machine: its GPUs, most common first, with their counts; without GPUs, its CPU.
///
/// A GPU with only a known product line (`Quadro`) is less specific than the CPU, so it is used only without a CPU
/// name.
///
/// ```
/// # use ergometer_sensors::hardware::hardware_label;
/// assert_eq!(hardware_label(&["NVIDIA H200"; 8], None), "H200x8");
/// assert_eq!(hardware_label(&[], Some("AMD EPYC 9654 96-Core Processor")), "EPYC9654");
/// ```
#[must_use]
pub fn hardware_label(gpu_names: &[&str], cpu_brand: Option<&str>) -> String {
    let gpus: Vec<DeviceName> = gpu_names.iter().map(|name| DeviceName::parse(name)).collect();
    let cpu = cpu_brand.map(|brand| DeviceName::parse(brand).short).unwrap_or_default();
    let labels = [
        count_up(gpus.iter().filter(|gpu| !gpu.is_only_brand)),
        cut(&cpu, LONGEST).to_owned(),
        count_up(gpus.iter()),
        UNKNOWN_HARDWARE.to_owned(),
    ];
    labels.into_iter().find(|label| !label.is_empty()).unwrap_or_default()
}

/// Short names with their counts, most common first, then in order of appearance: `H200x4_A100x2`. The rarest are left
/// out if the label would be too long.
fn count_up<'a>(devices: impl Iterator<Item = &'a DeviceName>) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for device in devices.filter(|device| !device.short.is_empty()) {
        match counts.iter_mut().find(|(short, _)| *short == device.short) {
            Some((_, count)) => *count += 1,
            None => counts.push((&device.short, 1)),
        }
    }
    counts.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    let mut label = String::new();
    for (short, count) in counts {
        let times = if count > 1 { format!("x{count}") } else { String::new() };
        if label.is_empty() {
            label = format!("{}{times}", cut(short, LONGEST - times.len()));
        } else if label.len() + 1 + short.len() + times.len() <= LONGEST {
            label = format!("{label}_{short}{times}");
        } else {
            break;
        }
    }
    label
}

/// The first characters of a short name, which is ASCII.
fn cut(short: &str, longest: usize) -> &str {
    short.get(..longest).unwrap_or(short)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The table of labels in the description of the record.
    #[test]
    fn documented_labels_are_stable() {
        for (gpu, cpu, expected) in [
            ("NVIDIA H200", "", "H200"),
            ("NVIDIA H100 80GB HBM3", "", "H100"),
            ("NVIDIA GeForce RTX 4090", "", "RTX4090"),
            ("nvidia rtx 3090", "", "RTX3090"),
            ("NVIDIA A100-SXM4-80GB", "", "A100SXM4"),
            ("Tesla V100-SXM2-16GB", "", "V100SXM2"),
            ("AMD Instinct MI300X", "", "MI300X"),
            ("AMD Radeon RX 7900 XTX", "", "RX7900XTX"),
            ("NVIDIA GH200 480GB", "", "GH200"),
            ("Apple M3 Pro", "Apple M3 Pro", "M3"),
            ("Quadro", "Intel Core i9", "I9"),
            ("", "Apple M2 Max", "M2"),
            ("", "Intel(R) Xeon(R) Platinum 8480C", "8480C"),
            ("", "AMD EPYC 9654 96-Core Processor", "EPYC9654"),
            ("", "Intel(R) Core(TM) i9-13900K", "I913900K"),
            ("", "AMD Ryzen 9 7950X 16-Core Processor", "7950X"),
            ("", "Intel(R) Xeon(R) Processor", "XEON"),
            ("", "", "UNKNOWN_HW"),
        ] {
            assert_eq!(hardware_label(&[gpu], Some(cpu)), expected, "{gpu}|{cpu}");
        }
        assert_eq!(hardware_label(&["NVIDIA H200"; 8], None), "H200x8");
        assert_eq!(hardware_label(&[], None), "UNKNOWN_HW");
    }

    #[test]
    fn other_gpus_get_sensible_labels() {
        for (gpu, expected) in [
            ("NVIDIA L4", "L4"),
            ("NVIDIA L40S", "L40S"),
            ("NVIDIA B200", "B200"),
            ("NVIDIA A10G", "A10G"),
            ("NVIDIA A100 80GB PCIe", "A100PCIE"),
            ("NVIDIA A100-PCIE-40GB", "A100PCIE"),
            ("NVIDIA H100 PCIe", "H100PCIE"),
            ("NVIDIA H100 NVL", "H100NVL"),
            ("NVIDIA RTX 6000 Ada Generation", "RTX6000ADA"),
            ("Quadro RTX 6000", "RTX6000"),
            ("NVIDIA RTX A6000", "A6000"),
            ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTXPRO6000BLACKWELL"),
            ("NVIDIA GeForce RTX 4060 Ti", "RTX4060TI"),
            ("NVIDIA GeForce RTX 4090 Laptop GPU", "RTX4090LAPTOP"),
            ("NVIDIA GeForce GTX 1080 Ti", "GTX1080TI"),
            ("NVIDIA TITAN V", "TITANV"),
            ("GeForce 210", "GEFORCE210"),
            ("Tesla T4", "T4"),
            ("Quadro", "QUADRO"),
            ("AMD Instinct MI250X", "MI250X"),
            ("AMD Radeon RX 7900 XTX (RADV NAVI31)", "RX7900XTX"),
            ("Intel(R) Data Center GPU Max 1550", "MAX1550"),
            ("Intel(R) Arc(TM) A770 Graphics", "A770"),
            ("Intel(R) UHD Graphics 630", "UHD630"),
            ("Orin (nvgpu)", "ORIN"),
            ("NVIDIA Graphics Device", "UNKNOWN_HW"),
            ("グラフィックス", "UNKNOWN_HW"),
            ("--- (R) @!", "UNKNOWN_HW"),
            ("   ", "UNKNOWN_HW"),
        ] {
            assert_eq!(hardware_label(&[gpu], None), expected, "{gpu}");
        }
    }

    #[test]
    fn other_cpus_get_sensible_labels() {
        for (cpu, expected) in [
            ("Intel(R) Xeon(R) CPU E5-2690 v4 @ 2.60GHz", "E52690V4"),
            ("Intel(R) Xeon(R) CPU @ 2.20GHz", "XEON"),
            ("Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz", "XEON6230"),
            ("Intel(R) Xeon(R) Platinum 8480+", "XEON8480"),
            ("Intel(R) Core(TM) Ultra 7 155H", "155H"),
            ("12th Gen Intel(R) Core(TM) i7-12700H", "I712700H"),
            ("AMD Ryzen Threadripper PRO 5995WX 64-Cores", "5995WX"),
            ("AMD Ryzen 7 PRO 4750U with Radeon Graphics", "4750U"),
            ("AMD Ryzen 9", "RYZEN9"),
            ("AMD FX(tm)-8350 Eight-Core Processor", "FX8350"),
            ("AMD EPYC 7763 64-Core Processor", "EPYC7763"),
            ("Neoverse-N1", "NEOVERSEN1"),
            ("Ampere(R) Altra(R) Processor", "ALTRA"),
            ("Apple M1 Ultra", "M1"),
            ("Apple processor", "UNKNOWN_HW"),
        ] {
            assert_eq!(hardware_label(&[], Some(cpu)), expected, "{cpu}");
        }
    }

    #[test]
    fn gpus_of_several_kinds_are_counted_most_common_first() {
        let mixed = ["NVIDIA A100-PCIE-40GB", "NVIDIA H200", "NVIDIA A100 80GB PCIe", "NVIDIA H200", "NVIDIA H200"];
        assert_eq!(hardware_label(&mixed, None), "H200x3_A100PCIEx2");
        assert_eq!(hardware_label(&["NVIDIA L4", "Tesla T4"], None), "L4_T4");
        assert_eq!(hardware_label(&["Quadro", "NVIDIA L4", ""], Some("Apple M1")), "L4");
        let long = ["AB1".repeat(20), "AB1".repeat(20), "CD2".repeat(4)];
        let label = hardware_label(&long.each_ref().map(String::as_str), None);
        assert!(label.len() == 40 && label.ends_with("x2"), "{label}");
    }

    proptest! {
        #[test]
        fn a_label_is_always_a_safe_name(gpus in prop::collection::vec(".{0,60}", 0..5), cpu in prop::option::of(".*")) {
            let names: Vec<&str> = gpus.iter().map(String::as_str).collect();
            let label = hardware_label(&names, cpu.as_deref());
            prop_assert!((1..=40).contains(&label.len()), "{}", label);
            prop_assert!(label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{}", label);
            prop_assert!(!label.starts_with('_') && !label.ends_with('_'), "{}", label);
        }

        #[test]
        fn names_made_of_usual_words_are_safe_too(words in prop::collection::vec(prop::sample::select(vec![
            "NVIDIA", "RTX", "4090", "Ti", "(R)", "@ 2GHz", "80GB", "-", "9", "16-Core", "Pro", "Quadro", "é", "/"]), 0..9))
        {
            let label = hardware_label(&[&words.join(" ")], Some(&words.concat()));
            prop_assert!((1..=40).contains(&label.len()), "{}", label);
        }
    }
}
