//! The cards of the amdgpu driver, as `/sys/class/drm` shows them.
//!
//! In goes the folder of the class; out come the GPUs in the order of their PCI addresses, each with its folder, its
//! hwmon folder and what is fixed about it. What always holds: a connector (`card0-DP-1`), a render node and a
//! partition of an MI300 are no GPU of their own. Partitions beyond the first are devices of another driver
//! (`amdgpu_xcp`) without hwmon, so that no energy is counted twice. Nothing is read here that wakes a GPU.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::super::sysfs::{parse_number, read_text};

/// The PCI id of a maker.
const AMD: &str = "0x1002";

/// One GPU of the driver.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Card {
    /// Its folder of PCI files.
    pub(super) folder: PathBuf,
    /// Its folder of hwmon files.
    pub(super) hwmon: Option<PathBuf>,
    /// Its PCI address, `0000:03:00.0`, or the name of the card where it has none.
    pub(super) address: String,
    /// The PCI id of the device.
    pub(super) chip: Chip,
    /// The name of the product, for people.
    pub(super) name: String,
}

/// The PCI id of a device, which says how its counters are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chip(pub(super) u32);

impl Chip {
    /// MI210, MI250 and MI250X (Aldebaran in the driver's list of ids).
    pub(super) const fn is_mi200(self) -> bool {
        matches!(self.0, 0x7408 | 0x740c | 0x740f | 0x7410)
    }

    /// MI300 to MI355, on the machine itself or in a virtual one.
    pub(super) const fn is_mi300(self) -> bool {
        matches!(self.0, 0x74a0..=0x74bf | 0x75a0..=0x75bf)
    }

    /// MI300A: processors and GPU in one socket.
    pub(super) const fn is_mi300a(self) -> bool {
        self.0 == 0x74a0
    }
}

impl Card {
    /// A file of its PCI folder.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Whether it sleeps now. Most reads of a GPU that sleeps fail; with Linux before 6.15 they wake it.
    pub(super) fn sleeps(&self) -> bool {
        is_asleep(&self.runtime_status())
    }

    /// The file that says whether it sleeps.
    pub(super) fn runtime_status(&self) -> PathBuf {
        self.file("power/runtime_status")
    }

    /// How it is split into partitions, where it is: `CPX`.
    pub(super) fn partition(&self) -> Option<String> {
        read_text(&self.file("current_compute_partition")).ok().filter(|mode| !mode.is_empty() && mode != "SPX")
    }

    /// Whether processors and GPU share the chip and its power. Only such have a northbridge's voltage.
    pub(super) fn has_northbridge(&self) -> bool {
        self.hwmon.as_ref().is_some_and(|hwmon| read_text(&hwmon.join("in1_label")).is_ok_and(|label| label == "vddnb"))
    }
}

/// Whether this file says that its device sleeps.
pub(super) fn is_asleep(runtime_status: &Path) -> bool {
    read_text(runtime_status).is_ok_and(|status| status == "suspended")
}

/// The GPUs of the driver. None where there is no such folder: a machine without graphics.
pub(super) fn find_cards(root: &Path) -> io::Result<Vec<Card>> {
    let entries = match fs::read_dir(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut cards: Vec<Card> = entries.flatten().filter_map(|entry| read_card(&entry.path())).collect();
    cards.sort_by(|one, other| place(&one.address).cmp(&place(&other.address)));
    cards.dedup_by(|one, other| one.address == other.address);
    Ok(cards)
}

/// An address in numbers, since a domain may have more than four digits.
fn place(address: &str) -> (Vec<u64>, &str) {
    let parts = address.split([':', '.']).map_while(|part| u64::from_str_radix(part, 16).ok());
    (parts.collect(), address)
}

fn read_card(path: &Path) -> Option<Card> {
    let card = path.file_name()?.to_str()?;
    parse_number::<u32>(card.strip_prefix("card")?.as_bytes()).ok()?;
    let folder = path.join("device");
    let hwmon = find_hwmon(&folder);
    let driver = fs::canonicalize(folder.join("driver")).ok();
    let is_driven = match driver.as_deref().and_then(Path::file_name) {
        Some(driver) => driver == "amdgpu",
        None => hwmon.is_some() && read_text(&folder.join("vendor")).is_ok_and(|vendor| vendor == AMD),
    };
    if !is_driven {
        return None;
    }
    let chip =
        read_text(&folder.join("device")).ok().and_then(|id| u32::from_str_radix(id.trim_start_matches("0x"), 16).ok());
    let chip = Chip(chip.unwrap_or(0));
    let product = read_text(&folder.join("product_name")).ok().filter(|name| !name.is_empty());
    let name = match product {
        Some(product) if product.starts_with("AMD") => product,
        Some(product) => format!("AMD {product}"),
        None => format!("AMD GPU {:#06x}", chip.0),
    };
    Some(Card { address: address(&folder).unwrap_or_else(|| card.to_owned()), hwmon, chip, name, folder })
}

/// As the kernel writes it into `uevent`: `PCI_SLOT_NAME=0000:03:00.0`.
fn address(folder: &Path) -> Option<String> {
    let text = read_text(&folder.join("uevent")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("PCI_SLOT_NAME=")).map(str::to_owned)
}

fn find_hwmon(folder: &Path) -> Option<PathBuf> {
    let mut found: Vec<PathBuf> =
        fs::read_dir(folder.join("hwmon")).ok()?.flatten().map(|entry| entry.path()).collect();
    found.sort();
    found.into_iter().find(|hwmon| read_text(&hwmon.join("name")).is_ok_and(|name| name == "amdgpu"))
}
