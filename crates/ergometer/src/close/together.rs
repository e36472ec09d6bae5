//! Fits one cost model to several runs of the same server, and writes their records again.
//!
//! One load cannot show what a step costs whatever its number of sequences; several loads can. The model is stored in the
//! journal of each run before its files are written, so a killed command is repeated by `ergo finalize`.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use ergometer_attribution::{Calibration, EngineLog, Steps};
use ergometer_clients::Locality;
use ergometer_runs::cost_model::{CostModels, Evidence};
use ergometer_runs::store::{MetadataShape, write_file};
use flate2::bufread::MultiGzDecoder;

use super::attribution::{Observed, fit_models};
use super::review_results::ReviewResults;
use super::session::{LoadedSession, MeteredSession};
use super::{CloseError, ClosedRun, close};
use crate::journal::{JournalError, JournalFolder, Lock, Manifest, SessionEvents, order};

/// A run that takes part in a fit. Reading it changes nothing.
struct Member {
    folder: PathBuf,
    journal: JournalFolder,
    manifest: Manifest,
    sessions: Vec<LoadedSession>,
    /// The steps of a new engine log that belong to the run. They are not in its journal yet.
    steps: Option<Vec<u8>>,
}

impl Member {
    /// Reads a run, and checks that its files can be derived and that it has energy to attribute.
    fn read(folder: &Path, engine_log: Option<&Path>) -> Result<Self, CloseError> {
        let journal = JournalFolder::of_run(folder);
        let manifest = journal.manifest()?;
        if let Locality::Elsewhere { host } = &manifest.place {
            return Err(CloseError::Elsewhere { path: folder.to_path_buf(), host: host.clone() });
        }
        let mut shape = MetadataShape::default();
        let sessions = journal.sessions()?.into_iter();
        let results = ReviewResults::new(&journal, &manifest)?;
        let reading = (&manifest, &results);
        let sessions = sessions.map(|number| LoadedSession::read((&journal, number), reading, &mut shape));
        let sessions = sessions.collect::<Result<Vec<_>, _>>()?;
        if !is_any_record(sessions.iter().map(|session| &session.events)) {
            return Err(CloseError::NoRecords { path: folder.to_path_buf() });
        }
        let steps = engine_log.map(|path| excerpt(path, folder, &sessions)).transpose()?;
        Ok(Self { folder: folder.to_path_buf(), journal, manifest, sessions, steps })
    }

    /// The new engine log, or the one in the journal.
    fn engine_log(&self) -> Result<Option<EngineLog>, CloseError> {
        let Some(steps) = &self.steps else { return Ok(self.journal.engine_log()?) };
        let path = self.journal.engine_log_path();
        Ok(Some(EngineLog::read(&steps[..]).map_err(|cause| CloseError::EngineLog { path, cause })?))
    }

    /// Writes the steps of a new engine log into the journal.
    fn write_steps(&self) -> Result<(), CloseError> {
        let Some(steps) = &self.steps else { return Ok(()) };
        Ok(write_file(&self.journal.engine_log_path(), steps)?)
    }

    fn name(&self) -> String {
        self.folder
            .file_name()
            .map_or_else(|| self.folder.display().to_string(), |name| name.to_string_lossy().into_owned())
    }
}

/// The lines of an engine log that belong to a run.
fn excerpt(path: &Path, run: &Path, sessions: &[LoadedSession]) -> Result<Vec<u8>, CloseError> {
    let requests = || sessions.iter().flat_map(|session| &session.events.requests);
    let first = requests().map(|located| located.sent).min();
    let last = requests().map(|located| located.end).max();
    let (first, last) = first.zip(last).ok_or_else(|| CloseError::NoRecords { path: run.to_path_buf() })?;
    let unusable = |cause| CloseError::EngineLog { path: path.to_path_buf(), cause };
    let file = File::open(path).map_err(|error| unusable(error.into()))?;
    let mut file = BufReader::new(file);
    let is_gzip = is_gzip(&mut file).map_err(|error| unusable(error.into()))?;
    let excerpt = if is_gzip {
        EngineLog::excerpt(BufReader::new(MultiGzDecoder::new(file)), first, last)
    } else {
        EngineLog::excerpt(file, first, last)
    };
    excerpt.map_err(unusable)
}

