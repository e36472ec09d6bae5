//! The paths of a journal's files, and the lock on its run folder.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use ergometer_attribution::{EngineLog, EngineLogError};
use ergometer_clients::redact::Secrets;
use ergometer_runs::cost_model::COST_MODEL_FILE;
use ergometer_runs::folder::JOURNAL_FOLDER;
use ergometer_runs::regular_file;
use ergometer_runs::summary::SUMMARY_FILE;

use super::{JournalError, JournalWriter, Manifest, ReviewJournal, SessionEvents};

/// The journal of one run folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalFolder {
    run: PathBuf,
}

/// Locks a run folder against other processes until it is dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl JournalFolder {
    /// The journal of a run folder, which need not exist.
    #[must_use]
    pub fn of_run(run: &Path) -> Self {
        Self { run: run.to_path_buf() }
    }

    /// Whether the journal exists.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.manifest_path().is_file()
    }

    /// Whether the journal exists, or why that cannot be known, for example without the permission to look.
    pub fn try_exists(&self) -> Result<bool, JournalError> {
        let path = self.manifest_path();
        match fs::metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            found => Ok(found.map_err(JournalError::io("read", &path))?.is_file()),
        }
    }

    /// Creates the journal.
    pub fn create(&self, manifest: &Manifest) -> Result<(), JournalError> {
        let folder = self.folder();
        fs::create_dir_all(&folder).map_err(JournalError::io("create", &folder))?;
        manifest.write(&self.manifest_path())
    }

    /// Reads the manifest of the run.
    pub fn manifest(&self) -> Result<Manifest, JournalError> {
        if !self.run.exists() {
            let cause = std::io::Error::new(std::io::ErrorKind::NotFound, "no such file or folder");
            return Err(JournalError::Io { action: "read", path: self.run.clone(), cause });
        }
        if !self.exists() {
            let has_results = self.run.join(SUMMARY_FILE).is_file();
            return Err(JournalError::NoJournal { path: self.run.clone(), has_results });
        }
        Manifest::read(&self.manifest_path())
    }

    /// Locks the run folder. A journal that is a symbolic link is refused: a run folder may come from someone else, and
    /// resuming it would write elsewhere.
    pub fn lock(&self) -> Result<Lock, JournalError> {
        let folder = self.folder();
        if fs::symlink_metadata(&folder).is_ok_and(|found| found.is_symlink()) {
            let cause = std::io::Error::other("it is a symbolic link, and journals are not written through links");
            return Err(JournalError::Io { action: "open", path: folder, cause });
        }
        let path = folder.join("lock");
        let file = regular_file::open_to_write(File::options().create(true).truncate(false).write(true), &path);
        let file = file.map_err(JournalError::io("open", &path))?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Err(JournalError::InUse { path: self.run.clone() }),
            // Some file systems have no locks; measure anyway.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Lock { _file: file }),
        }
    }

    /// The numbers of the sessions, in order.
    pub fn sessions(&self) -> Result<Vec<u32>, JournalError> {
        let folder = self.folder();
        let entries = fs::read_dir(&folder).map_err(JournalError::io("read", &folder))?;
        let number = |name: &str| name.strip_prefix("session-")?.strip_suffix(".events.jsonl")?.parse().ok();
        let names = entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<Vec<_>, _>>();
        let names = names.map_err(JournalError::io("read", &folder))?;
        let mut sessions: Vec<u32> = names.iter().filter_map(|name| number(&name.to_string_lossy())).collect();
        sessions.sort_unstable();
        Ok(sessions)
    }

    /// Reads the events of a session.
    pub fn events(&self, session: u32) -> Result<SessionEvents, JournalError> {
        SessionEvents::read(&self.events_path(session))
    }

    /// Creates the events file of a session.
    pub fn start_events(&self, session: u32, secrets: Secrets) -> Result<JournalWriter, JournalError> {
        JournalWriter::create(&self.events_path(session), secrets)
    }

    /// Reads `after.jsonl`.
    pub fn review_journal(&self) -> Result<ReviewJournal, JournalError> {
        ReviewJournal::read(&self.folder().join("after.jsonl"))
    }

    /// The path of the events of a session.
    #[must_use]
    pub fn events_path(&self, session: u32) -> PathBuf {
        self.folder().join(format!("session-{session}.events.jsonl"))
    }

    /// The path of the readings of a session: a recording that `ergo energy` reads.
    #[must_use]
    pub fn readings_path(&self, session: u32) -> PathBuf {
        self.folder().join(format!("session-{session}.readings.jsonl"))
    }

    /// The path of the cost models that were fitted to several runs together.
    #[must_use]
    pub fn cost_model_path(&self) -> PathBuf {
        self.folder().join(COST_MODEL_FILE)
    }

    /// The path of what calibration requests showed: those of this run, or those of an earlier one.
    #[must_use]
    pub fn calibration_path(&self) -> PathBuf {
        self.folder().join("calibration.json")
    }

    /// The path of the engine log: the steps of the server during the run.
    #[must_use]
    pub fn engine_log_path(&self) -> PathBuf {
        self.folder().join("engine.log")
    }

    /// Reads the engine log; `None` if the run has none.
    pub fn engine_log(&self) -> Result<Option<EngineLog>, JournalError> {
        let path = self.engine_log_path();
        let file = match regular_file::open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(JournalError::io("open", &path))?,
        };
        match EngineLog::read(std::io::BufReader::new(file)) {
            Ok(log) => Ok(Some(log)),
            Err(EngineLogError::Io(cause)) => Err(JournalError::Io { action: "read", path, cause }),
            Err(error) => Err(JournalError::Damaged { path, what: error.to_string() }),
        }
    }

    fn folder(&self) -> PathBuf {
        self.run.join(JOURNAL_FOLDER)
    }

    fn manifest_path(&self) -> PathBuf {
        self.folder().join("run.json")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_journal_that_cannot_be_looked_at_is_an_error() {
        let run = tempfile::tempdir().unwrap();
        let journal = JournalFolder::of_run(run.path());
        assert!(!journal.try_exists().unwrap());
        fs::create_dir(journal.folder()).unwrap();
        fs::write(journal.manifest_path(), "{}").unwrap();
        assert!(journal.try_exists().unwrap());
        fs::remove_dir_all(journal.folder()).unwrap();
        // A link to itself fails for every user, unlike a folder without permissions.
        std::os::unix::fs::symlink(journal.folder(), journal.folder()).unwrap();
        let error = journal.try_exists().unwrap_err().to_string();
        assert!(error.starts_with("cannot read "), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_in_place_of_a_file_is_an_error_and_not_a_wait() {
        let run = tempfile::tempdir().unwrap();
        let journal = JournalFolder::of_run(run.path());
        fs::create_dir(journal.folder()).unwrap();
        for name in ["lock", "after.jsonl", "session-0.events.jsonl", "engine.log"] {
            let made = std::process::Command::new("mkfifo").arg(journal.folder().join(name)).status().unwrap();
            assert!(made.success());
        }
        let errors =
            [journal.lock().err(), journal.review_journal().err(), journal.events(0).err(), journal.engine_log().err()];
        for error in errors {
            let error = error.unwrap().to_string();
            assert!(error.starts_with("cannot open ") && error.ends_with(": it is not a regular file"), "{error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn nothing_is_written_through_links() {
        use std::os::unix::fs::symlink;
        let (run, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let theirs = elsewhere.path().join("theirs.txt");
        fs::write(&theirs, "years of work").unwrap();
        let journal = JournalFolder::of_run(run.path());
        symlink(elsewhere.path(), journal.folder()).unwrap();
        let error = journal.lock().unwrap_err();
        assert!(error.to_string().contains("symbolic link"), "{error}");
        fs::remove_file(journal.folder()).unwrap();
        fs::create_dir(journal.folder()).unwrap();
        for name in ["lock", "after.jsonl", "session-0.events.jsonl"] {
            symlink(&theirs, journal.folder().join(name)).unwrap();
        }
        assert!(journal.lock().is_err());
        assert!(journal.start_events(0, Secrets::default()).is_err());
        let count = super::super::TokenCount {
            request: 0,
            session: 0,
            usage: ergometer_clients::Usage {
                input: 1,
                output: 1,
                cached: None,
                source: ergometer_clients::TokenSource::Usage,
            },
        };
        let mut writer = journal.review_journal().unwrap().writer(Secrets::default());
        assert!(writer.write(&super::super::ReviewEntry::Counted(count)).is_err());
        assert_eq!(fs::read_to_string(&theirs).unwrap(), "years of work");
    }
}
