//! The batteries of a machine, read as one supply.
//!
//! In go the folders of the class; out comes the power that the batteries give, in watts, while they alone feed the
//! machine, and nothing at any other time: beside a charger a battery's power says nothing of the machine's.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::gauges::{Product, ReadGauge, Scaled};
use crate::sysfs::{Attribute, is_gone, read_text};

/// What feeds the machine now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Feeding {
    /// Batteries alone.
    Batteries,
    /// Something else, or something else as well; the text says how it shows.
    Other(String),
}

/// One battery of the machine.
pub(super) struct Battery {
    /// As the kernel names it: `BAT0`.
    pub(super) name: String,
    status: PathBuf,
    /// Its power in watts, of either sign: drivers differ.
    power: Box<dyn ReadGauge>,
}

/// All batteries, and what else may feed the machine.
pub(super) struct Supply {
    pub(super) batteries: Vec<Battery>,
    /// The files `online` of chargers.
    chargers: Vec<PathBuf>,
}

/// What a class folder holds.
pub(super) struct Found {
    pub(super) supply: Supply,
    /// Batteries whose power cannot be had, and why.
    pub(super) unusable: Vec<(String, io::Error)>,
}

/// Finds the batteries and chargers of the machine. What feeds only a device of its own (a mouse) is none.
pub(super) fn find(root: &Path) -> io::Result<Found> {
    let mut folders: Vec<PathBuf> = fs::read_dir(root)?.flatten().map(|entry| entry.path()).collect();
    folders.sort();
    let mut found = Found { supply: Supply { batteries: Vec::new(), chargers: Vec::new() }, unusable: Vec::new() };
    for folder in folders {
        let text = |file: &str| read_text(&folder.join(file)).unwrap_or_default();
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match text("type").as_str() {
            _ if text("scope") == "Device" => {}
            // An empty bay is listed, too.
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

/// Microwatts, or microamperes and microvolts.
fn open_power(folder: &Path) -> io::Result<Box<dyn ReadGauge>> {
    let open = |file: &str| Attribute::open(&folder.join(file));
    match open("power_now") {
        Ok(file) => Ok(Box::new(Scaled { file, factor: 1e-6 })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(Box::new(Product { files: [open("current_now")?, open("voltage_now")?], factor: 1e-12 }))
        }
        Err(error) => Err(error),
    }
}

impl Battery {
    /// Its power without its sign. The kernel's driver of ACPI batteries answers `ENODEV` where the firmware does not
    /// know the rate at present; the battery is there all the same.
    fn watts(&mut self) -> io::Result<Option<f64>> {
        match self.power.read() {
            Ok(watts) => Ok(watts.map(f64::abs)),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Supply {
    /// What feeds the machine now. The error is that of the last battery that could not be asked, where none could.
    pub(super) fn feeding(&self) -> io::Result<Feeding> {
        if let Some(charger) = self.chargers.iter().find(|path| read_text(path).is_ok_and(|online| online != "0")) {
            let name = charger.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
            return Ok(Feeding::Other(format!("{name} is plugged in")));
        }
        let statuses: Vec<(&str, io::Result<String>)> =
            self.batteries.iter().map(|battery| (battery.name.as_str(), read_text(&battery.status))).collect();
        let is = |status: &str| statuses.iter().any(|(_, read)| read.as_deref().is_ok_and(|read| read == status));
        // Of two batteries one rests while the other gives.
        if is("Discharging") && !is("Charging") {
            return Ok(Feeding::Batteries);
        }
        let told: Vec<String> = statuses
            .iter()
            .filter_map(|(name, read)| read.as_ref().ok().map(|status| format!("{name} is {}", status.to_lowercase())))
            .collect();
        if told.is_empty()
            && let Some((_, Err(error))) = statuses.into_iter().next_back()
        {
            return Err(error);
        }
        Ok(Feeding::Other(told.join(", ")))
    }
}

impl ReadGauge for Supply {
    fn read(&mut self) -> io::Result<Option<f64>> {
        if self.feeding()? != Feeding::Batteries {
            return Ok(None);
        }
        let mut sum = 0.0;
        for battery in &mut self.batteries {
            // Half of a machine's power is not its power: one that gives and does not tell leaves the sum unknown.
            let gives = read_text(&battery.status).is_ok_and(|status| status == "Discharging");
            match battery.watts()? {
                Some(watts) if gives => sum += watts,
                None if gives => return Ok(None),
                _ => {}
            }
        }
        // A machine that runs draws something: a gauge that has just been plugged over shows 0 at first.
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
    fn a_rate_that_is_not_known_at_present_is_no_loss() {
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
        assert!(is_gone(&supply(EIO).read().unwrap_err()), "a battery that was taken out is gone");
    }
}
