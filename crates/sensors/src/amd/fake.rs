//! A fake DRM class folder, and `gpu_metrics` tables in the kernel's layout, for tests.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;

use super::Options;

pub(super) struct FakeTree(TempDir);

/// A fake card: its number, PCI address and PCI id.
pub(super) struct FakeCard {
    pub(super) number: u32,
    pub(super) address: &'static str,
    pub(super) chip: &'static str,
}

impl FakeTree {
    pub(super) fn new() -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        for driver in ["amdgpu", "i915", "amdgpu_xcp_drv"] {
            fs::create_dir_all(tree.0.path().join("drivers").join(driver)).unwrap();
        }
        fs::create_dir(tree.root()).unwrap();
        tree
    }

    pub(super) fn root(&self) -> PathBuf {
        self.0.path().join("drm")
    }

    pub(super) fn options(&self) -> Options {
        let driver_version = self.0.path().join("version");
        Options { root: self.root(), driver_version, first_gpu: 0, watch: Duration::ZERO }
    }

    /// Adds a card of amdgpu with these files. Files named `hwmon/…` go to its hwmon folder.
    pub(super) fn add(&self, card: &FakeCard, files: &[(&str, &str)]) {
        self.add_driven_by("amdgpu", card, files);
    }

    pub(super) fn add_driven_by(&self, driver: &str, card: &FakeCard, files: &[(&str, &str)]) {
        let folder = self.folder(card.number);
        fs::create_dir_all(folder.join("power")).unwrap();
        symlink(self.0.path().join("drivers").join(driver), folder.join("driver")).unwrap();
        self.write(card.number, "vendor", b"0x1002\n");
        self.write(card.number, "device", format!("{}\n", card.chip).as_bytes());
        let uevent = format!("DRIVER={driver}\nPCI_ID=1002:{}\nPCI_SLOT_NAME={}\n", &card.chip[2..], card.address);
        self.write(card.number, "uevent", uevent.as_bytes());
        self.write(card.number, "power/runtime_status", b"active\n");
        if files.iter().any(|(name, _)| name.starts_with("hwmon/")) {
            fs::create_dir_all(folder.join("hwmon/hwmon5")).unwrap();
            self.write(card.number, "hwmon/name", b"amdgpu\n");
        }
        for (name, text) in files {
            self.write(card.number, name, format!("{text}\n").as_bytes());
        }
    }

    pub(super) fn write(&self, number: u32, name: &str, content: &[u8]) {
        fs::write(self.path(number, name), content).unwrap();
    }

    /// Replaces a file by a folder, so that reading it fails.
    pub(super) fn spoil(&self, number: u32, name: &str) {
        let path = self.path(number, name);
        fs::remove_file(&path).unwrap();
        fs::create_dir(path).unwrap();
    }

    pub(super) fn path(&self, number: u32, name: &str) -> PathBuf {
        let name = name.strip_prefix("hwmon/").map_or_else(|| name.to_owned(), |name| format!("hwmon/hwmon5/{name}"));
        self.folder(number).join(name)
    }

    fn folder(&self, number: u32) -> PathBuf {
        self.root().join(format!("card{number}")).join("device")
    }
}

/// A table with a header and these fields; all other bytes are zero.
pub(super) fn table((format, content): (u8, u8), size: usize, fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; size];
    bytes[..2].copy_from_slice(&u16::try_from(size).unwrap().to_le_bytes());
    bytes[2..4].copy_from_slice(&[format, content]);
    for (offset, field) in fields {
        bytes[*offset..offset + field.len()].copy_from_slice(field);
    }
    bytes
}

/// A table of revision 1.9 with this energy and these cycles: total, processor hot, power, socket, regulator, memory.
pub(super) fn fields_1_9(energy: u64, cycles: [u32; 6]) -> Vec<u8> {
    const U16: u64 = 2;
    const U32: u64 = 4;
    const U64: u64 = 6;
    let mut list: Vec<(u64, u64, u64, Vec<u8>)> = vec![
        (0, U16, 1, 59_u16.to_le_bytes().to_vec()),
        (3, U16, 1, 706_u16.to_le_bytes().to_vec()),
        (7, U64, 1, energy.to_le_bytes().to_vec()),
        (8, U64, 1, 1_713_024_458_751_u64.to_le_bytes().to_vec()),
    ];
    list.extend((9..).zip(cycles).map(|(field, count)| (field, U32, 1, count.to_le_bytes().to_vec())));
    list.push((29, U64, 8, vec![0xff; 64]));
    list.push((33, U16, 8, vec![5; 16]));
    let count = i32::try_from(list.len()).unwrap();
    let mut bytes = vec![0, 0, 1, 9];
    bytes.extend(count.to_le_bytes());
    for (field, kind, many, values) in list {
        bytes.extend((kind << 20 | field << 10 | many).to_le_bytes());
        bytes.extend(values);
    }
    let size = u16::try_from(bytes.len()).unwrap();
    bytes[..2].copy_from_slice(&size.to_le_bytes());
    bytes
}