/// Whether a file is compressed with gzip. A read that a signal interrupts is repeated.
fn is_gzip(file: &mut impl BufRead) -> io::Result<bool> {
    loop {
        match file.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            filled => return filled.map(|start| start.starts_with(&[0x1f, 0x8b])),
        }
    }
}

/// Whether any request of these sessions is a record.
fn is_any_record<'a>(sessions: impl Iterator<Item = &'a SessionEvents>) -> bool {
    order(&sessions.collect::<Vec<_>>()).iter().any(|entry| entry.is_record)
}

/// Whether a run has a record, so that it can be closed.
pub(crate) fn has_record(journal: &JournalFolder) -> Result<bool, JournalError> {
    let events = journal.sessions()?.into_iter().map(|number| journal.events(number));
    let events = events.collect::<Result<Vec<SessionEvents>, _>>()?;
    Ok(is_any_record(events.iter()))
}

/// Copies the steps of an engine log that belong to a run into its journal, for [`close`]. A cost model that was fitted to
/// several runs without such steps is dropped if the steps match the run: [`close`] then fits one to them. The run must be
/// locked.
pub fn import_engine_log(folder: &Path, log: &Path) -> Result<(), CloseError> {
    let member = Member::read(folder, Some(log))?;
    let path = member.journal.cost_model_path();
    let together = CostModels::read_file(&path)?;
    let log = member.engine_log()?;
    let is_match =
        |session: &LoadedSession| log.as_ref().is_some_and(|log| Steps::from_log(log, &session.streams).is_ok());
    member.write_steps()?;
    if together.is_some_and(|models| models.evidence > Evidence::StepLog) && member.sessions.iter().any(is_match) {
        CostModels::remove_file(&path)?;
    }
    Ok(())
}

/// Why two runs cannot be fitted together; `None` if they can.
pub(crate) fn difference(one: &Manifest, other: &Manifest) -> Option<String> {
    let address = |manifest: &Manifest| server(manifest.config.client.base_url.as_deref().unwrap_or_default());
    let gpus = |manifest: &Manifest| manifest.gpus.iter().map(|gpu| gpu.name.as_str()).collect::<Vec<_>>().join(", ");
    let files = |manifest: &Manifest| manifest.model.fingerprint.clone().unwrap_or_default();
    let parameters =
        |manifest: &Manifest| manifest.model.parameters.map_or_else(String::new, |parameters| parameters.to_string());
    let devices = |manifest: &Manifest| Vec::<String>::from(manifest.config.devices.clone()).join(", ");
    let settings = [
        ("model", one.config.client.model.clone(), other.config.client.model.clone()),
        ("server", address(one), address(other)),
        ("client", one.config.client.id.clone(), other.config.client.id.clone()),
        ("hardware", one.hardware_label.clone(), other.hardware_label.clone()),
        ("devices", devices(one), devices(other)),
    ];
    // Not every server and machine reports these.
    let reported = [
        ("number of parameters of the model", parameters(one), parameters(other)),
        ("fingerprint of the model", files(one), files(other)),
        ("list of GPUs", gpus(one), gpus(other)),
    ];
    let reported = reported.into_iter().filter(|(_, one, other)| !one.is_empty() && !other.is_empty());
    let differing = settings.into_iter().chain(reported).find(|(_, one, other)| one != other)?;
    let (what, one, other) = differing;
    let named = |text: String| if text.is_empty() { String::from("none") } else { text };
    Some(format!("the {what} differs: {} and {}", named(one), named(other)))
}

/// The address of a server without what may be written in several ways.
fn server(address: &str) -> String {
    let address = address.trim_end_matches('/').trim_end_matches("/v1").trim_end_matches('/');
    ["://localhost", "://[::1]"].iter().fold(address.to_owned(), |address, name| {
        let is_whole = |rest: &str| rest.is_empty() || rest.starts_with([':', '/']);
        match address.split_once(name) {
            Some((scheme, rest)) if is_whole(rest) => format!("{scheme}://127.0.0.1{rest}"),
            _ => address,
        }
    })
}

