//! Manages the run folder. A run that replaces an older one is written next to it until it has its first record.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use ergometer_runs::folder::JOURNAL_FOLDER;
use ergometer_runs::summary::SUMMARY_FILE;

use super::RunError;
use super::replacement::{clear, create, create_new, finish, remove, staged_path, take_place, turn};
use crate::journal::{JournalFolder, Lock, Manifest};

/// How to use the run folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Create it; it must not exist.
    New(PathBuf),
    /// Create it; an existing run is replaced once the new run has its first record.
    Replace(PathBuf),
    /// Resume the run in it.
    Resume(PathBuf),
}

/// A run folder that is being written.
#[derive(Debug)]
pub(crate) struct RunFolder {
    path: PathBuf,
    /// The temporary folder until the first record; `None` afterwards.
    staged: Mutex<Option<StagedRun>>,
    has_record: AtomicBool,
    /// Keeps other processes from writing here.
    _lock: Lock,
}

/// A run in a temporary folder that will replace another run.
#[derive(Debug)]
struct StagedRun {
    path: PathBuf,
    /// Keeps other processes from resuming or replacing the old run. `None` if it has no journal.
    old: Option<Lock>,
    /// Whether it could not be renamed. Then the old run keeps its name.
    is_stranded: bool,
}

impl RunFolder {
    /// Creates the folder and starts the journal of a new run. An existing run is not changed yet.
    pub(crate) fn prepare(target: &Target, manifest: &Manifest) -> Result<Self, RunError> {
        let folder = |path: &Path, staged: Option<StagedRun>, has_record, lock| Self {
            path: path.to_path_buf(),
            staged: Mutex::new(staged),
            has_record: AtomicBool::new(has_record),
            _lock: lock,
        };
        // Created with its journal and lock before another process can open it.
        let started = |path: &Path| -> Result<Lock, RunError> {
            let journal = JournalFolder::of_run(path);
            let begun = journal.create(manifest).and_then(|()| journal.lock());
            Ok(begun.inspect_err(|_| drop(remove(path)))?)
        };
        let (Target::New(path) | Target::Replace(path) | Target::Resume(path)) = target;
        let _turn = turn(path)?;
        finish(path)?;
        if !matches!(target, Target::Resume(_)) && is_unstarted(path) {
            remove(path)?;
        }
        match target {
            Target::New(path) => {
                create_new(path)?;
                Ok(folder(path, None, false, started(path)?))
            }
            Target::Replace(path) if !path.exists() => {
                create_new(path)?;
                Ok(folder(path, None, false, started(path)?))
            }
            Target::Replace(path) => {
                if !is_run(path) {
                    return Err(RunError::NotARun { path: path.clone() });
                }
                let old = lock_if_there(path)?;
                let staged = staged_path(path);
                drop(lock_if_there(&staged)?);
                // A killed run left this folder without a record, or a run that could not get its name.
                remove(&staged)?;
                create(&staged)?;
                let lock = started(&staged)?;
                Ok(folder(path, Some(StagedRun { path: staged, old, is_stranded: false }), false, lock))
            }
            Target::Resume(path) => Ok(folder(path, None, true, JournalFolder::of_run(path).lock()?)),
        }
    }

    /// The current path of the run.
    pub(crate) fn now(&self) -> PathBuf {
        self.lock().as_ref().map_or_else(|| self.path.clone(), |staged| staged.path.clone())
    }

    /// The final path of the run.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the folder to its final name after the first record, and moves the replaced run aside. On an error, the
    /// old run keeps its name, and the new one stays in its temporary folder.
    pub(crate) fn commit(&self) -> Result<(), RunError> {
        self.has_record.store(true, Ordering::Relaxed);
        let mut staged = self.lock();
        let Some(StagedRun { path: new, old: lock, is_stranded }) = staged.as_mut().filter(|new| !new.is_stranded)
        else {
            return Ok(());
        };
        let _turn = turn(&self.path)?;
        // Some systems cannot rename a folder that contains an open file.
        *lock = None;
        if let Err(cause) = take_place(new, &self.path) {
            *is_stranded = true;
            let (path, new) = (self.path.clone(), new.clone());
            return Err(RunError::NotReplaced { path, new, cause: Box::new(cause) });
        }
        *staged = None;
        Ok(())
    }

    /// Deletes the replaced run. Called after the measurement.
    pub(crate) fn clear(&self) {
        if self.has_record() && self.lock().is_none() {
            clear(&self.path);
        }
    }

    /// Whether the run has a record. A resumed run is always kept.
    pub(crate) fn has_record(&self) -> bool {
        self.has_record.load(Ordering::Relaxed)
    }

