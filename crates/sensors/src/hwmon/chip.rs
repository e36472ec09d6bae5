//! The chips of hwmon whose figures are known to be power or energy, and what each of their channels is about.
//!
//! In goes the folder of the class; out come channels, in the order of the devices' own paths (the numbers of `hwmonN`
//! change from boot to boot) and then of their numbers. Chips are known by name: the voltages of a fan controller are no
//! meter. Nothing is opened but names and labels.

use std::path::{Path, PathBuf};
use std::{fs, io};

use ergometer_units::Seconds;

use crate::sysfs::{parse_number, read_text};
use ergometer_telemetry::Scope;

/// What a channel is about, before devices are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    /// A part of a CPU socket.
    Socket { number: u32, scope: Scope },
    /// What the machine draws in all.
    Supply,
    /// One rail of a board.
    Rail,
}

/// Where the figure comes from, and how often it is new where that is told.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Quantity {
    /// Microwatts now.
    Power { path: PathBuf, period: Option<Seconds> },
    /// Microwatts, as a mean over this time.
    Average { path: PathBuf, over: Option<Seconds> },
    /// Millivolts and milliamperes.
    Product { paths: [PathBuf; 2], period: Option<Seconds> },
    /// Microjoules, counted.
    Energy { path: PathBuf, period: Option<Seconds> },
}

/// One channel of a chip.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub(super) subject: Subject,
    /// For people: `VDD_CPU_CV`, `Grace Power Socket 0`.
    pub(super) label: String,
    /// The name of the chip, as its driver gives it.
    pub(super) chip: String,
    pub(super) quantity: Quantity,
}

/// A channel that is not connected, by NVIDIA's device trees.
const NOT_CONNECTED: &str = "NC";

/// What NVIDIA's developer guides call the input of the whole module: Orin NX and Nano, Xavier NX and TX2 (`VDD_IN`),
/// Nano (`POM_5V_IN`), Thor (`VIN`). `VIN_SYS_5V0` of AGX Orin is not among them: it feeds what hangs on 5 V, beside the
/// rails of CPU and GPU.
const TOTALS: [&str; 3] = ["VDD_IN", "POM_5V_IN", "VIN"];

/// Chips of one channel with power computed by the chip (drivers ina2xx and ina238).
const POWER_MONITORS: [&str; 11] =
    ["ina219", "ina220", "ina226", "ina228", "ina230", "ina231", "ina233", "ina234", "ina237", "ina238", "ina260"];

/// Finds the channels of all known chips. The error is that of listing the folder.
pub(super) fn find(root: &Path) -> io::Result<Vec<Found>> {
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
    fn channels(&self) -> Vec<Found> {
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

    /// A meter of ACPI. NVIDIA Grace has four for each socket and says in the maker's text what each is (Grace
    /// Performance Tuning Guide, "Power Telemetry"); without such a text it is the machine.
    fn power_meter(&self) -> Option<Found> {
        // A battery is read as a battery.
        if self.text("power1_is_battery").as_deref() == Some("1") {
            return None;
        }
        let path = self.path("power1_average")?;
        let label = self.text("power1_oem_info").filter(|text| !text.is_empty());
        let subject = match &label {
            Some(text) => grace(text),
            None => Subject::Supply,
        };
        let quantity = Quantity::Average { path, over: self.milliseconds("power1_average_interval") };
        Some(found(subject, label.unwrap_or_else(|| "the machine's supply".to_owned()), quantity))
    }

    /// One of the three shunts of an INA3221. Number 4 of the currents and 7 of the voltages are sums over rails of
    /// different voltages and left alone.
    fn shunt(&self, number: u32) -> Option<Found> {
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
        Some(found(rail_or_total(&label), label, quantity))
    }

    fn power_monitor(&self, chip: &str) -> Option<Found> {
        let path = self.path("power1_input")?;
        let label = ["label", "power1_label", "in1_label"].iter().find_map(|file| self.text(file));
        let label = label.unwrap_or_else(|| format!("{chip} {}", self.address()));
        let quantity = Quantity::Power { path, period: self.milliseconds("update_interval") };
        Some(found(rail_or_total(&label), label, quantity))
    }

    /// What the firmware of an Arm machine measures, by its own names.
    fn firmware(&self) -> Vec<Found> {
        let rail = |(kind, number): (&str, u32)| {
            let path = self.path(&format!("{kind}{number}_input"))?;
            let label = self.text(&format!("{kind}{number}_label")).unwrap_or_else(|| format!("{kind} {number}"));
            let quantity = match kind {
                "power" => Quantity::Power { path, period: None },
                _ => Quantity::Energy { path, period: None },
            };
            Some(found(Subject::Rail, label, quantity))
        };
        let numbers = ["power", "energy"].map(|kind| self.numbers(kind).into_iter().map(move |number| (kind, number)));
        numbers.into_iter().flatten().filter_map(rail).collect()
    }

    /// The sockets of the driver `amd_energy`, updated every millisecond; the cores (`Ecore000`) are part of them.
    fn amd_energy(&self) -> Vec<Found> {
        let socket = |number: u32| {
            let label = self.text(&format!("energy{number}_label"))?;
            let socket = label.strip_prefix("Esocket")?.parse().ok()?;
            let path = self.path(&format!("energy{number}_input"))?;
            let subject = Subject::Socket { number: socket, scope: Scope::Package };
            Some(found(subject, label, Quantity::Energy { path, period: Some(Seconds::from_millis(1.0)) }))
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

    /// Where the file lies: drivers of the old kind have their files in the folder of the device.
    fn path(&self, file: &str) -> Option<PathBuf> {
        [self.folder.join(file), self.folder.join("device").join(file)].into_iter().find(|path| path.exists())
    }

    fn text(&self, file: &str) -> Option<String> {
        read_text(&self.path(file)?).ok()
    }

    fn milliseconds(&self, file: &str) -> Option<Seconds> {
        let text = fs::read(self.path(file)?).ok()?;
        // ACPI says by all ones that it does not know.
        let is_time = |time: &u32| *time > 0 && *time < u32::MAX;
        let milliseconds = parse_number::<u32>(&text).ok().filter(is_time)?;
        Some(Seconds::from_millis(f64::from(milliseconds)))
    }

    /// As the bus names the device: `1-0040`.
    fn address(&self) -> String {
        self.device.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

fn found(subject: Subject, label: String, quantity: Quantity) -> Found {
    Found { subject, label, chip: String::new(), quantity }
}

fn rail_or_total(label: &str) -> Subject {
    if TOTALS.contains(&label) { Subject::Supply } else { Subject::Rail }
}

/// The module is socket, memory, and a GPU on it; `Grace` is the socket; `CPU` is the rail of the cores, and `SysIO`
/// that of the rest of the chip. Another text that names a socket is a rail of it; any other says whose meter it is.
fn grace(text: &str) -> Subject {
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
