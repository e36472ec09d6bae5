//! The zones of a powercap tree: which there are, what each one is about, and which only repeat another.
//!
//! In goes the class folder; out come the zones in order, each with a device and a scope that no other has. Nothing
//! is opened that needs a permission: `name` and `max_energy_range_uj` are readable by all.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use ergometer_units::Joules;

use crate::sysfs::parse_number;
use ergometer_telemetry::{DeviceId, Scope};

/// One zone that may be read.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Zone {
    /// The device it is about.
    pub(super) device: DeviceId,
    /// The part of the device.
    pub(super) scope: Scope,
    /// For people: `package 0`, `package 0 die 1 dram`, `platform (psys)`.
    pub(super) label: String,
    /// Its `energy_uj`, or the file that describes its perf event.
    pub(super) energy_path: PathBuf,
    /// How its counter counts.
    pub(super) counts: Counts,
}

/// How a counter counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Counts {
    /// Powercap's: microjoules since long ago, again from zero at `range`; `None` where the tree does not say where.
    Microjoules { range: Option<u64> },
    /// Those of perf events: in this unit, from zero when the event is opened. The kernel adds the counter's wraps up in
    /// 64 bits, which nothing fills.
    SinceOpened { unit: Joules },
}

impl Counts {
    /// For people, where it is not the usual way.
    pub(super) const fn by(self) -> &'static str {
        match self {
            Self::Microjoules { .. } => "",
            Self::SinceOpened { .. } => " by perf events",
        }
    }

    pub(super) fn unit(self) -> Joules {
        match self {
            Self::Microjoules { .. } => Joules::from_micros(1.0),
            Self::SinceOpened { unit } => unit,
        }
    }

    /// After how many counts it starts from zero, where that is known and happens.
    pub(super) fn range(self) -> Option<u64> {
        match self {
            Self::Microjoules { range } => range,
            Self::SinceOpened { .. } => None,
        }
    }
}

/// What a tree holds.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// The zones to read.
    pub(super) zones: Vec<Zone>,
    /// Folders that repeat a zone: the `intel-rapl-mmio` view of a package, a die with another's name.
    pub(super) mirrors: Vec<String>,
    /// Folders that are listed and hold nothing, as where a container masks them.
    pub(super) masked: Vec<String>,
    /// Folders whose name says nothing known, and why.
    pub(super) unknown: Vec<String>,
}

/// A package, or one die of it: the order of these is the order of `cpu:N`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Die {
    pub(super) package: u32,
    pub(super) die: Option<u32>,
}

/// What a zone is about, before devices are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    Platform,
    Part { of: Die, scope: Scope },
}

/// Reads the tree under the class folder. The error is that of listing the folder itself.
pub(super) fn read_tree(root: &Path) -> io::Result<Tree> {
    let mut names: Vec<String> = Vec::new();
    for entry in fs::read_dir(root)? {
        // A name that is not UTF-8 is no zone of the kernel's.
        names.extend(entry?.file_name().into_string().ok().filter(|name| Folder::parse(name).is_some()));
    }
    // MSR zones come before the memory-mapped view of them, and a package before its parts.
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

/// `intel-rapl:0:1` in parts. The order is the order in which zones are looked at.
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

    /// `package-N` is `cpu:N`; where dies have counters of their own, `cpu:N` are the dies in order.
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
