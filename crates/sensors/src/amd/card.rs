//! Lists the GPUs of the amdgpu driver, ordered by PCI address.
//!
//! A partition of an MI300 is not a GPU. Partitions after the first belong to another driver (`amdgpu_xcp`) and have no
//! hwmon folder, so no energy is counted twice. Nothing here reads a file that wakes a sleeping GPU.

use std::io;
use std::path::{Path, PathBuf};

use crate::drm::{self, DrmCard, is_asleep};
use crate::sysfs::read_text;

/// The PCI vendor id of AMD.
const AMD: &str = "0x1002";

/// One AMD GPU.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Card {
    /// Its folder of PCI files.
    pub(super) folder: PathBuf,
    /// Its folder of hwmon files.
    pub(super) hwmon: Option<PathBuf>,
    /// Its PCI address, `0000:03:00.0`, or the name of the card if it has none.
    pub(super) address: String,
    /// The PCI id of the device.
    pub(super) chip: Chip,
    /// The product name.
    pub(super) name: String,
}

/// The PCI device id, which determines how counters are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chip(pub(super) u32);

impl Chip {
    /// MI210, MI250 and MI250X (Aldebaran in the driver's list of ids).
    pub(super) const fn is_mi200(self) -> bool {
        matches!(self.0, 0x7408 | 0x740c | 0x740f | 0x7410)
    }

    /// MI300 to MI355, on bare metal or in a virtual machine.
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

    /// Whether it is asleep. Most reads of a sleeping GPU fail; before Linux 6.15 they wake it.
    pub(super) fn sleeps(&self) -> bool {
        is_asleep(&self.runtime_status())
    }

    /// The file with its power state.
    pub(super) fn runtime_status(&self) -> PathBuf {
        self.file("power/runtime_status")
    }

    /// The partition mode, if it is partitioned: `CPX`.
    pub(super) fn partition(&self) -> Option<String> {
        read_text(&self.file("current_compute_partition")).ok().filter(|mode| !mode.is_empty() && mode != "SPX")
    }

    /// Whether the CPU and the GPU share the chip and its power. Only such chips have a northbridge voltage.
    pub(super) fn has_northbridge(&self) -> bool {
        self.hwmon.as_ref().is_some_and(|hwmon| read_text(&hwmon.join("in1_label")).is_ok_and(|label| label == "vddnb"))
    }
}

/// Lists the GPUs of the driver.
pub(super) fn find_cards(root: &Path) -> io::Result<Vec<Card>> {
    let mut cards: Vec<Card> = drm::find_cards(root)?.into_iter().filter_map(read_card).collect();
    cards.dedup_by(|one, other| one.address == other.address);
    Ok(cards)
}

fn read_card(card: DrmCard) -> Option<Card> {
    let hwmon = card.hwmon("amdgpu");
    let is_driven = match &card.driver {
        Some(driver) => driver == "amdgpu",
        None => hwmon.is_some() && read_text(&card.folder.join("vendor")).is_ok_and(|vendor| vendor == AMD),
    };
    if !is_driven {
        return None;
    }
    let chip = Chip(card.device_id());
    let product = read_text(&card.folder.join("product_name")).ok().filter(|name| !name.is_empty());
    let name = match product {
        Some(product) if product.starts_with("AMD") => product,
        Some(product) => format!("AMD {product}"),
        None => format!("AMD GPU {:#06x}", chip.0),
    };
    Some(Card { address: card.address, folder: card.folder, hwmon, chip, name })
}
