//! A fake powercap tree, and counters with controlled errors and movement, for tests.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, path::PathBuf};

use tempfile::TempDir;

use super::counter_file::{OpenCounter, Sysfs};
use super::{Options, zone::Tree, zone::read_tree};
use crate::energy_counter::ReadCounter;

pub(super) const RANGE: &str = "262143328850";

pub(super) struct FakeTree(TempDir);

impl FakeTree {
    /// Zones with this folder, name and count, and Intel's usual range.
    pub(super) fn new(zones: &[(&str, &str, &str)]) -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(tree.root()).unwrap();
        fs::write(tree.0.path().join("stat"), "cpu 0 0 0 0 0 0 0 0\n").unwrap();
        for (folder, name, count) in zones {
            fs::create_dir(tree.root().join(folder)).unwrap();
            for (file, text) in [("name", *name), ("energy_uj", count), ("max_energy_range_uj", RANGE)] {
                tree.write(folder, file, format!("{text}\n").as_bytes());
            }
        }
        tree
    }

    pub(super) fn root(&self) -> PathBuf {
        self.0.path().join("powercap")
    }

    pub(super) fn write(&self, folder: &str, file: &str, content: &[u8]) {
        fs::write(self.root().join(folder).join(file), content).unwrap();
    }

    pub(super) fn remove(&self, folder: &str, file: &str) {
        fs::remove_file(self.root().join(folder).join(file)).unwrap();
    }

    /// Sets the busy and idle ticks of all processors.
    pub(super) fn write_stat(&self, busy: u64, idle: u64) {
        fs::write(self.0.path().join("stat"), format!("cpu {busy} 0 0 {idle} 0 0 0 0\n")).unwrap();
    }

    pub(super) fn read(&self) -> Tree {
        read_tree(&self.root()).unwrap()
    }

    pub(super) fn options(&self) -> Options {
        let proc_root = self.0.path().to_owned();
        let [event_root, processor_root] = ["event_source", "cpu"].map(|folder| self.0.path().join(folder));
        // As on a machine with RAPL, wherever the test runs.
        let driver = Some("intel_rapl_msr");
        Options { root: self.root(), event_root, processor_root, proc_root, driver, watch: std::time::Duration::ZERO }
    }
}

/// Counters that add a microjoule to the value of their file at each read of any of them, so that all move together.
#[derive(Default)]
pub(super) struct FakeCounters {
    reads: Arc<AtomicU64>,
    still: Vec<&'static str>,
    failing: RefCell<BTreeMap<&'static str, Arc<AtomicU64>>>,
}

impl FakeCounters {
    /// The counters of these folders do not move.
    pub(super) fn with_still(folders: &[&'static str]) -> Self {
        Self { still: folders.to_vec(), ..Self::default() }
    }

    /// The `errno` with which reads of this folder's counter fail; 0 for none.
    pub(super) fn errno_of(&self, folder: &'static str) -> Arc<AtomicU64> {
        Arc::clone(self.failing.borrow_mut().entry(folder).or_default())
    }
}

impl OpenCounter for FakeCounters {
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadCounter>> {
        let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap();
        let errno = self.failing.borrow().get(folder).cloned().unwrap_or_default();
        let step = u64::from(!self.still.contains(&folder));
        Ok(Box::new(FakeCounter { file: Sysfs.open(path)?, reads: Arc::clone(&self.reads), step, errno }))
    }
}

struct FakeCounter {
    file: Box<dyn ReadCounter>,
    reads: Arc<AtomicU64>,
    step: u64,
    errno: Arc<AtomicU64>,
}

impl ReadCounter for FakeCounter {
    fn read(&mut self) -> io::Result<u64> {
        let errno = self.errno.load(Ordering::Relaxed);
        if errno > 0 {
            return Err(io::Error::from_raw_os_error(i32::try_from(errno).unwrap()));
        }
        Ok(self.file.read()? + self.step * self.reads.fetch_add(1, Ordering::Relaxed))
    }
}

/// Denies permission, as for every user but root.
pub(super) struct Denied;

impl OpenCounter for Denied {
    fn open(&self, _: &Path) -> io::Result<Box<dyn ReadCounter>> {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}
