//! Lists the events of the source `power` with the package or part whose energy they count.
//!
//! Each zone has a unique pair of device and scope. All files read here are readable by every user.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use ergometer_telemetry::Scope;
use ergometer_units::Joules;

use super::Event;
use crate::rapl::zone::{Counts, Die, Subject, Zone};
use crate::sysfs::{parse_number, read_text};

/// The event names of the kernel's driver (arch/x86/events/rapl.c) with their scopes.
const KNOWN: [(&str, Scope); 5] = [
    ("energy-pkg", Scope::Package),
    ("energy-cores", Scope::Core),
    ("energy-gpu", Scope::Uncore),
    ("energy-ram", Scope::Dram),
    ("energy-psys", Scope::Psys),
];

/// The events of the source.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// The usable events, ordered by device.
    pub(super) zones: Vec<(Zone, Event)>,
    /// The events that cannot be used, and why.
    pub(super) unusable: Vec<String>,
}

/// Lists the events. `None` if there is no such source.
pub(super) fn read(event_root: &Path, processor_root: &Path) -> Option<Events> {
    let source_folder = event_root.join("power");
    let mut events = Events::default();
    let (source, processors) = match read_source(&source_folder) {
        Ok(read) => read,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            events.unusable.push(format!("{}: {error}", source_folder.display()));
            return Some(events);
        }
    };
    let dies = dies(&processors, processor_root);
    let mut subjects: BTreeMap<Subject, (PathBuf, Counts, Event)> = BTreeMap::new();
    for (name, scope) in KNOWN {
        let path = source_folder.join("events").join(name);
        let (config, unit) = match read_event(&path) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                events.unusable.push(format!("{}: {error}", path.display()));
                continue;
            }
        };
        for (&processor, &of) in processors.iter().zip(&dies) {
            let subject = if scope == Scope::Psys { Subject::Platform } else { Subject::Part { of, scope } };
            // A second processor of one die has the same counter, and so has the platform on another package.
            if let Entry::Vacant(place) = subjects.entry(subject) {
                place.insert((path.clone(), Counts::SinceOpened { unit }, Event { source, config, processor }));
            }
        }
    }
    let order: BTreeSet<Die> = subjects.keys().filter_map(Subject::die).collect();
    events.zones = subjects
        .into_iter()
        .map(|(subject, (path, counts, event))| (subject.zone(path, counts, &order), event))
        .collect();
    Some(events)
}

/// The number of the source and the processors on which to open its events: one for each package or die.
fn read_source(folder: &Path) -> io::Result<(u32, Vec<u32>)> {
    let source = parse_number(&fs::read(folder.join("type"))?)?;
    let list = read_text(&folder.join("cpumask"))?;
    let processors =
        processors(&list).ok_or_else(|| invalid(format!("cpumask `{list}` is not a list of processors")))?;
    Ok((source, processors))
}

/// Parses the kernel's list format: `0,28` or `0-1`.
fn processors(list: &str) -> Option<Vec<u32>> {
    let mut processors = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        // No kernel supports more than 8192 processors.
        if first > last || last > 8192 {
            return None;
        }
        processors.extend(first..=last);
    }
    Some(processors)
}

/// The number of an event, and the energy of one count.
fn read_event(path: &Path) -> io::Result<(u64, Joules)> {
    let beside = |ending: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        // A missing file is an error here, because the event exists.
        read_text(Path::new(&name)).map_err(|error| invalid(format!("{ending}: {error}")))
    };
    let text = read_text(path)?;
    let config = text.strip_prefix("event=0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let config = config.ok_or_else(|| invalid(format!("`{text}` is not event=0x…")))?;
    let unit = beside(".unit")?;
    if unit != "Joules" {
        return Err(invalid(format!("the unit is `{unit}`, not Joules")));
    }
    let scale = beside(".scale")?;
    let joules = scale.parse().ok().filter(|scale: &f64| scale.is_normal() && *scale > 0.0);
    let joules = joules.ok_or_else(|| invalid(format!("the scale `{scale}` is not a positive number")))?;
    Ok((config, Joules::new(joules)))
}

/// The die of each processor. If no package has more than one die, the die is `None`: the package has one counter.
fn dies(processors: &[u32], root: &Path) -> Vec<Die> {
    let number = |processor: u32, file: &str| {
        let path = root.join(format!("cpu{processor}/topology/{file}"));
        fs::read(path).and_then(|text| parse_number::<u32>(&text)).ok()
    };
    // Without a topology (a virtual machine may report -1), each listed processor is a package.
    let package = |(place, &processor): (usize, &u32)| {
        number(processor, "physical_package_id").or_else(|| u32::try_from(place).ok()).unwrap_or(0)
    };
    let packages: Vec<u32> = processors.iter().enumerate().map(package).collect();
    let dies: BTreeSet<(u32, Option<u32>)> =
        packages.iter().zip(processors).map(|(&package, &processor)| (package, number(processor, "die_id"))).collect();
    let split = dies.len() > packages.iter().collect::<BTreeSet<_>>().len();
    let die = |(&package, &processor): (&u32, &u32)| Die {
        package,
        die: if split { number(processor, "die_id") } else { None },
    };
    packages.iter().zip(processors).map(die).collect()
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_parsed() {
        assert_eq!(processors("0"), Some(vec![0]));
        assert_eq!(processors("0,28"), Some(vec![0, 28]));
        assert_eq!(processors("0-1,64"), Some(vec![0, 1, 64]));
        for wrong in ["", "a", "1-", "3-1", "0-4000000000", "0,,1"] {
            assert_eq!(processors(wrong), None, "{wrong}");
        }
    }
}
