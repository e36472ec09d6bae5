//! Lists the graphics cards in `/sys/class/drm`, ordered by PCI address.
//!
//! Connectors (`card0-DP-1`) and render nodes are not cards. Nothing here reads a file that wakes a sleeping GPU.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::sysfs::{parse_number, read_text};

/// One graphics card.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DrmCard {
    /// Its folder in the DRM class.
    pub(super) card: PathBuf,
    /// The folder of its PCI device.
    pub(super) folder: PathBuf,
    /// Its driver, if known.
    pub(super) driver: Option<String>,
    /// Its PCI address, `0000:03:00.0`, or the name of the card if it has none.
    pub(super) address: String,
}

impl DrmCard {
    /// The PCI id of the device, or zero if it has none.
    pub(super) fn device_id(&self) -> u32 {
        let id = read_text(&self.folder.join("device")).unwrap_or_default();
        u32::from_str_radix(id.trim_start_matches("0x"), 16).unwrap_or(0)
    }

    /// Its hwmon folder with this name.
    pub(super) fn hwmon(&self, name: &str) -> Option<PathBuf> {
        let folders = fs::read_dir(self.folder.join("hwmon")).ok()?;
        let mut folders: Vec<PathBuf> = folders.flatten().map(|entry| entry.path()).collect();
        folders.sort();
        folders.into_iter().find(|hwmon| read_text(&hwmon.join("name")).is_ok_and(|found| found == name))
    }

    /// The file with its power state.
    pub(super) fn runtime_status(&self) -> PathBuf {
        self.folder.join("power/runtime_status")
    }
}

/// Whether the device of this power state file sleeps.
pub(super) fn is_asleep(runtime_status: &Path) -> bool {
    read_text(runtime_status).is_ok_and(|status| status == "suspended")
}

/// Lists the cards. A machine without graphics has no such folder and gives an empty list.
pub(super) fn find_cards(root: &Path) -> io::Result<Vec<DrmCard>> {
    let entries = match fs::read_dir(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut cards: Vec<DrmCard> = entries.flatten().filter_map(|entry| read_card(entry.path())).collect();
    cards.sort_by(|one, other| sort_key(&one.address).cmp(&sort_key(&other.address)));
    Ok(cards)
}

/// The input file with this label: `temp2_input` if `temp2_label` is `junction`.
pub(super) fn find_labelled(hwmon: &Path, kind: &str, label: &str) -> Option<PathBuf> {
    (1..=8).find_map(|number| {
        let found = read_text(&hwmon.join(format!("{kind}{number}_label"))).ok()?;
        (found == label).then(|| hwmon.join(format!("{kind}{number}_input")))
    })
}

/// The address as numbers, because a PCI domain may have more than four digits.
fn sort_key(address: &str) -> (Vec<u64>, &str) {
    let parts = address.split([':', '.']).map_while(|part| u64::from_str_radix(part, 16).ok());
    (parts.collect(), address)
}

fn read_card(card: PathBuf) -> Option<DrmCard> {
    let name = card.file_name()?.to_str()?.to_owned();
    parse_number::<u32>(name.strip_prefix("card")?.as_bytes()).ok()?;
    let folder = card.join("device");
    let driver = fs::canonicalize(folder.join("driver")).ok();
    let driver = driver.as_deref().and_then(Path::file_name).map(|driver| driver.to_string_lossy().into_owned());
    // A line of it is `PCI_SLOT_NAME=0000:03:00.0`.
    let facts = read_text(&folder.join("uevent")).unwrap_or_default();
    let address = facts.lines().find_map(|line| line.strip_prefix("PCI_SLOT_NAME=")).map(str::to_owned);
    Some(DrmCard { card, folder, driver, address: address.unwrap_or(name) })
}
