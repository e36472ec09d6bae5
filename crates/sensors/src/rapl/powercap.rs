//! The counters of powercap: what can be opened, what is closed to this user, and what to do about it.
//!
//! In goes the folder of the class; out come open counters, the zones that are there and closed, and a finding for all
//! that is missing. A machine whose processors have no such counters is told nothing.

use std::io;
use std::path::Path;

use super::counter_file::OpenCounter;
use super::zone::{Tree, Zone, read_tree};
use super::{OpenZone, Options, SOURCE};
use ergometer_telemetry::{Probe, Status};

/// What powercap gives.
#[derive(Default)]
pub(super) struct Powercap {
    pub(super) opened: Vec<OpenZone>,
    /// Zones that only permission keeps closed.
    pub(super) denied: Vec<Zone>,
    /// What is missing; it has no sensors.
    pub(super) told: Probe,
}

/// Opens what can be opened.
pub(super) fn open(options: &Options, opener: &dyn OpenCounter) -> Powercap {
    let mut powercap = Powercap::default();
    match read_tree(&options.root) {
        Ok(tree) => {
            tell_about_tree(&tree, options, &mut powercap.told);
            powercap.open_zones(tree.zones, opener);
        }
        Err(error) => {
            if let Some(driver) = options.driver {
                powercap.told.find("CPU", SOURCE, absent_tree(&options.root, driver, &error));
            }
        }
    }
    powercap
}

fn absent_tree(root: &Path, driver: &str, error: &io::Error) -> Status {
    if error.kind() != io::ErrorKind::NotFound {
        return Status::Absent { why: format!("cannot list {}: {error}", root.display()), fix: None };
    }
    Status::Absent {
        why: format!(
            "there is no {}: no RAPL driver is loaded, or this is a virtual machine without one",
            root.display()
        ),
        fix: Some(load(driver)),
    }
}

fn load(driver: &str) -> String {
    format!("sudo modprobe {driver}")
}

fn tell_about_tree(tree: &Tree, options: &Options, probe: &mut Probe) {
    if !tree.masked.is_empty() {
        let why = format!("{} hold nothing: a container masks them", tree.masked.join(", "));
        let fix = Some("docker run --security-opt systempaths=unconfined …".to_owned());
        probe.find("CPU", SOURCE, Status::Absent { why, fix });
    } else if let Some(driver) = options.driver
        && tree.zones.is_empty()
        && tree.unknown.is_empty()
    {
        let why = format!("{} has no intel-rapl zone: the driver is not loaded", options.root.display());
        probe.find("CPU", SOURCE, Status::Absent { why, fix: Some(load(driver)) });
    }
    if !tree.unknown.is_empty() {
        let why = format!("{}, which is no zone known here", tree.unknown.join(", "));
        probe.find("CPU", SOURCE, Status::Limited { why, fix: None });
    }
    if !tree.mirrors.is_empty() {
        let text = format!("{} repeat zones that are read already and are not counted twice", tree.mirrors.join(", "));
        probe.find("CPU", "RAPL mirrors", Status::Works(text));
    }
}

impl Powercap {
    /// All that is denied is one finding, since one command mends it.
    fn open_zones(&mut self, zones: Vec<Zone>, opener: &dyn OpenCounter) {
        for zone in zones {
            match opener.open(&zone.energy_path) {
                Ok(file) => self.opened.push((zone, file)),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => self.denied.push(zone),
                Err(error) => {
                    let why = format!("cannot open {}: {error}", zone.energy_path.display());
                    self.told.find(format!("CPU {}", zone.label), SOURCE, Status::Absent { why, fix: None });
                }
            }
        }
        if let Some(first) = self.denied.first() {
            let others =
                if self.denied.len() > 1 { format!(" and {} others", self.denied.len() - 1) } else { String::new() };
            let why = format!(
                "no permission to read {}{others} (root only by default); the fix lasts until reboot",
                first.energy_path.display()
            );
            self.told.find("CPU", SOURCE, Status::Absent { why, fix: self.permission() });
        }
    }

    /// The command that opens what is denied. The class folder holds a link per zone and sub-zone, so that this glob
    /// reaches every counter and nothing else. `chmod -R` on the class folder would not: it follows no link that it
    /// meets on its way.
    pub(super) fn permission(&self) -> Option<String> {
        let class = self.denied.first()?.energy_path.parent()?.parent()?;
        Some(format!("sudo chmod a+r {}/intel-rapl*:*/energy_uj", class.display()))
    }
}
