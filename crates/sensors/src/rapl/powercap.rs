//! Opens the powercap counters and adds a finding, with its fix, for everything that is missing.
//!
//! A machine without RAPL gets no finding.

use std::io;
use std::path::Path;

use ergometer_telemetry::{Probe, Status};

use super::counter_file::OpenCounter;
use super::zone::{Tree, Zone, read_tree};
use super::{OpenZone, Options, SOURCE};

/// The counters of powercap.
#[derive(Default)]
pub(super) struct Powercap {
    pub(super) opened: Vec<OpenZone>,
    /// Zones that this user has no permission to read.
    pub(super) denied: Vec<Zone>,
    /// Findings about missing counters, without sensors.
    pub(super) findings: Probe,
}

/// Opens all readable counters.
pub(super) fn open(options: &Options, opener: &dyn OpenCounter) -> Powercap {
    let mut powercap = Powercap::default();
    match read_tree(&options.root) {
        Ok(tree) => {
            add_findings(&tree, options, &mut powercap.findings);
            powercap.open_zones(tree.zones, opener);
        }
        Err(error) => {
            if let Some(driver) = options.driver {
                powercap.findings.find("CPU", SOURCE, absent_tree(&options.root, driver, &error));
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
            "{} does not exist: the RAPL driver is not loaded, or this is a virtual machine without RAPL",
            root.display()
        ),
        fix: Some(load(driver)),
    }
}

fn load(driver: &str) -> String {
    format!("sudo modprobe {driver}")
}

fn add_findings(tree: &Tree, options: &Options, probe: &mut Probe) {
    if !tree.masked.is_empty() {
        let why = format!("{} are empty: a container hides them", tree.masked.join(", "));
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
        let why = format!("unknown zones: {}", tree.unknown.join(", "));
        probe.find("CPU", SOURCE, Status::Limited { why, fix: None });
    }
    if !tree.mirrors.is_empty() {
        let text = format!("{} are copies of other zones and are not counted twice", tree.mirrors.join(", "));
        probe.find("CPU", "RAPL mirrors", Status::Works(text));
    }
}

impl Powercap {
    /// Opens the zones. All denied zones are one finding, because one command fixes them.
    fn open_zones(&mut self, zones: Vec<Zone>, opener: &dyn OpenCounter) {
        for zone in zones {
            match opener.open(&zone.energy_path) {
                Ok(file) => self.opened.push((zone, file)),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => self.denied.push(zone),
                Err(error) => {
                    let why = format!("cannot open {}: {error}", zone.energy_path.display());
                    self.findings.find(format!("CPU {}", zone.label), SOURCE, Status::Absent { why, fix: None });
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
            self.findings.find("CPU", SOURCE, Status::Absent { why, fix: self.permission() });
        }
    }

    /// The command that makes the denied counters readable. The class folder has a link for each zone and sub-zone, so
    /// the glob matches exactly the counters. `chmod -R` on the class folder does not work, because it does not follow
    /// links.
    pub(super) fn permission(&self) -> Option<String> {
        let class = self.denied.first()?.energy_path.parent()?.parent()?;
        Some(format!("sudo chmod a+r {}/intel-rapl*:*/energy_uj", class.display()))
    }
}
