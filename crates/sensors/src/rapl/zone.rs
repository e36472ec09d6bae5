//! Lists the zones of the powercap class and detects zones that repeat another one.
//!
//! Each zone has a unique pair of device and scope. Only files that every user can read are opened: `name` and
//! `max_energy_range_uj`.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use ergometer_telemetry::{DeviceId, Scope};
use ergometer_units::Joules;

use crate::sysfs::parse_number;

/// One zone to read.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Zone {
    /// The device.
    pub(super) device: DeviceId,
    /// The part of the device.
    pub(super) scope: Scope,
    /// The display name: `package 0`, `package 0 die 1 dram`, `platform (psys)`.
    pub(super) label: String,
    /// Its `energy_uj`, or the file that describes its perf event.
    pub(super) energy_path: PathBuf,
    /// The unit and range of its counter.
    pub(super) counts: Counts,
}

/// The unit and range of a counter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Counts {
    /// A powercap counter in microjoules, which wraps at `range`. `None` if the range is unknown.
    Microjoules { range: Option<u64> },
    /// A perf event in this unit, which starts at zero when it is opened. The kernel extends it to 64 bits, so it does
    /// not wrap.
    SinceOpened { unit: Joules },
}

impl Counts {
    /// The suffix of its display name.
    pub(super) const fn suffix(self) -> &'static str {
        match self {
            Self::Microjoules { .. } => "",
            Self::SinceOpened { .. } => " read through perf events",
        }
    }

    pub(super) fn unit(self) -> Joules {
        match self {
            Self::Microjoules { .. } => Joules::from_micros(1.0),
            Self::SinceOpened { unit } => unit,
        }
    }

    /// The count at which it wraps, if it does and the count is known.
    pub(super) fn range(self) -> Option<u64> {
        match self {
            Self::Microjoules { range } => range,
            Self::SinceOpened { .. } => None,
        }
    }
}

/// The zones of a powercap class.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// The zones to read.
    pub(super) zones: Vec<Zone>,
    /// Folders that repeat a zone: the `intel-rapl-mmio` view of a package, or a die with the name of another.
    pub(super) mirrors: Vec<String>,
    /// Empty folders, which a container hides.
    pub(super) masked: Vec<String>,
    /// Folders with an unknown name.
    pub(super) unknown: Vec<String>,
}

/// A package or one die of it. Their order is the order of `cpu:N`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Die {
    pub(super) package: u32,
    pub(super) die: Option<u32>,
}

/// What a zone measures, before devices are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    Platform,
    Part { of: Die, scope: Scope },
}

/// Reads the zones in the class folder. Fails if the folder cannot be listed.
pub(super) fn read_tree(root: &Path) -> io::Result<Tree> {
    let mut names: Vec<String> = Vec::new();
    for entry in fs::read_dir(root)? {
        // The kernel's zones have UTF-8 names.
        names.extend(entry?.file_name().into_string().ok().filter(|name| Folder::parse(name).is_some()));
    }
    // MSR zones come before their memory-mapped view, and a package before its parts.
    names.sort_by_key(|name| Folder::parse(name));

    let mut tree = Tree::default();
    let mut subjects = BTreeMap::new();
    let mut dies = BTreeMap::new();
    for name in names {
        let Some(folder) = Folder::parse(&name) else { continue };
        let path = root.join(&name);
        let Ok(text) = fs::read(path.join("name")) else {
            tree.masked.push(name);
            continue;
        };
        let text = String::from_utf8_lossy(&text).trim().to_owned();
        match folder.subject(&text, &dies) {
            None => tree.unknown.push(format!("{name} is named `{text}`")),
            Some(subject) => {
                if let (None, Subject::Part { of, .. }) = (folder.part, subject) {
                    dies.insert(folder, of);
                }
                match subjects.entry(subject) {
                    Entry::Vacant(place) => {
                        place.insert(path);
                    }
                    Entry::Occupied(_) => tree.mirrors.push(name),
                }
            }
        }
    }
    let order: BTreeSet<Die> = subjects.keys().filter_map(Subject::die).collect();
    let zone = |(subject, path): (Subject, PathBuf)| {
        let counts = Counts::Microjoules { range: read_range(&path) };
        subject.zone(path.join("energy_uj"), counts, &order)
    };
    tree.zones = subjects.into_iter().map(zone).collect();
    Ok(tree)
}

/// The parts of a folder name such as `intel-rapl:0:1`. Zones are read in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Folder {
    memory_mapped: bool,
    zone: u32,
    part: Option<u32>,
}

impl Folder {
    fn parse(name: &str) -> Option<Self> {
        let mut parts = name.split(':');
        let memory_mapped = match parts.next()? {
            "intel-rapl" => false,
            "intel-rapl-mmio" => true,
            _ => return None,
        };
        let zone = parts.next()?.parse().ok()?;
        let part = parts.next().map(str::parse).transpose().ok()?;
        parts.next().is_none().then_some(Self { memory_mapped, zone, part })
    }

    fn subject(self, name: &str, dies: &BTreeMap<Self, Die>) -> Option<Subject> {
        if self.part.is_some() {
            let of = *dies.get(&Self { part: None, ..self })?;
            let scope = match name {
                "core" => Scope::Core,
                "uncore" => Scope::Uncore,
                "dram" => Scope::Dram,
                _ => return None,
            };
            return Some(Subject::Part { of, scope });
        }
        if name == "psys" {
            return Some(Subject::Platform);
        }
        let numbers = name.strip_prefix("package-")?;
        let of = match numbers.split_once("-die-") {
            Some((package, die)) => Die { package: package.parse().ok()?, die: Some(die.parse().ok()?) },
            None => Die { package: numbers.parse().ok()?, die: None },
        };
        Some(Subject::Part { of, scope: Scope::Package })
    }
}

impl Subject {
    pub(super) fn die(&self) -> Option<Die> {
        match *self {
            Self::Platform => None,
            Self::Part { of, .. } => Some(of),
        }
    }

    /// `package-N` is `cpu:N`. If the dies have separate counters, `cpu:N` is the N-th die.
    pub(super) fn zone(self, energy_path: PathBuf, counts: Counts, order: &BTreeSet<Die>) -> Zone {
        let (device, scope, label) = match self {
            Self::Platform => (DeviceId::host(), Scope::Psys, "platform (psys)".to_owned()),
            Self::Part { of, scope } => {
                let place = order.iter().position(|die| *die == of).and_then(|place| u32::try_from(place).ok());
                let have_dies = order.iter().any(|die| die.die.is_some());
                let index = if have_dies { place.unwrap_or(of.package) } else { of.package };
                let die = of.die.map(|die| format!(" die {die}")).unwrap_or_default();
                let part = if scope == Scope::Package { String::new() } else { format!(" {scope}") };
                (DeviceId::cpu(index), scope, format!("package {}{die}{part}", of.package))
            }
        };
        Zone { device, scope, label, energy_path, counts }
    }
}

fn read_range(path: &Path) -> Option<u64> {
    fs::read(path.join("max_energy_range_uj")).and_then(|text| parse_number(&text)).ok().filter(|&range| range > 0)
}
