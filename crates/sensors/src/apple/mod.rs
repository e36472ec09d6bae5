//! Reads the energy of CPU, DRAM, GPU and Neural Engine on Apple Silicon through `IOReport`, without root.
//!
//! There are up to three sensors: `ioreport-cpu` (the CPU clusters as package, and DRAM), `ioreport-gpu` and
//! `ioreport-npu`. They read the counters of Apple's energy model, which `powermetrics` shows as power. The rest of the
//! machine is not included: display, storage, radios, the fabric and the other engines of the chip. Other systems have
//! no sensors and no findings.

#[cfg_attr(not(target_os = "macos"), path = "unsupported.rs")]
mod ioreport;
mod meter;
mod sample_cache;
mod samples;
mod sensor;

use std::io;
use std::sync::Arc;
use std::time::Instant;

use ergometer_telemetry::{Probe, Scope, Status};

use self::sample_cache::{Now, SampleCache};
use self::samples::{Component, ComponentChannels, find_totals, is_total};
use self::sensor::{EnergyModel, Identity};

pub use self::samples::{Entry, ReadSample, Sample};

/// Options of [`probe`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// The index of the GPU.
    pub first_gpu: u32,
}

/// Which channels of the energy model to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelSet {
    /// All channels, of which there are hundreds.
    All,
    /// The channels that can be the total of a component.
    Totals,
}

const SOURCE: &str = "IOReport";

/// Opens the energy model of this machine.
///
/// ```
/// let probe = ergometer_sensors::apple::probe(&Default::default());
/// assert!(cfg!(target_os = "macos") || probe.findings.is_empty(), "other systems have no finding");
/// ```
#[must_use]
pub fn probe(options: &Options) -> Probe {
    if !cfg!(target_os = "macos") {
        return Probe::default();
    }
    let machine = Machine::detect(cfg!(target_arch = "aarch64"), crate::host::read_system_info().cpu_brand);
    probe_with(options, &machine, &open, &(Arc::new(Instant::now) as Now))
}

/// Opens the energy model as a source of samples. The error kind is `Unsupported` on other systems.
pub fn open(channels: ChannelSet) -> io::Result<Box<dyn ReadSample>> {
    ioreport::open(&|name| channels == ChannelSet::All || is_total(name))
}

/// The machine that runs this program.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Machine {
    AppleSilicon {
        chip: String,
    },
    /// Apple Silicon that emulates an Intel processor (Rosetta).
    Translated,
    Intel {
        processor: String,
    },
}

impl Machine {
    /// Detects the machine from the architecture of this build and `machdep.cpu.brand_string`.
    fn detect(built_for_arm: bool, brand: Option<String>) -> Self {
        match brand {
            brand if built_for_arm => Self::AppleSilicon { chip: brand.unwrap_or_else(|| "Apple Silicon".to_owned()) },
            // The whole text is `VirtualApple @ 2.50GHz`.
            Some(brand) if brand.contains("VirtualApple") => Self::Translated,
            brand => Self::Intel { processor: brand.unwrap_or_else(|| "an Intel processor".to_owned()) },
        }
    }
}

type Open<'a> = &'a dyn Fn(ChannelSet) -> io::Result<Box<dyn ReadSample>>;

fn probe_with(options: &Options, machine: &Machine, open: Open<'_>, now: &Now) -> Probe {
    let mut probe = Probe::default();
    let chip = match machine {
        Machine::AppleSilicon { chip } => chip,
        Machine::Translated => {
            let why =
                "this is a build for Intel that runs translated (Rosetta), which cannot read IOReport's energy model"
                    .to_owned();
            let fix = Some("install the build for Apple Silicon (aarch64-apple-darwin)".to_owned());
            probe.find("Apple Silicon", SOURCE, Status::Absent { why, fix });
            return probe;
        }
        Machine::Intel { processor } => {
            let why = format!("IOReport's energy model is for Apple Silicon, and this is {processor}");
            probe.find("CPU", SOURCE, Status::Absent { why, fix: None });
            return probe;
        }
    };
    let (source, sample) =
        match open(ChannelSet::Totals).and_then(|mut source| source.read().map(|sample| (source, sample))) {
            Ok(opened) => opened,
            Err(error) => {
                let why = format!("cannot read IOReport's energy model: {error} (a virtual machine has none)");
                probe.find(chip, SOURCE, Status::Absent { why, fix: None });
                return probe;
            }
        };
    let samples = SampleCache::new(source, now.clone());
    let mut totals = find_totals(&sample);
    for (id, title, components) in [
        ("ioreport-cpu", "CPU", &[Component::Cpu, Component::Dram][..]),
        ("ioreport-gpu", "GPU", &[Component::Gpu]),
        ("ioreport-npu", "Neural Engine", &[Component::NeuralEngine]),
    ] {
        let device = components[0].device(options.first_gpu);
        let found: Vec<ComponentChannels> =
            totals.extract_if(.., |total| components.contains(&total.component)).collect();
        let label = format!("{chip} {title} ({device})");
        if found.is_empty() {
            let names: Vec<&str> = sample.channels.iter().take(8).map(|entry| entry.name.as_str()).collect();
            let names = names.join(", ");
            let why =
                format!("no known IOReport channel has the total energy of this device; the channels are: {names}");
            probe.find(label, SOURCE, Status::Absent { why, fix: None });
            continue;
        }
        probe.find(label, SOURCE, Status::Works(describe(&found)));
        let identity = Identity { id, name: format!("{chip} {title}"), device };
        probe.sensors.push(Box::new(EnergyModel::new(identity, found, samples.clone())));
    }
    probe
}

fn describe(found: &[ComponentChannels]) -> String {
    let scopes: Vec<String> = found.iter().map(|total| total.component.scope().to_string()).collect();
    let covers = if found.iter().any(|total| total.component.scope() == Scope::Package) {
        "; package is the CPU clusters, not the whole chip"
    } else {
        ""
    };
    let often = if found.iter().all(|total| total.component == Component::Gpu) {
        "read every 100 ms"
    } else {
        "read every 100 ms, updated every 0.1 to 2.2 s depending on macOS"
    };
    format!("energy counter of {}, {often}{covers}", scopes.join(", "))
}

#[cfg(test)]
mod tests;
