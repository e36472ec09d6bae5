//! A table of the peak performance of accelerators, looked up by the name of the device.
//!
//! Peaks are dense (data sheets often print twice that, with sparsity), for one device, at boost clock. A device or
//! variant that is not in the table (a laptop GPU, a slice of a GPU) has no peak, because a wrong peak would make every
//! utilization wrong.

use super::name::DeviceName;

/// The peaks of one accelerator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Peak {
    /// The common name of the accelerator.
    pub name: &'static str,
    /// bf16 in the tensor cores, in FLOP/s; `None` if unsupported.
    pub bf16_flop_per_s: Option<f64>,
    /// fp16 in the tensor cores with fp32 sums, in FLOP/s.
    pub fp16_flop_per_s: f64,
    /// fp32 outside the tensor cores, in FLOP/s.
    pub fp32_flop_per_s: f64,
    /// The bandwidth of its memory, in bytes/s.
    pub memory_bytes_per_s: f64,
}

/// A row of the table: the short names it matches, and the memory if variants differ by it.
struct Row {
    maker: &'static str,
    short: &'static [&'static str],
    memory_gb: Option<u32>,
    peak: Peak,
}

const TERA: f64 = 1e12;

/// A row from the figures of a data sheet: bf16 and fp16, fp32, memory.
const fn row(
    (name, short, memory_gb): (&'static str, &'static [&'static str], Option<u32>),
    half_tflops: f64,
    fp32_tflops: f64,
    memory_tbytes_per_s: f64,
) -> Row {
    Row {
        maker: "nvidia",
        short,
        memory_gb,
        peak: Peak {
            name,
            bf16_flop_per_s: Some(half_tflops * TERA),
            fp16_flop_per_s: half_tflops * TERA,
            fp32_flop_per_s: fp32_tflops * TERA,
            memory_bytes_per_s: memory_tbytes_per_s * TERA,
        },
    }
}

impl Row {
    const fn amd(mut self) -> Self {
        self.maker = "amd";
        self
    }

    const fn without_bf16(mut self) -> Self {
        self.peak.bf16_flop_per_s = None;
        self
    }
}

const ROWS: &[Row] = &[
    // NVIDIA Blackwell data sheet (HGX B200, per GPU): 4.5 PFLOPS with sparsity.
    row(("B200", &["B200"], None), 2250.0, 75.0, 7.7),
    // NVIDIA H200 data sheet (SXM; NVL): 1,979 and 1,671 TFLOPS with sparsity.
    row(("H200 SXM", &["H200", "H200SXM", "H200SXM5"], None), 989.5, 67.0, 4.8),
    row(("H200 NVL", &["H200NVL"], None), 835.5, 60.0, 4.8),
    // NVIDIA GH200 data sheet: 1,979 TFLOPS with sparsity; 96 GB of HBM3 (its name has the CPU's 480 GB) or 144 of
    // HBM3e.
    row(("GH200 96GB", &["GH200"], Some(480)), 989.5, 67.0, 4.0),
    row(("GH200 144GB", &["GH200"], Some(144)), 989.5, 67.0, 4.9),
    // NVIDIA H100 data sheet (SXM; PCIe; NVL, per GPU): 1,979, 1,513 and 1,671 TFLOPS with sparsity. The driver calls
    // the SXM module "H100 80GB HBM3".
    row(("H100 SXM", &["H100", "H100SXM", "H100SXM5"], None), 989.5, 67.0, 3.35),
    row(("H100 PCIe", &["H100PCIE"], None), 756.5, 51.0, 2.0),
    row(("H100 NVL", &["H100NVL"], None), 835.5, 60.0, 3.9),
    // NVIDIA A100 data sheets (40 GB; 80 GB).
    row(("A100 SXM 40GB", &["A100SXM4", "A100SXM"], Some(40)), 312.0, 19.5, 1.555),
    row(("A100 SXM 80GB", &["A100SXM4", "A100SXM"], Some(80)), 312.0, 19.5, 2.039),
    row(("A100 PCIe 40GB", &["A100PCIE"], Some(40)), 312.0, 19.5, 1.555),
    row(("A100 PCIe 80GB", &["A100PCIE"], Some(80)), 312.0, 19.5, 1.935),
    // NVIDIA V100 data sheet (SXM2; PCIe; V100S).
    row(("V100 SXM2", &["V100SXM2"], None), 125.0, 15.7, 0.9).without_bf16(),
    row(("V100 PCIe", &["V100PCIE"], None), 112.0, 14.0, 0.9).without_bf16(),
    row(("V100S PCIe", &["V100SPCIE"], None), 130.0, 16.4, 1.134).without_bf16(),
    // NVIDIA L4 data sheet: 242 TFLOPS with sparsity. NVIDIA L40S data sheet: 362.05 dense.
    row(("L4", &["L4"], None), 121.0, 30.3, 0.3),
    row(("L40S", &["L40S"], None), 362.05, 91.6, 0.864),
    // NVIDIA A10 data sheet; NVIDIA A10G data sheet (the one in clouds): its tensor cores run at half the rate.
    row(("A10", &["A10"], None), 125.0, 31.2, 0.6),
    row(("A10G", &["A10G"], None), 70.0, 31.52, 0.6),
    // NVIDIA T4 data sheet.
    row(("T4", &["T4"], None), 65.0, 8.1, 0.32).without_bf16(),
    // NVIDIA architecture white papers (GA102; Ada; RTX Blackwell), at fp32 sums, which on these halve the rate.
    row(("RTX 3090", &["RTX3090"], None), 71.0, 35.6, 0.936),
    row(("RTX 4090", &["RTX4090"], None), 165.2, 82.6, 1.008),
    row(("RTX 5090", &["RTX5090"], None), 209.5, 104.8, 1.792),
    // AMD Instinct MI250X data sheet: the whole module. Its two dies are separate devices, each with half of these
    // values.
    row(("MI250X", &["MI250X"], None), 383.0, 47.9, 3.2768).amd(),
    // AMD Instinct MI300X and MI325X data sheets.
    row(("MI300X", &["MI300X"], None), 1307.4, 163.4, 5.3).amd(),
    row(("MI325X", &["MI325X"], None), 1307.4, 163.4, 6.0).amd(),
];

/// The peaks of a device by its name in the driver. `None` if the device or its variant is unknown: `A100-SXM4` without
/// its memory size has one of two bandwidths.
///
/// ```
/// # use ergometer_sensors::hardware::peak_of;
/// assert_eq!(peak_of("NVIDIA H100 80GB HBM3").unwrap().name, "H100 SXM");
/// assert_eq!(peak_of("NVIDIA H100 PCIe").unwrap().memory_bytes_per_s, 2e12);
/// assert_eq!(peak_of("NVIDIA GeForce RTX 4090 Laptop GPU"), None);
/// ```
#[must_use]
pub fn peak_of(name: &str) -> Option<Peak> {
    let device = DeviceName::parse(name);
    let is_it = |row: &&Row| {
        row.short.contains(&device.short.as_str())
            && (row.memory_gb.is_none() || row.memory_gb == device.memory_gb)
            && device.maker.as_deref().is_none_or(|maker| maker == row.maker)
    };
    ROWS.iter().find(is_it).map(|row| row.peak)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_found_by_the_names_their_drivers_give() {
        for (name, expected) in [
            ("NVIDIA B200", "B200"),
            ("NVIDIA H200", "H200 SXM"),
            ("NVIDIA H200 NVL", "H200 NVL"),
            ("NVIDIA GH200 480GB", "GH200 96GB"),
            ("NVIDIA GH200 144G HBM3e", "GH200 144GB"),
            ("NVIDIA H100 80GB HBM3", "H100 SXM"),
            ("NVIDIA H100 PCIe", "H100 PCIe"),
            ("NVIDIA H100 NVL", "H100 NVL"),
            ("NVIDIA A100-SXM4-40GB", "A100 SXM 40GB"),
            ("NVIDIA A100-SXM4-80GB", "A100 SXM 80GB"),
            ("A100-PCIE-40GB", "A100 PCIe 40GB"),
            ("NVIDIA A100 80GB PCIe", "A100 PCIe 80GB"),
            ("Tesla V100-SXM2-16GB", "V100 SXM2"),
            ("Tesla V100-PCIE-32GB", "V100 PCIe"),
            ("Tesla V100S-PCIE-32GB", "V100S PCIe"),
            ("NVIDIA L4", "L4"),
            ("NVIDIA L40S", "L40S"),
            ("NVIDIA A10", "A10"),
            ("NVIDIA A10G", "A10G"),
            ("Tesla T4", "T4"),
            ("NVIDIA GeForce RTX 3090", "RTX 3090"),
            ("nvidia geforce rtx 4090", "RTX 4090"),
            ("NVIDIA GeForce RTX 5090", "RTX 5090"),
            ("AMD Instinct MI250X", "MI250X"),
            ("AMD Instinct MI300X", "MI300X"),
            ("AMD Instinct MI325X", "MI325X"),
        ] {
            assert_eq!(peak_of(name).map(|peak| peak.name), Some(expected), "{name}");
        }
    }

    #[test]
    fn variants_that_are_not_in_the_table_have_no_peak() {
        for name in [
            "NVIDIA GeForce RTX 4090 Laptop GPU",
            "NVIDIA GeForce RTX 4090 D",
            "NVIDIA GeForce RTX 3090 Ti",
            "NVIDIA A100-SXM4-80GB MIG 1g.10gb",
            "NVIDIA A100-SXM4",
            "NVIDIA GH200",
            "Tesla V100-SXM3-32GB",
            "NVIDIA L40",
            "Apple A10",
            "NVIDIA H20",
            "RTX",
            "",
        ] {
            assert_eq!(peak_of(name), None, "{name}");
        }
    }

    #[test]
    fn the_table_is_plausible() {
        for Row { peak, .. } in ROWS {
            assert!((0.3e12..=8e12).contains(&peak.memory_bytes_per_s), "{peak:?}");
            assert!(peak.fp16_flop_per_s >= 1.9 * peak.fp32_flop_per_s, "tensor cores are faster: {peak:?}");
            assert!(peak.fp16_flop_per_s < 3e15, "dense, not sparse: {peak:?}");
        }
        assert_eq!(peak_of("Tesla T4").unwrap().bf16_flop_per_s, None);
        assert_eq!(peak_of("NVIDIA H200").unwrap().bf16_flop_per_s, Some(989.5e12));
    }
}
