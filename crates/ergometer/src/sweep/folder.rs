//! Where a sweep is written, so that an older one of the same name is there until a run of the new one is.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use super::SweepError;
use crate::journal::JournalError;
use crate::run::{RunError, Target, beside, create, create_new, recover, remove, turn};
use ergometer_runs::sweep::SWEEP_FILE;

/// The file that keeps a second process out.
const LOCK_FILE: &str = "lock";

/// A folder of a sweep that is being written.
#[derive(Debug)]
pub struct SweepFolder {
    path: PathBuf,
    /// Where it is written until its first run is there, where it will take the place of another; with that one's lock.
    staged: Option<(PathBuf, File)>,
    /// Where it stands, where it could not take the place of the other.
    stranded: Option<PathBuf>,
    /// Nobody else writes here.
    _lock: File,
}

impl SweepFolder {
    /// Makes room. Nothing that is there is changed yet.
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
                // Whoever holds the old one's lock is alone here: what a killed sweep left has no whole run.
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

    /// Where the sweep stands now.
    #[must_use]
    pub fn now(&self) -> &Path {
        self.staged.as_ref().map(|(staged, _)| staged).or(self.stranded.as_ref()).unwrap_or(&self.path)
    }

    /// Where it will stand.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The sweep has its first run: from now on it has its own name, and what had it before is gone. Says whether it was
    /// moved; then what is in the run names a folder that is not there, and is to be derived again.
    pub fn commit(&mut self) -> Result<bool, SweepError> {
        let Some((staged, lock)) = self.staged.take() else { return Ok(false) };
        // Not every system renames a folder in which a file is open.
        drop(lock);
        let _turn = turn(&self.path)?;
        let old = beside(&self.path, "old");
        let moved = remove(&old).map_err(SweepError::from).and_then(|()| {
            fs::rename(&self.path, &old).map_err(JournalError::io("rename", &self.path))?;
            let moved = fs::rename(&staged, &self.path).map_err(JournalError::io("rename", &staged));
            // The old one is not left without its name.
            Ok(moved.inspect_err(|_| drop(fs::rename(&old, &self.path)))?)
        });
        if let Err(error) = moved {
            self.stranded = Some(staged);
            return Err(error);
        }
        remove(&old)?;
        Ok(true)
    }

    /// There is nothing to keep: what was made is taken away again.
    pub fn abandon(self) {
        let _ = remove(self.now());
    }
}

/// Keeps other processes out of a folder. `name` is what it is called to people.
fn lock(folder: &Path, name: &Path) -> Result<File, SweepError> {
    let path = folder.join(LOCK_FILE);
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(JournalError::io("open", &path))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            Err(RunError::Journal(JournalError::InUse { path: name.to_path_buf() }).into())
        }
        // A file system without locks is no reason not to measure.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

/// Whether a folder is a sweep, or the empty beginning of one: nothing else is ever replaced.
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
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1, "nothing is left behind");

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
    fn what_is_no_sweep_is_never_replaced() {
        let (_parent, path) = old_sweep();
        fs::remove_file(path.join(SWEEP_FILE)).unwrap();
        let refused = SweepFolder::prepare(&Target::Replace(path.clone())).unwrap_err();
        assert!(matches!(refused, SweepError::NotASweep { .. }), "{refused}");
        fs::remove_dir(path.join("concurrency_1")).unwrap();
        SweepFolder::prepare(&Target::Replace(path)).unwrap().abandon();
    }
}
