//! Reads all batteries of a machine as one power supply.
//!
//! The power is the sum of all batteries while the machine runs on battery only. With a charger connected there is no
//! value, because the battery's power is then not the machine's power.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::gauges::{FileProduct, ReadGauge, ScaledFile};
use crate::sysfs::{Attribute, is_gone, read_text};

/// The current power source of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PowerSource {
    /// Only batteries.
    Batteries,
    /// A charger, alone or with the batteries. The text names the evidence.
    Other(String),
}

/// One battery of the machine.
pub(super) struct Battery {
    /// The kernel's name: `BAT0`.
    pub(super) name: String,
    status: PathBuf,
    /// Its power in watts. The sign depends on the driver.
    power: Box<dyn ReadGauge>,
}

/// All batteries and chargers of the machine.
pub(super) struct Supply {
    pub(super) batteries: Vec<Battery>,
    /// The `online` file of each charger.
    chargers: Vec<PathBuf>,
}

/// The power supplies of a machine.
pub(super) struct Supplies {
    pub(super) supply: Supply,
    /// Batteries without readable power, and why.
    pub(super) unusable: Vec<(String, io::Error)>,
}

/// Finds the batteries and chargers of the machine. The battery of a peripheral device (a mouse) is skipped.
pub(super) fn find(root: &Path) -> io::Result<Supplies> {
    let mut folders: Vec<PathBuf> = fs::read_dir(root)?.flatten().map(|entry| entry.path()).collect();
    folders.sort();
    let mut found = Supplies { supply: Supply { batteries: Vec::new(), chargers: Vec::new() }, unusable: Vec::new() };
    for folder in folders {
        let text = |file: &str| read_text(&folder.join(file)).unwrap_or_default();
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match text("type").as_str() {
            _ if text("scope") == "Device" => {}
            // An empty battery bay is also listed.
            "Battery" if text("present") != "0" => match open_power(&folder) {
                Ok(power) => found.supply.batteries.push(Battery { name, status: folder.join("status"), power }),
                Err(error) => found.unusable.push((name, error)),
            },
            "Mains" | "USB" | "Wireless" => found.supply.chargers.push(folder.join("online")),
            _ => {}
        }
    }
    Ok(found)
}

/// Opens the power in microwatts, or the current in microamperes and the voltage in microvolts.
fn open_power(folder: &Path) -> io::Result<Box<dyn ReadGauge>> {
    let open = |file: &str| Attribute::open(&folder.join(file));
    match open("power_now") {
        Ok(file) => Ok(Box::new(ScaledFile { file, factor: 1e-6 })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(Box::new(FileProduct { files: [open("current_now")?, open("voltage_now")?], factor: 1e-12 }))
        }
        Err(error) => Err(error),
    }
}

impl Battery {
    /// The power without its sign. The kernel's ACPI battery driver returns `ENODEV` when the firmware does not know
    /// the rate, although the battery is present.
    fn watts(&mut self) -> io::Result<Option<f64>> {
        match self.power.read() {
            Ok(watts) => Ok(watts.map(f64::abs)),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Supply {
    /// The current power source of the machine. An error means that no battery has a readable status.
    pub(super) fn power_source(&self) -> io::Result<PowerSource> {
        if let Some(charger) = self.chargers.iter().find(|path| read_text(path).is_ok_and(|online| online != "0")) {
            let name = charger.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
            return Ok(PowerSource::Other(format!("{name} is plugged in")));
        }
        let statuses: Vec<(&str, io::Result<String>)> =
            self.batteries.iter().map(|battery| (battery.name.as_str(), read_text(&battery.status))).collect();
        let is = |status: &str| statuses.iter().any(|(_, read)| read.as_deref().is_ok_and(|read| read == status));
        // Two batteries discharge one after the other.
        if is("Discharging") && !is("Charging") {
            return Ok(PowerSource::Batteries);
        }
        let evidence: Vec<String> = statuses
            .iter()
            .filter_map(|(name, read)| read.as_ref().ok().map(|status| format!("{name} is {}", status.to_lowercase())))
            .collect();
        if evidence.is_empty()
            && let Some((_, Err(error))) = statuses.into_iter().next_back()
        {
            return Err(error);
        }
        Ok(PowerSource::Other(evidence.join(", ")))
    }
}

impl ReadGauge for Supply {
    fn read(&mut self) -> io::Result<Option<f64>> {
        if self.power_source()? != PowerSource::Batteries {
            return Ok(None);
        }
        let mut sum = 0.0;
        for battery in &mut self.batteries {
            // If a discharging battery does not report its power, the sum is unknown.
            let is_discharging = read_text(&battery.status).is_ok_and(|status| status == "Discharging");
            match battery.watts()? {
                Some(watts) if is_discharging => sum += watts,
                None if is_discharging => return Ok(None),
                _ => {}
            }
        }
        // A running machine always draws power: a gauge shows 0 at first after the charger was removed.
        Ok((sum > 0.0).then_some(sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENODEV: i32 = 19;
    const EIO: i32 = 5;

    struct Fails(i32);

    impl ReadGauge for Fails {
        fn read(&mut self) -> io::Result<Option<f64>> {
            Err(io::Error::from_raw_os_error(self.0))
        }
    }

    #[test]
    fn a_battery_with_an_unknown_rate_is_not_lost() {
        let folder = tempfile::tempdir().unwrap();
        let status = folder.path().join("status");
        fs::write(&status, "Discharging\n").unwrap();
        let supply = |errno: i32| {
            let battery = Battery { name: "BAT0".to_owned(), status: status.clone(), power: Box::new(Fails(errno)) };
            Supply { batteries: vec![battery], chargers: Vec::new() }
        };
        assert_eq!(supply(ENODEV).read().unwrap(), None);
        assert!(supply(EIO).read().is_err());
        fs::remove_file(&status).unwrap();
        assert!(is_gone(&supply(EIO).read().unwrap_err()), "a removed battery is gone");
    }
}