/// Fits one cost model to several runs, and derives all their files again. With one run, it is fitted to itself. Results
/// are in the order of the folders. If one of the runs is refused, none is changed.
pub fn attribute(folders: &[PathBuf], engine_log: Option<&Path>) -> Result<Vec<ClosedRun>, CloseError> {
    let (mut members, mut locks): (Vec<Member>, Vec<Lock>) = (Vec::new(), Vec::new());
    for folder in folders {
        if members.iter().any(|member| same_folder(&member.folder, folder)) {
            return Err(CloseError::Twice { path: folder.clone() });
        }
        locks.push(JournalFolder::of_run(folder).lock()?);
        let member = Member::read(folder, engine_log)?;
        let why = members.first().and_then(|first| difference(&first.manifest, &member.manifest));
        if let Some(why) = why {
            return Err(CloseError::Apart { path: folder.clone(), why });
        }
        members.push(member);
    }
    let models = (members.len() > 1).then(|| fit_together(&members)).transpose()?.flatten();
    for member in &members {
        member.write_steps()?;
    }
    for member in &members {
        let path = member.journal.cost_model_path();
        match &models {
            Some(models) => models.write_file(&path)?,
            None => CostModels::remove_file(&path)?,
        }
    }
    let closed = members.iter().map(|member| close(&member.folder)).collect();
    drop(locks);
    closed
}

fn fit_together(members: &[Member]) -> Result<Option<CostModels>, CloseError> {
    let mut parts: Vec<(MeteredSession, Observed)> = Vec::new();
    for member in members {
        let log = member.engine_log()?;
        for loaded in &member.sessions {
            let session = MeteredSession::new(loaded, &member.manifest, &member.manifest.config.devices);
            let (observed, _) = Observed::new(&session, log.as_ref());
            // Without steps, or without net energy, a session shows nothing of the costs.
            if observed.steps.is_some() || observed.calibration.is_some() {
                parts.push((session, observed));
            }
        }
    }
    // Several runs may have copies of one calibration.
    let own = parts.iter().filter_map(|(_, observed)| observed.calibration.as_ref());
    let mut known: Vec<i64> = own.map(|calibration| calibration.measured_ns).collect();
    for member in members {
        let earlier = Calibration::read(&member.journal.calibration_path())?;
        let part = parts.iter_mut().find(|(_, observed)| observed.calibration.is_none());
        if let (Some(earlier), Some((session, observed))) = (earlier, part)
            && !known.contains(&earlier.measured_ns)
        {
            known.push(earlier.measured_ns);
            observed.reuse(earlier, session);
        }
    }
    let models = fit_models(parts.iter().map(|(session, observed)| (session, observed)));
    Ok(models.map(|models| CostModels { runs: members.iter().map(Member::name).collect(), ..models }))
}

/// Whether two paths are the same folder.
pub(crate) fn same_folder(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader whose first read a signal interrupts.
    struct Interrupted(Option<io::ErrorKind>, &'static [u8]);

    impl io::Read for Interrupted {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            match self.0.take() {
                Some(kind) => Err(kind.into()),
                None => io::Read::read(&mut self.1, bytes),
            }
        }
    }

    #[test]
    fn one_server_has_one_address() {
        for text in
            ["http://127.0.0.1:8000", "http://localhost:8000/", "http://[::1]:8000/v1", "http://127.0.0.1:8000/v1/"]
        {
            assert_eq!(server(text), "http://127.0.0.1:8000", "{text}");
        }
        assert_ne!(server("http://127.0.0.1:8001"), server("http://127.0.0.1:8000"));
        assert_eq!(server("http://localhosts.example/v2"), "http://localhosts.example/v2");
    }

    #[test]
    fn an_interrupted_read_of_an_engine_log_is_repeated() {
        for (bytes, expected) in [(&[0x1f, 0x8b, 8][..], true), (b"{}", false)] {
            let mut file = BufReader::new(Interrupted(Some(io::ErrorKind::Interrupted), bytes));
            assert_eq!(is_gzip(&mut file).unwrap(), expected);
        }
        let mut file = BufReader::new(Interrupted(Some(io::ErrorKind::Other), b"{}"));
        assert!(is_gzip(&mut file).is_err());
    }
}
