//! Fits one cost model to several runs of the same server, and writes their records again.
//!
//! One load cannot show what a step costs whatever its number of sequences; several loads can. The model is stored in the
//! journal of each run before its files are written, so a killed command is repeated by `ergo finalize`.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use ergometer_attribution::{Calibration, EngineLog};
use ergometer_runs::store::{MetadataShape, write_file};
use ergometer_units::Timestamp;

use super::attribution::{Observed, fit_models};
use super::session::{LoadedSession, MeteredSession};
use super::{CloseError, ClosedRun, close, is_ours};
use crate::journal::{JournalFolder, Lock, Manifest};

/// A run that takes part in a fit.
struct Member {
    folder: PathBuf,
    journal: JournalFolder,
    manifest: Manifest,
    sessions: Vec<LoadedSession>,
}

impl Member {
    fn read(folder: &Path) -> Result<Self, CloseError> {
        let journal = JournalFolder::of_run(folder);
        let manifest = journal.manifest()?;
        let mut shape = MetadataShape::default();
        let sessions = journal.sessions()?.into_iter();
        let sessions = sessions.map(|number| LoadedSession::read(&journal, number, &mut shape));
        let sessions = sessions.collect::<Result<Vec<_>, _>>()?;
        Ok(Self { folder: folder.to_path_buf(), journal, manifest, sessions })
    }

    /// Copies the steps of an engine log that belong to the run into its journal.
    fn import(&self, path: &Path) -> Result<(), CloseError> {
        let requests = || self.sessions.iter().flat_map(|session| &session.events.requests);
        let first = requests().map(|located| located.sent).min();
        let last = requests().map(|located| located.end).max();
        let unusable = |cause| CloseError::EngineLog { path: path.to_path_buf(), cause };
        let file = File::open(path).map_err(|error| unusable(error.into()))?;
        let (first, last): (Timestamp, Timestamp) =
            first.zip(last).ok_or_else(|| CloseError::NoRecords { path: self.folder.clone() })?;
        let steps = EngineLog::excerpt(BufReader::new(file), first, last).map_err(unusable)?;
        Ok(write_file(&self.journal.engine_log_path(), &steps)?)
    }

    fn name(&self) -> String {
        self.folder
            .file_name()
            .map_or_else(|| self.folder.display().to_string(), |name| name.to_string_lossy().into_owned())
    }
}

/// Copies the steps of an engine log that belong to a run into its journal, for [`close`]. The run must be locked.
pub fn import_engine_log(folder: &Path, log: &Path) -> Result<(), CloseError> {
    Member::read(folder)?.import(log)
}

/// Why two runs cannot be fitted together; `None` if they can.
pub(crate) fn difference(one: &Manifest, other: &Manifest) -> Option<String> {
    let address = |manifest: &Manifest| manifest.config.client.base_url.clone().unwrap_or_default();
    let devices = |manifest: &Manifest| Vec::<String>::from(manifest.config.devices.clone()).join(", ");
    let facts = [
        ("model", one.config.client.model.clone(), other.config.client.model.clone()),
        ("server", address(one), address(other)),
        ("client", one.config.client.id.clone(), other.config.client.id.clone()),
        ("hardware", one.hardware_label.clone(), other.hardware_label.clone()),
        ("devices", devices(one), devices(other)),
    ];
    let differing = facts.into_iter().find(|(_, one, other)| one != other)?;
    let (what, one, other) = differing;
    let named = |text: String| if text.is_empty() { String::from("none") } else { text };
    Some(format!("the {what} differs: {} and {}", named(one), named(other)))
}

/// Fits one cost model to several runs, and derives all their files again. With one run, it is fitted to itself. Results
/// are in the order of the folders.
pub fn attribute(folders: &[PathBuf], engine_log: Option<&Path>) -> Result<Vec<ClosedRun>, CloseError> {
    let (mut members, mut locks): (Vec<Member>, Vec<Lock>) = (Vec::new(), Vec::new());
    for folder in folders {
        let is_repeated = members.iter().any(|member| same_folder(&member.folder, folder));
        if is_repeated {
            return Err(CloseError::Apart { path: folder.clone(), why: String::from("it is given twice") });
        }
        locks.push(JournalFolder::of_run(folder).lock()?);
        let member = Member::read(folder)?;
        let why = match members.first() {
            _ if !is_ours(&member.manifest) => Some(String::from("its server runs on another machine")),
            Some(first) => difference(&first.manifest, &member.manifest),
            None => None,
        };
        if let Some(why) = why {
            return Err(CloseError::Apart { path: folder.clone(), why });
        }
        if let Some(log) = engine_log {
            member.import(log)?;
        }
        members.push(member);
    }
    let models = (members.len() > 1).then(|| fit_together(&members)).transpose()?.flatten();
    for member in &members {
        let path = member.journal.cost_model_path();
        match &models {
            Some(models) => models.write_file(&path)?,
            None => ergometer_runs::cost_model::CostModels::remove_file(&path)?,
        }
    }
    let closed = members.iter().map(|member| close(&member.folder)).collect();
    drop(locks);
    closed
}

fn fit_together(members: &[Member]) -> Result<Option<ergometer_runs::cost_model::CostModels>, CloseError> {
    let mut parts: Vec<(MeteredSession, Observed)> = Vec::new();
    for member in members {
        let log = member.journal.engine_log()?;
        for loaded in &member.sessions {
            let session = MeteredSession::new(loaded, &member.manifest, &member.manifest.config.devices);
            let (observed, _) = Observed::new(&session, log.as_ref());
            parts.push((session, observed));
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
    Ok(models.map(|models| ergometer_runs::cost_model::CostModels {
        runs: members.iter().map(Member::name).collect(),
        ..models
    }))
}

fn same_folder(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}
