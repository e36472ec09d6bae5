//! Lists the power and energy channels of known hwmon chips.
//!
//! Channels are ordered by the path of their device, because the numbers of `hwmonN` change between boots, and then by
//! their number. Chips are identified by name: the voltages of a fan controller are not a meter. Only names and labels
//! are read here.

use std::path::{Path, PathBuf};
use std::{fs, io};

use ergometer_telemetry::Scope;
use ergometer_units::Seconds;

use crate::sysfs::{parse_number, read_text};

/// The part that a channel measures, before devices are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    /// A part of a CPU socket.
    Socket { number: u32, scope: Scope },
    /// The whole machine.
    Supply,
    /// One rail of a board.
    Rail,
}

/// The source of a value, with its update period if known.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Quantity {
    /// Power in microwatts.
    Power { path: PathBuf, period: Option<Seconds> },
    /// Mean power in microwatts over this time.
    Average { path: PathBuf, over: Option<Seconds> },
    /// Voltage in millivolts and current in milliamperes.
    Product { paths: [PathBuf; 2], period: Option<Seconds> },
    /// An energy counter in microjoules.
    Energy { path: PathBuf, period: Option<Seconds> },
}

/// One channel of a chip.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ChipChannel {
    pub(super) subject: Subject,
    /// The display name: `VDD_CPU_CV`, `Grace Power Socket 0`.
    pub(super) label: String,
    /// The driver's name of the chip.
    pub(super) chip: String,
    pub(super) quantity: Quantity,
}

/// The label of an unconnected channel in NVIDIA's device trees.
const NOT_CONNECTED: &str = "NC";

/// The names of the whole module's input in NVIDIA's developer guides: Orin NX and Nano, Xavier NX and TX2 (`VDD_IN`),
/// Nano (`POM_5V_IN`), Thor (`VIN`). `VIN_SYS_5V0` of AGX Orin is not a total: it supplies the 5 V parts, besides the
/// rails of CPU and GPU.
const TOTALS: [&str; 3] = ["VDD_IN", "POM_5V_IN", "VIN"];

/// Chips with one channel that compute power themselves (drivers ina2xx and ina238).
const POWER_MONITORS: [&str; 11] =
    ["ina219", "ina220", "ina226", "ina228", "ina230", "ina231", "ina233", "ina234", "ina237", "ina238", "ina260"];

/// Lists the channels of all known chips. Fails if the folder cannot be listed.
pub(super) fn find(root: &Path) -> io::Result<Vec<ChipChannel>> {
    let mut chips = Vec::new();
    for entry in fs::read_dir(root)? {
        let folder = entry?.path();
        let device = fs::canonicalize(folder.join("device")).unwrap_or_else(|_| folder.clone());
        chips.push((device, folder));
    }
    chips.sort();
    Ok(chips.iter().flat_map(|(device, folder)| Chip { device, folder }.channels()).collect())
}

struct Chip<'a> {
    device: &'a Path,
    folder: &'a Path,
}

