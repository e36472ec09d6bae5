//! Where the files of a journal stand, and the lock that keeps a second process out.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use super::{After, JournalError, JournalWriter, Manifest, SessionEvents};

/// The journal of one run folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalFolder {
    run: PathBuf,
}

/// A run folder that no other process writes to for as long as this lives.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl JournalFolder {
    /// That of a run folder, whether it is there or not.
    #[must_use]
    pub fn of_run(run: &Path) -> Self {
        Self { run: run.to_path_buf() }
    }

    /// Whether there is one.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.manifest_path().is_file()
    }

    /// Starts one.
    pub fn create(&self, manifest: &Manifest) -> Result<(), JournalError> {
        let folder = self.folder();
        fs::create_dir_all(&folder).map_err(JournalError::io("create", &folder))?;
        manifest.write(&self.manifest_path())
    }

    /// What the run is.
    pub fn manifest(&self) -> Result<Manifest, JournalError> {
        if !self.exists() {
            return Err(JournalError::NoJournal { path: self.run.clone() });
        }
        Manifest::read(&self.manifest_path())
    }

    /// Keeps other processes out.
    pub fn lock(&self) -> Result<Lock, JournalError> {
        let path = self.folder().join("lock");
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(JournalError::io("open", &path))?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Err(JournalError::InUse { path: self.run.clone() }),
            // A file system without locks is no reason not to measure.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Lock { _file: file }),
        }
    }

    /// The numbers of the sessions there are, in order.
    pub fn sessions(&self) -> Result<Vec<u32>, JournalError> {
        let folder = self.folder();
        let entries = fs::read_dir(&folder).map_err(JournalError::io("read", &folder))?;
        let number = |name: &str| name.strip_prefix("session-")?.strip_suffix(".events.jsonl")?.parse().ok();
        let mut sessions: Vec<u32> =
            entries.filter_map(|entry| number(&entry.ok()?.file_name().to_string_lossy())).collect();
        sessions.sort_unstable();
        Ok(sessions)
    }

    /// The events of a session.
    pub fn events(&self, session: u32) -> Result<SessionEvents, JournalError> {
        SessionEvents::read(&self.events_path(session))
    }

    /// Starts the events of a session.
    pub fn start_events(&self, session: u32) -> Result<JournalWriter, JournalError> {
        JournalWriter::create(&self.events_path(session))
    }

    /// What was found out after the run.
    pub fn after(&self) -> Result<After, JournalError> {
        After::read(&self.folder().join("after.jsonl"))
    }

    /// Where the events of a session stand.
    #[must_use]
    pub fn events_path(&self, session: u32) -> PathBuf {
        self.folder().join(format!("session-{session}.events.jsonl"))
    }

    /// Where the readings of a session stand: a recording as `ergo energy` reads it.
    #[must_use]
    pub fn readings_path(&self, session: u32) -> PathBuf {
        self.folder().join(format!("session-{session}.readings.jsonl"))
    }

    fn folder(&self) -> PathBuf {
        self.run.join("journal")
    }

    fn manifest_path(&self) -> PathBuf {
        self.folder().join("run.json")
    }
}