    /// Removes the folder of a new run without a record.
    pub(crate) fn abandon(&self) {
        if !self.has_record() {
            let _ = remove(&self.now());
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<StagedRun>> {
        self.staged.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn lock_if_there(run: &Path) -> Result<Option<Lock>, RunError> {
    let journal = JournalFolder::of_run(run);
    Ok(if journal.exists() { Some(journal.lock()?) } else { None })
}

/// Whether a folder is a run, or the empty start of one. Nothing else is ever replaced.
fn is_run(path: &Path) -> bool {
    let is_empty = || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    path.join(SUMMARY_FILE).is_file() || JournalFolder::of_run(path).exists() || is_empty()
}

/// Whether a folder is what a run leaves that was killed before its first file: nothing but a journal with a lock and
/// temporary files. It holds nothing to keep, so a new run may take its name. A sweep that has just started is not meant:
/// its folder has a lock.
#[must_use]
pub fn is_unstarted(path: &Path) -> bool {
    match names_in(path).as_deref() {
        Some([]) => true,
        Some([only]) if only == JOURNAL_FOLDER => names_in(&path.join(only)).is_some_and(|names| {
            names.iter().all(|name| name == "lock" || name == "run.json.new" || is_partial(name, "run.json"))
        }),
        _ => false,
    }
}

/// The names in a folder; `None` if it is not a folder.
pub(crate) fn names_in(folder: &Path) -> Option<Vec<String>> {
    let is_folder = fs::symlink_metadata(folder).is_ok_and(|found| found.is_dir());
    let entries = is_folder.then(|| fs::read_dir(folder).ok()).flatten()?;
    entries.map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}

/// Whether a name is that of a temporary file for this file.
pub(crate) fn is_partial(name: &str, file: &str) -> bool {
    name.starts_with(&format!(".{file}.")) && name.ends_with(".partial")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::JournalError;
    use crate::sweep::SweepFolder;

    fn manifest() -> Manifest {
        let config = serde_json::json!({
            "dataset": {"id": "builtin"}, "client": {"id": "embedded", "model": "tiny"}, "request": {"seed": 0},
            "schedule": {"mode": "concurrency", "concurrency": 1}, "warmup": 0, "idle_s": 0.0, "devices": [], "server_is_local": false, "model_cpu": true,
            "prices": {},
        });
        let manifest = serde_json::json!({
            "format_version": 1, "ergometer": "0", "created_ns": 0, "config": config, "config_hash": "",
            "dataset": {"id": "builtin", "name": "builtin", "fingerprint": ""}, "grader": "none", "model": {},
            "place": {"is": "this_process"}, "hardware_label": "X", "system_info": {}, "gpus": [],
        });
        serde_json::from_value(manifest).unwrap()
    }

    fn prepare(target: &Target) -> Result<RunFolder, RunError> {
        RunFolder::prepare(target, &manifest())
    }

    fn run_folder() -> (tempfile::TempDir, PathBuf) {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("profile_x");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("summary.json"), "{\"old\":true}").unwrap();
        (parent, path)
    }

    #[test]
    fn a_run_is_replaced_only_by_a_run_with_a_record() {
        let (parent, path) = run_folder();
        assert!(matches!(prepare(&Target::New(path.clone())), Err(RunError::Exists { .. })));
        let folder = prepare(&Target::Replace(path.clone())).unwrap();
        fs::write(folder.now().join("summary.json"), "new").unwrap();
        assert!(fs::read_to_string(path.join("summary.json")).unwrap().contains("old"));
        folder.abandon();
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1, "no other folder is left");

        let folder = prepare(&Target::Replace(path.clone())).unwrap();
        fs::write(folder.now().join("summary.json"), "new").unwrap();
        folder.commit().unwrap();
        folder.commit().unwrap();
        folder.clear();
        assert_eq!(folder.now(), path);
        assert_eq!(fs::read_to_string(path.join("summary.json")).unwrap(), "new");
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_run_killed_before_its_manifest_does_not_block_its_name() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("profile_x");
        let files: [&[&str]; 4] = [&[], &[".run.json.a1B2.partial"], &["run.json.new"], &["lock"]];
        for files in files {
            for target in [Target::New(path.clone()), Target::Replace(path.clone())] {
                fs::create_dir_all(path.join("journal")).unwrap();
                for file in files {
                    fs::write(path.join("journal").join(file), "{").unwrap();
                }
                let folder = prepare(&target).unwrap();
                assert!(JournalFolder::of_run(&path).exists(), "{files:?}");
                drop(folder);
                fs::remove_dir_all(&path).unwrap();
            }
        }
        fs::create_dir_all(path.join("journal")).unwrap();
        fs::write(path.join("journal/session-0.events.jsonl"), "{}").unwrap();
        assert!(matches!(prepare(&Target::New(path.clone())), Err(RunError::Exists { .. })), "it has events");
    }

    #[test]
    fn a_sweep_that_has_just_started_is_not_replaced_by_a_run() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("sweep_x");
        let sweep = SweepFolder::prepare(&Target::New(path.clone())).unwrap();
        assert!(matches!(prepare(&Target::New(path.clone())), Err(RunError::Exists { .. })));
        assert!(matches!(prepare(&Target::Replace(path.clone())), Err(RunError::NotARun { .. })));
        fs::write(path.join(".sweep.json.a1B2.partial"), "{").unwrap();
        assert!(matches!(prepare(&Target::New(path.clone())), Err(RunError::Exists { .. })));
        assert!(path.join("lock").is_file());
        drop(sweep);
    }

    #[test]
    fn two_runs_that_start_at_once_do_not_share_a_folder() {
        let (_parent, path) = run_folder();
        let _first = prepare(&Target::Replace(path.clone())).unwrap();
        let second = prepare(&Target::Replace(path.clone())).unwrap_err();
        assert!(matches!(second, RunError::Journal(JournalError::InUse { .. })), "{second}");
        let fresh = path.with_file_name("profile_y");
        let _first = prepare(&Target::New(fresh.clone())).unwrap();
        let second = prepare(&Target::Replace(fresh.clone())).unwrap_err();
        assert!(matches!(second, RunError::Journal(JournalError::InUse { .. })), "{second}");
        assert!(matches!(prepare(&Target::New(fresh)), Err(RunError::Exists { .. })));
    }

    #[test]
    fn only_runs_are_replaced() {
        let (_parent, path) = run_folder();
        fs::remove_file(path.join("summary.json")).unwrap();
        fs::write(path.join("thesis.tex"), "years of work").unwrap();
        assert!(matches!(prepare(&Target::Replace(path.clone())), Err(RunError::NotARun { .. })));
        assert!(path.join("thesis.tex").exists());
    }
}
