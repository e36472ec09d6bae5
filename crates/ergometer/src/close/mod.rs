//! Derives the records, tables and summary of a run from its journal.
//!
//! The same code closes runs that ended, were interrupted or were killed. The files can be derived again at any time
//! while the journal exists.

mod attribution;
mod channels;
mod doubts;
mod edges;
mod energy;
mod error;
mod intelligence;
mod load;
mod records;
mod review_results;
mod server;
mod session;
mod streams;
mod summary;
mod tally;
mod together;
mod totals;
mod utilization;
mod warning;

use std::path::{Path, PathBuf};

pub use ergometer_runs::summary::Warning;
pub use error::CloseError;
pub use together::{attribute, import_engine_log};
pub(crate) use together::{difference, has_record, same_folder};

use crate::attribution::Span;
use crate::journal::{Exchanges, JournalFolder, LostRequest, Manifest, SessionEvents, order};
use attribution::{Observed, fit_models};
use channels::Channels;
use energy::MeteredRequest;
use ergometer_attribution::Calibration;
use ergometer_clients::{Outcome, Transcript};
use ergometer_datasets::Query;
use ergometer_runs::Exchange;
use ergometer_runs::Summary;
use ergometer_runs::cost_model::CostModels;
use ergometer_runs::store::{DatasetWriter, MetadataShape, RecordSchema, RequestsWriter, TelemetryWriter};
use load::Load;
use records::RecordBuilder;
use review_results::ReviewResults;
use session::{LoadedSession, MeteredSession};
use tally::Tally;

/// The result of closing a run.
#[derive(Debug, Clone, PartialEq)]
pub struct ClosedRun {
    /// The run folder.
    pub folder: PathBuf,
    /// The content of its `summary.json`.
    pub summary: Summary,
    /// The warnings about it.
    pub warnings: Vec<Warning>,
}

/// Derives all files of a run folder from its journal.
pub fn close(folder: &Path) -> Result<ClosedRun, CloseError> {
    let journal = JournalFolder::of_run(folder);
    let manifest = journal.manifest()?;
    let mut results = ReviewResults::new(&journal, &manifest)?;
    let mut shape = MetadataShape::default();
    let mut loaded = journal
        .sessions()?
        .into_iter()
        .map(|number| LoadedSession::read((&journal, number), (&manifest, &results), &mut shape))
        .collect::<Result<Vec<_>, _>>()?;
    let order = order(&loaded.iter().map(|loaded| &loaded.events).collect::<Vec<&SessionEvents>>());
    if order.iter().all(|entry| !entry.is_record) {
        return Err(CloseError::NoRecords { path: folder.to_path_buf() });
    }
    let mut load = Load::new(&manifest.config, &mut loaded, &order);
    let counted = manifest.config.devices.clone();
    let mut sessions: Vec<MeteredSession> =
        loaded.iter().map(|loaded| MeteredSession::new(loaded, &manifest, &counted)).collect();
    let (models, log_problem) = attribute_sessions(&journal, &mut sessions)?;

    let mut dataset = DatasetWriter::create(folder, RecordSchema::new(&manifest.config.client.model, &shape))?;
    let mut requests = RequestsWriter::create(folder)?;
    let mut tally = Tally::new(&manifest, &results, load.mean_in_flight());
    let builder = RecordBuilder::new(&manifest);
    let channels: Vec<Channels> = sessions.iter().map(Channels::new).collect();
    let mut exchanges = Exchanges::new(&journal, loaded.iter().map(|loaded| loaded.number));
    for entry in &order {
        let session = entry.session as usize;
        let located = loaded[session].events.requests[entry.place as usize];
        let mut exchange = exchanges.read(session, located)?;
        if entry.is_record {
            results.count(&mut exchange, &manifest);
        }
        if entry.is_record {
            let grade = builder.grade(&exchange, results.judgement(&exchange)?);
            let place = (&exchange, entry.place as usize);
            let record = builder.build(place, grade, &sessions[session], &channels[session]);
            requests.push_attributed(&exchange, record.ergometer.energy.attribution)?;
            tally.record(&exchange, &record);
            load.record(session, entry.place as usize, &exchange);
            dataset.push(&record)?;
        } else {
            let metered = MeteredRequest::new(&exchange, entry.place as usize);
            let energy = energy::query_energy(&sessions[session], metered);
            requests.push_attributed(&exchange, energy.attribution)?;
            tally.other(&exchange, &energy);
        }
    }
    for loaded in &loaded {
        for exchange in loaded.lost().map(|(lost, span)| lost_exchange(loaded.number, lost, span)) {
            requests.push(&exchange)?;
        }
    }
    // The summary is written last: if it exists, the other files are complete and belong to it.
    Summary::remove(folder)?;
    dataset.finish()?;
    requests.finish()?;
    let mut telemetry = TelemetryWriter::create(folder)?;
    for loaded in &loaded {
        telemetry.push(loaded.number, &loaded.timeline)?;
    }
    telemetry.finish()?;
    let results = Results { tally: &tally, models: models.as_ref(), log_problem };
    let (summary, warnings) = summary::summarise(folder, &manifest, &sessions, results, &mut load);
    match &models {
        Some(models) => models.write(folder)?,
        None => CostModels::remove(folder)?,
    }
    let numbers: Vec<u32> = loaded.iter().map(|loaded| loaded.number).collect();
    load.write_over_time(folder, &numbers)?;
    summary.write(folder)?;
    Ok(ClosedRun { folder: folder.to_path_buf(), summary, warnings })
}

