//! A fake `/proc` for tests.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use tempfile::TempDir;

use super::Options;

pub(super) struct FakeProc(TempDir);

impl FakeProc {
    /// A machine with two processors and no process.
    pub(super) fn new() -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(tree.root().join("self")).unwrap();
        fs::write(tree.root().join("stat"), "cpu  9 0 9 99\ncpu0 4 0 4 49\ncpu1 5 0 5 50\nintr 1 2\n").unwrap();
        tree
    }

    fn root(&self) -> PathBuf {
        self.0.path().join("proc")
    }

    pub(super) fn options(&self) -> Options {
        Options { proc_root: self.root(), passwd: self.0.path().join("passwd") }
    }

    /// Adds or changes a process with 100 MiB of memory and all its time in user mode.
    pub(super) fn process(&self, id: u32, name: &[u8], ticks: u64, started: u64) -> &Self {
        fs::create_dir_all(self.root().join(id.to_string())).unwrap();
        let head = format!("{id} (");
        let rest = format!(
            ") S 1 1 1 0 -1 4194560 12 0 3 0 {ticks} 0 0 0 20 0 8 0 {started} 1073741824 25600 18446744073709551615 1\n"
        );
        self.write(id, "stat", &[head.as_bytes(), name, rest.as_bytes()].concat()).write(id, "cmdline", b"a\0b\0")
    }

    pub(super) fn write(&self, id: u32, file: &str, content: &[u8]) -> &Self {
        fs::write(self.root().join(id.to_string()).join(file), content).unwrap();
        self
    }

    /// Sets the namespace of process ids.
    pub(super) fn namespace(&self, name: &str) -> &Self {
        let folder = self.root().join("self/ns");
        fs::create_dir_all(&folder).unwrap();
        let _ = fs::remove_file(folder.join("pid"));
        symlink(name, folder.join("pid")).unwrap();
        self
    }

    /// Adds an open file to a process.
    pub(super) fn opens(&self, id: u32, path: &str) -> &Self {
        let folder = self.root().join(id.to_string()).join("fd");
        fs::create_dir_all(&folder).unwrap();
        symlink(path, folder.join("3")).unwrap();
        self
    }

    pub(super) fn remove(&self, id: u32, file: &str) -> &Self {
        fs::remove_file(self.root().join(id.to_string()).join(file)).unwrap();
        self
    }

    /// Ends a process.
    pub(super) fn end(&self, id: u32) -> &Self {
        fs::remove_dir_all(self.root().join(id.to_string())).unwrap();
        self
    }

    /// The owner of all folders, without a name in the fake `passwd`.
    pub(super) fn user(&self) -> String {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(self.root()).unwrap().uid().to_string()
    }
}
