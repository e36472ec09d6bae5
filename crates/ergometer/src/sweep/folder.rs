//! Manages the folder of a sweep. A sweep that replaces an older one is written next to it until its first run is
//! complete.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use super::SweepError;
use crate::journal::JournalError;
use crate::run::{RunError, Target, beside, create, create_new, recover, remove, turn};
use ergometer_runs::sweep::SWEEP_FILE;

/// The lock file against other processes.
const LOCK_FILE: &str = "lock";

/// The folder of a sweep that is being written.
#[derive(Debug)]
pub struct SweepFolder {
    path: PathBuf,
    /// The temporary folder of a sweep that will replace another, with the lock of the other sweep; `None` after the
    /// first run.
    staged: Option<(PathBuf, File)>,
    /// The temporary folder, if it could not be renamed to its final name.
    stranded: Option<PathBuf>,
    /// Keeps other processes from writing here.
    _lock: File,
}

impl SweepFolder {
    /// Creates the folder. An existing sweep is not changed yet.
    pub fn prepare(target: &Target) -> Result<Self, SweepError> {
        let (Target::New(path) | Target::Replace(path) | Target::Resume(path)) = target;
        let path = path.clone();
        let _turn = turn(&path)?;
        recover(&path)?;
        match target {
            Target::Resume(_) => Ok(Self { _lock: lock(&path, &path)?, path, staged: None, stranded: None }),
            Target::Replace(_) if path.exists() => {
                if !is_sweep(&path) {
                    return Err(SweepError::NotASweep { path });
                }
                let old = lock(&path, &path)?;
                let staged = beside(&path, "new");
                // The lock of the old sweep is held, so this folder is what a killed sweep left: it has no complete
                // run.
                remove(&staged)?;
                create(&staged)?;
                Ok(Self { _lock: lock(&staged, &path)?, path, staged: Some((staged, old)), stranded: None })
            }
            Target::New(_) | Target::Replace(_) => {
                create_new(&path)?;
                Ok(Self { _lock: lock(&path, &path)?, path, staged: None, stranded: None })
            }
        }
    }

    /// The current path of the sweep.
    #[must_use]
    pub fn now(&self) -> &Path {
        self.staged.as_ref().map(|(staged, _)| staged).or(self.stranded.as_ref()).unwrap_or(&self.path)
    }

    /// The final path of the sweep.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the folder to its final name after the first run, and removes the replaced sweep. Returns whether it was
    /// moved; the files of the run then contain the old path and must be derived again.
    pub fn commit(&mut self) -> Result<bool, SweepError> {
        let Some((staged, lock)) = self.staged.take() else { return Ok(false) };
        // Some systems cannot rename a folder that contains an open file.
        drop(lock);
        let _turn = turn(&self.path)?;
        let old = beside(&self.path, "old");
        let moved = remove(&old).map_err(SweepError::from).and_then(|()| {
            fs::rename(&self.path, &old).map_err(JournalError::io("rename", &self.path))?;
            let moved = fs::rename(&staged, &self.path).map_err(JournalError::io("rename", &staged));
            // On an error, the old sweep gets its name back.
            Ok(moved.inspect_err(|_| drop(fs::rename(&old, &self.path)))?)
        });
        if let Err(error) = moved {
            self.stranded = Some(staged);
            return Err(error);
        }
        remove(&old)?;
        Ok(true)
    }

    /// Removes the folder of a new sweep without a run.
    pub fn abandon(self) {
        let _ = remove(self.now());
    }
}

/// Locks a folder against other processes. `name` is the path in error messages.
fn lock(folder: &Path, name: &Path) -> Result<File, SweepError> {
    let path = folder.join(LOCK_FILE);
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(JournalError::io("open", &path))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            Err(RunError::Journal(JournalError::InUse { path: name.to_path_buf() }).into())
        }
        // Some file systems have no locks; measure anyway.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

/// Whether a folder is a sweep, or the empty start of one. Nothing else is ever replaced.
fn is_sweep(path: &Path) -> bool {
    let is_begun = || {
        let names = fs::read_dir(path).map(|entries| entries.flatten().map(|entry| entry.file_name()));
        names.is_ok_and(|mut names| names.all(|name| name == LOCK_FILE))
    };
    path.join(SWEEP_FILE).is_file() || is_begun()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn old_sweep() -> (tempfile::TempDir, PathBuf) {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("sweep_x");
        fs::create_dir(&path).unwrap();
        fs::write(path.join(SWEEP_FILE), "old").unwrap();
        fs::create_dir(path.join("concurrency_1")).unwrap();
        (parent, path)
    }

    #[test]
    fn a_sweep_is_replaced_as_a_whole_once_the_new_one_has_a_run() {
        let (parent, path) = old_sweep();
        let exists = SweepFolder::prepare(&Target::New(path.clone())).unwrap_err();
        assert!(matches!(exists, SweepError::Run(RunError::Exists { .. })), "{exists}");
        let folder = SweepFolder::prepare(&Target::Replace(path.clone())).unwrap();
        fs::write(folder.now().join(SWEEP_FILE), "new").unwrap();
        folder.abandon();
        assert_eq!(fs::read_to_string(path.join(SWEEP_FILE)).unwrap(), "old");
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1, "no other folder is left");

        let mut folder = SweepFolder::prepare(&Target::Replace(path.clone())).unwrap();
        fs::write(folder.now().join(SWEEP_FILE), "new").unwrap();
        assert!(folder.commit().unwrap() && !folder.commit().unwrap());
        assert_eq!(folder.now(), path);
        assert_eq!(fs::read_to_string(path.join(SWEEP_FILE)).unwrap(), "new");
        assert!(!path.join("concurrency_1").exists(), "runs of two sweeps are not mixed");
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_sweep_in_progress_is_left_alone() {
        let (_parent, path) = old_sweep();
        let _first = SweepFolder::prepare(&Target::Resume(path.clone())).unwrap();
        for target in [Target::Resume(path.clone()), Target::Replace(path.clone())] {
            let second = SweepFolder::prepare(&target).unwrap_err();
            assert!(second.to_string().contains("in use by another ergo"), "{second}");
        }
    }

    #[test]
    fn only_sweeps_are_replaced() {
        let (_parent, path) = old_sweep();
        fs::remove_file(path.join(SWEEP_FILE)).unwrap();
        let refused = SweepFolder::prepare(&Target::Replace(path.clone())).unwrap_err();
        assert!(matches!(refused, SweepError::NotASweep { .. }), "{refused}");
        fs::remove_dir(path.join("concurrency_1")).unwrap();
        SweepFolder::prepare(&Target::Replace(path)).unwrap().abandon();
    }
}
