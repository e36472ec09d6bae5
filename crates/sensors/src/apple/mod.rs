//! Apple Silicon: the energy of CPU, DRAM, GPU and Neural Engine, by `IOReport`, without root.
//!
//! Out come up to three sensors: `ioreport-cpu` (the CPU clusters as package, and DRAM), `ioreport-gpu` and
//! `ioreport-npu`. They are counters of Apple's energy model: the system's own reckoning, which `powermetrics` shows as
//! power. Not among them is the rest of the machine: display, storage, radios, the fabric and the other engines of the
//! chip. On other systems there is nothing, and nothing is said.

#[cfg_attr(not(target_os = "macos"), path = "elsewhere.rs")]
mod ioreport;
mod meter;
mod samples;
mod sensor;
mod shared;

use std::io;
use std::sync::Arc;
use std::time::Instant;

use self::samples::{Choice, Part, choose, is_total};
pub use self::samples::{Entry, ReadSample, Sample};
use self::sensor::{EnergyModel, Identity};
use self::shared::{Now, SharedSamples};
use ergometer_telemetry::{Probe, Scope, Status};

/// What cannot be looked up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// The number of the GPU, where others were found before.
    pub first_gpu: u32,
}

/// Which channels of the energy model are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Every channel: hundreds.
    All,
    /// Those that can be the total of a part of the chip.
    Totals,
}

const SOURCE: &str = "IOReport";

/// Looks for the energy model of this machine.
///
/// ```
/// let probe = ergometer_sensors::apple::probe(&Default::default());
/// assert!(cfg!(target_os = "macos") || probe.findings.is_empty(), "other systems have no line for it");
/// ```
#[must_use]
pub fn probe(options: &Options) -> Probe {
    if !cfg!(target_os = "macos") {
        return Probe::default();
    }
    let machine = Machine::of(cfg!(target_arch = "aarch64"), crate::host::read_system_info().cpu_brand);
    probe_with(options, &machine, &open, &(Arc::new(Instant::now) as Now))
}

/// Opens the energy model as a source of samples. `Unsupported` where there is none.
pub fn open(wanted: Wanted) -> io::Result<Box<dyn ReadSample>> {
    ioreport::open(&|name| wanted == Wanted::All || is_total(name))
}

/// What runs this program.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Machine {
    AppleSilicon {
        chip: String,
    },
    /// Apple Silicon that plays an Intel processor (Rosetta).
    Translated,
    Intel {
        processor: String,
    },
}

impl Machine {
    /// Of the architecture this program was built for and what `machdep.cpu.brand_string` says.
    fn of(built_for_arm: bool, brand: Option<String>) -> Self {
        match brand {
            brand if built_for_arm => Self::AppleSilicon { chip: brand.unwrap_or_else(|| "Apple Silicon".to_owned()) },
            // `VirtualApple @ 2.50GHz`.
            Some(brand) if brand.contains("VirtualApple") => Self::Translated,
            brand => Self::Intel { processor: brand.unwrap_or_else(|| "an Intel processor".to_owned()) },
        }
    }
}

type Open<'a> = &'a dyn Fn(Wanted) -> io::Result<Box<dyn ReadSample>>;

fn probe_with(options: &Options, machine: &Machine, open: Open<'_>, now: &Now) -> Probe {
    let mut probe = Probe::default();
    let chip = match machine {
        Machine::AppleSilicon { chip } => chip,
        Machine::Translated => {
            let why =
                "this build is for Intel and runs translated, where IOReport's energy model is not read".to_owned();
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
        match open(Wanted::Totals).and_then(|mut source| source.read().map(|sample| (source, sample))) {
            Ok(opened) => opened,
            Err(error) => {
                let why = format!("cannot read IOReport's energy model: {error} (a virtual machine has none)");
                probe.find(chip, SOURCE, Status::Absent { why, fix: None });
                return probe;
            }
        };
    let samples = SharedSamples::new(source, now.clone());
    let mut choices = choose(&sample);
    for (id, title, parts) in [
        ("ioreport-cpu", "CPU", &[Part::Cpu, Part::Dram][..]),
        ("ioreport-gpu", "GPU", &[Part::Gpu]),
        ("ioreport-npu", "Neural Engine", &[Part::NeuralEngine]),
    ] {
        let device = parts[0].device(options.first_gpu);
        let found: Vec<Choice> = choices.extract_if(.., |choice| parts.contains(&choice.part)).collect();
        let place = format!("{chip} {title} ({device})");
        if found.is_empty() {
            let there: Vec<&str> = sample.channels.iter().take(8).map(|entry| entry.name.as_str()).collect();
            let why = format!("none of IOReport's channels is known as its total; there are: {}", there.join(", "));
            probe.find(place, SOURCE, Status::Absent { why, fix: None });
            continue;
        }
        probe.find(place, SOURCE, Status::Works(describe(&found)));
        let identity = Identity { id, name: format!("{chip} {title}"), device };
        probe.sensors.push(Box::new(EnergyModel::new(identity, found, samples.clone())));
    }
    probe
}

fn describe(found: &[Choice]) -> String {
    let scopes: Vec<String> = found.iter().map(|choice| choice.part.scope().to_string()).collect();
    let covers = if found.iter().any(|choice| choice.part.scope() == Scope::Package) {
        "; package is the CPU clusters, not the whole chip"
    } else {
        ""
    };
    let often = if found.iter().all(|choice| choice.part == Part::Gpu) {
        "read every 100 ms"
    } else {
        "read every 100 ms, updated every 0.1 to 2.2 s as macOS has it"
    };
    format!("energy counter of {}, {often}{covers}", scopes.join(", "))
}

#[cfg(test)]
mod tests;