/// What the summary is made of.
struct Results<'a> {
    tally: &'a Tally,
    models: Option<&'a CostModels>,
    /// Why the engine log was not used.
    log_problem: Option<String>,
}

/// Fits the cost models of a run, or takes those that were fitted to several runs, and divides the energy of requests that
/// ran together. The text says why the engine log was not used.
fn attribute_sessions(
    journal: &JournalFolder,
    sessions: &mut [MeteredSession],
) -> Result<(Option<CostModels>, Option<String>), CloseError> {
    let log = journal.engine_log()?;
    let (mut observed, problems): (Vec<Observed>, Vec<Option<String>>) =
        sessions.iter().map(|session| Observed::new(session, log.as_ref())).unzip();
    let path = journal.calibration_path();
    let own = observed.iter().find_map(|observed| observed.calibration.as_ref());
    own.map(|own| own.write(&path)).transpose()?;
    let earlier = if own.is_none() { Calibration::read(&path)? } else { None };
    let reuse = |observed: &mut [Observed]| {
        if let Some(earlier) = &earlier
            && let Some((session, observed)) = sessions.iter().zip(observed).next()
        {
            observed.reuse(earlier.clone(), session);
        }
    };
    reuse(&mut observed);
    let together = CostModels::read_file(&journal.cost_model_path())?;
    let fit = |observed: &[Observed]| fit_models(sessions.iter().zip(observed));
    let mut models = together.or_else(|| fit(&observed));
    if models.is_none() {
        let mut by_tokens: Vec<Observed> = sessions.iter().map(Observed::by_tokens).collect();
        reuse(&mut by_tokens);
        models = fit(&by_tokens);
        if models.is_some() {
            observed = by_tokens;
        }
    }
    for (session, observed) in sessions.iter_mut().zip(&observed) {
        session.attribute(observed, models.as_ref());
    }
    Ok((models, problems.into_iter().flatten().next()))
}

/// The exchange of a request that was in flight when the run was killed.
fn lost_exchange(session: u32, lost: LostRequest, span: Span) -> Exchange {
    Exchange {
        request: lost.request,
        session,
        attempt: 1,
        query: Query { index: lost.index, ..Query::default() },
        scheduled: span.sent,
        sent: span.sent,
        end: span.end,
        transcript: Transcript::default(),
        outcome: Outcome::Lost,
        is_retried: false,
    }
}

/// Whether the requests were served by this machine, so that its energy is theirs.
fn is_ours(manifest: &Manifest) -> bool {
    !matches!(manifest.place, ergometer_clients::Locality::Elsewhere { .. })
}