impl Chip<'_> {
    fn channels(&self) -> Vec<ChipChannel> {
        let Some(chip) = self.text("name") else { return Vec::new() };
        let mut found = match chip.as_str() {
            "power_meter" => self.power_meter().into_iter().collect(),
            "ina3221" => (1..=3).filter_map(|number| self.shunt(number)).collect(),
            "scmi_sensors" | "scpi_sensors" => self.firmware(),
            "amd_energy" => self.amd_energy(),
            name if POWER_MONITORS.contains(&name) => self.power_monitor(name).into_iter().collect(),
            _ => Vec::new(),
        };
        for channel in &mut found {
            channel.chip.clone_from(&chip);
        }
        found
    }

    /// An ACPI power meter. NVIDIA Grace has four for each socket and describes each in the OEM text (Grace Performance
    /// Tuning Guide, "Power Telemetry"). A meter without such a text measures the whole machine.
    fn power_meter(&self) -> Option<ChipChannel> {
        // Batteries have a separate sensor.
        if self.text("power1_is_battery").as_deref() == Some("1") {
            return None;
        }
        let path = self.path("power1_average")?;
        let label = self.text("power1_oem_info").filter(|text| !text.is_empty());
        let subject = match &label {
            Some(text) => parse_oem_text(text),
            None => Subject::Supply,
        };
        let quantity = Quantity::Average { path, over: self.milliseconds("power1_average_interval") };
        Some(channel(subject, label.unwrap_or_else(|| "whole machine".to_owned()), quantity))
    }

    /// One of the three shunts of an INA3221. Current 4 and voltage 7 are sums over rails with different voltages and
    /// are skipped.
    fn shunt(&self, number: u32) -> Option<ChipChannel> {
        let label = self.text(&format!("in{number}_label")).unwrap_or_else(|| format!("{} {number}", self.address()));
        if label == NOT_CONNECTED || self.text(&format!("in{number}_enable")).as_deref() == Some("0") {
            return None;
        }
        let period = self.milliseconds("update_interval");
        let quantity = if let Some(path) = self.path(&format!("power{number}_input")) {
            Quantity::Power { path, period }
        } else {
            let paths = [self.path(&format!("in{number}_input"))?, self.path(&format!("curr{number}_input"))?];
            Quantity::Product { paths, period }
        };
        Some(channel(rail_or_total(&label), label, quantity))
    }

    fn power_monitor(&self, chip: &str) -> Option<ChipChannel> {
        let path = self.path("power1_input")?;
        let label = ["label", "power1_label", "in1_label"].iter().find_map(|file| self.text(file));
        let label = label.unwrap_or_else(|| format!("{chip} {}", self.address()));
        let quantity = Quantity::Power { path, period: self.milliseconds("update_interval") };
        Some(channel(rail_or_total(&label), label, quantity))
    }

    /// The sensors of an Arm machine's firmware, with the firmware's names.
    fn firmware(&self) -> Vec<ChipChannel> {
        let rail = |(kind, number): (&str, u32)| {
            let path = self.path(&format!("{kind}{number}_input"))?;
            let label = self.text(&format!("{kind}{number}_label")).unwrap_or_else(|| format!("{kind} {number}"));
            let quantity = match kind {
                "power" => Quantity::Power { path, period: None },
                _ => Quantity::Energy { path, period: None },
            };
            Some(channel(Subject::Rail, label, quantity))
        };
        let numbers = ["power", "energy"].map(|kind| self.numbers(kind).into_iter().map(move |number| (kind, number)));
        numbers.into_iter().flatten().filter_map(rail).collect()
    }

    /// The sockets of the driver `amd_energy`, updated every millisecond. They include the cores (`Ecore000`).
    fn amd_energy(&self) -> Vec<ChipChannel> {
        let socket = |number: u32| {
            let label = self.text(&format!("energy{number}_label"))?;
            let socket = label.strip_prefix("Esocket")?.parse().ok()?;
            let path = self.path(&format!("energy{number}_input"))?;
            let subject = Subject::Socket { number: socket, scope: Scope::Package };
            Some(channel(subject, label, Quantity::Energy { path, period: Some(Seconds::from_millis(1.0)) }))
        };
        self.numbers("energy").into_iter().filter_map(socket).collect()
    }

    /// The numbers of the files `<kind>N_input`, in order.
    fn numbers(&self, kind: &str) -> Vec<u32> {
        let names = fs::read_dir(self.folder).into_iter().flatten().flatten();
        let number = |name: &str| name.strip_prefix(kind)?.strip_suffix("_input")?.parse().ok();
        let mut numbers: Vec<u32> = names.filter_map(|entry| number(entry.file_name().to_str()?)).collect();
        numbers.sort_unstable();
        numbers
    }

    /// The path of a file. Old drivers have their files in the folder of the device.
    fn path(&self, file: &str) -> Option<PathBuf> {
        [self.folder.join(file), self.folder.join("device").join(file)].into_iter().find(|path| path.exists())
    }

    fn text(&self, file: &str) -> Option<String> {
        read_text(&self.path(file)?).ok()
    }

    fn milliseconds(&self, file: &str) -> Option<Seconds> {
        let text = fs::read(self.path(file)?).ok()?;
        // In ACPI, all ones mean unknown.
        let is_time = |time: &u32| *time > 0 && *time < u32::MAX;
        let milliseconds = parse_number::<u32>(&text).ok().filter(is_time)?;
        Some(Seconds::from_millis(f64::from(milliseconds)))
    }

    /// The bus address of the device: `1-0040`.
    fn address(&self) -> String {
        self.device.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

fn channel(subject: Subject, label: String, quantity: Quantity) -> ChipChannel {
    ChipChannel { subject, label, chip: String::new(), quantity }
}

fn rail_or_total(label: &str) -> Subject {
    if TOTALS.contains(&label) { Subject::Supply } else { Subject::Rail }
}

/// The part that a meter with this OEM text measures. On Grace, `Module` is the socket with memory and GPU, `Grace` is
/// the socket, `CPU` the rail of the cores and `SysIO` the rail of the rest of the chip. Another text with a socket is
/// one of its rails. Any other text is the name of a meter of the whole machine.
fn parse_oem_text(text: &str) -> Subject {
    let Some((part, socket)) = text.split_once(" Power Socket ") else {
        return if text.contains("Socket") { Subject::Rail } else { Subject::Supply };
    };
    let scope = match part {
        "Module" => Scope::Module,
        "Grace" => Scope::Package,
        "CPU" => Scope::Core,
        "SysIO" => Scope::Uncore,
        _ => return Subject::Rail,
    };
    socket.trim().parse().map_or(Subject::Rail, |number| Subject::Socket { number, scope })
}
