//! Manages the folder of a sweep. A sweep that replaces an older one is written next to it until its first run is
//! complete.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use super::SweepError;
use crate::journal::JournalError;
use crate::run::{
    RunError, Target, clear, create, create_new, finish, is_partial, names_in, remove, staged_path, take_place, turn,
};
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
        finish(&path)?;
        if !matches!(target, Target::Resume(_)) && is_unstarted(&path) {
            drop(lock(&path, &path)?);
            remove(&path)?;
        }
        match target {
            Target::Resume(_) => {
                let lock = lock(&path, &path)?;
                clear(&path);
                Ok(Self { _lock: lock, path, staged: None, stranded: None })
            }
            Target::Replace(_) if path.exists() => {
                if !path.join(SWEEP_FILE).is_file() {
                    return Err(SweepError::NotASweep { path });
                }
                let old = lock(&path, &path)?;
                let staged = staged_path(&path);
                // The lock of the old sweep is held, so this folder is what a killed sweep left, without a complete run,
                // or a sweep that could not get its name.
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

    /// Whether [`commit`](Self::commit) will move the folder.
    #[must_use]
    pub fn is_staged(&self) -> bool {
        self.staged.is_some()
    }

    /// Renames the folder to its final name after the first run, and removes the replaced sweep. Returns whether it was
    /// moved; the files of the run then contain the old path and must be derived again.
    pub fn commit(&mut self) -> Result<bool, SweepError> {
        let Some((staged, lock)) = self.staged.take() else { return Ok(false) };
        // Some systems cannot rename a folder that contains an open file.
        drop(lock);
        let _turn = turn(&self.path)?;
        if let Err(error) = take_place(&staged, &self.path) {
            self.stranded = Some(staged);
            return Err(error.into());
        }
        clear(&self.path);
        Ok(true)
    }

    /// Removes the folder of a new sweep without a run.
    pub fn abandon(self) {
        let _ = remove(self.now());
    }
}

/// Whether a folder is what a sweep leaves that was killed before its first file: nothing but a lock and temporary files. It
/// holds nothing to keep, so a new sweep may take its name.
#[must_use]
pub fn is_unstarted(path: &Path) -> bool {
    names_in(path).is_some_and(|names| names.iter().all(|name| name == LOCK_FILE || is_partial(name, SWEEP_FILE)))
}

/// Locks a folder against other processes. `name` is the path in error messages.
fn lock(folder: &Path, name: &Path) -> Result<File, SweepError> {
    let path = folder.join(LOCK_FILE);
    let mut options = File::options();
    options.create(true).truncate(false).write(true);
    // A folder from somebody else may have a link here.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    let file = options.open(&path);
    let file = file.map_err(JournalError::io("open", &path))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            Err(RunError::Journal(JournalError::InUse { path: name.to_path_buf() }).into())
        }
        // Some file systems have no locks; measure anyway.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

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
    fn a_sweep_killed_before_its_first_file_does_not_block_its_name() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("sweep_x");
        for files in [&[][..], &["lock"], &["lock", ".sweep.json.a1B2.partial"]] {
            for target in [Target::New(path.clone()), Target::Replace(path.clone())] {
                fs::create_dir(&path).unwrap();
                for file in files {
                    fs::write(path.join(file), "{").unwrap();
                }
                let folder = SweepFolder::prepare(&target).unwrap();
                let second = SweepFolder::prepare(&target).unwrap_err();
                assert!(second.to_string().contains("in use by another ergo"), "{second}");
                folder.abandon();
                assert!(!path.exists(), "{files:?}");
            }
        }
    }

    #[test]
    fn a_resumed_sweep_removes_the_sweep_that_it_replaced() {
        let (parent, path) = old_sweep();
        fs::create_dir(parent.path().join(".sweep_x.old")).unwrap();
        let _folder = SweepFolder::prepare(&Target::Resume(path)).unwrap();
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn a_lock_that_is_a_link_is_not_followed() {
        let (parent, path) = old_sweep();
        let target = parent.path().join("elsewhere");
        std::os::unix::fs::symlink(&target, path.join(LOCK_FILE)).unwrap();
        let refused = SweepFolder::prepare(&Target::Resume(path)).unwrap_err();
        assert!(refused.to_string().contains(LOCK_FILE), "{refused}");
        assert!(!target.exists());
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
