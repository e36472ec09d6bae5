//! Derives the records, tables and summary of a run from its journal.
//!
//! The same code closes runs that ended, were interrupted or were killed. The files can be derived again at any time
//! while the journal exists.

mod channels;
mod energy;
mod error;
mod intelligence;
mod load;
mod records;
mod review_results;
mod server;
mod session;
mod summary;
mod tally;
mod totals;
mod utilization;
mod warning;

use std::path::{Path, PathBuf};

pub use ergometer_runs::summary::Warning;
pub use error::CloseError;

use ergometer_units::Window;

use crate::attribution::Span;
use crate::journal::{Exchanges, JournalFolder, LostRequest, Manifest, SessionEvents, order};
use channels::Channels;
use ergometer_clients::{Outcome, Transcript};
use ergometer_datasets::Query;
use ergometer_datasets::grade::Grader;
use ergometer_runs::Exchange;
use ergometer_runs::Summary;
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
    let grader = if manifest.config.judge.is_some() { Grader::None } else { manifest.grader.parse()? };
    let mut results = ReviewResults::new(&journal, &manifest)?;
    let mut shape = MetadataShape::default();
    let mut loaded = journal
        .sessions()?
        .into_iter()
        .map(|number| LoadedSession::read(&journal, number, &mut shape))
        .collect::<Result<Vec<_>, _>>()?;
    let order = order(&loaded.iter().map(|loaded| &loaded.events).collect::<Vec<&SessionEvents>>());
    if order.iter().all(|entry| !entry.is_record) {
        return Err(CloseError::NoRecords { path: folder.to_path_buf() });
    }
    let mut load = Load::new(&manifest.config, &mut loaded, &order);
    let counted = manifest.config.devices.clone();
    let sessions: Vec<MeteredSession> =
        loaded.iter().map(|loaded| MeteredSession::new(loaded, &manifest, &counted)).collect();

    let mut dataset = DatasetWriter::create(folder, RecordSchema::new(&manifest.config.client.model, &shape))?;
    let mut requests = RequestsWriter::create(folder)?;
    let mut tally = Tally::new(&manifest, &results, load.mean_in_flight());
    let builder = RecordBuilder::new(&manifest, &grader);
    let channels: Vec<Channels> = sessions.iter().map(Channels::new).collect();
    let mut exchanges = Exchanges::new(&journal, loaded.iter().map(|loaded| loaded.number));
    for entry in &order {
        let session = entry.session as usize;
        let located = loaded[session].events.requests[entry.place as usize];
        let mut exchange = exchanges.read(session, located)?;
        if entry.is_record {
            results.count(&mut exchange, &manifest);
        }
        requests.push(&exchange)?;
        if entry.is_record {
            let grade = builder.grade(&exchange, results.judgement(&exchange)?);
            let record = builder.build(&exchange, grade, &sessions[session], &channels[session]);
            tally.record(&exchange, &record);
            load.record(session, entry.place as usize, &exchange);
            dataset.push(&record)?;
        } else {
            let window = Window::between(exchange.sent, exchange.end);
            tally.other(&exchange, &energy::query_energy(&sessions[session], window));
        }
    }
    for loaded in &loaded {
        for exchange in loaded.lost().map(|(lost, span)| lost_exchange(loaded.number, lost, span)) {
            requests.push(&exchange)?;
        }
    }
    dataset.finish()?;
    requests.finish()?;
    let mut telemetry = TelemetryWriter::create(folder)?;
    for loaded in &loaded {
        telemetry.push(loaded.number, &loaded.timeline)?;
    }
    telemetry.finish()?;
    let (summary, warnings) = summary::summarise(folder, &manifest, &sessions, &tally, &mut load);
    let numbers: Vec<u32> = loaded.iter().map(|loaded| loaded.number).collect();
    load.write_over_time(folder, &numbers)?;
    summary.write(folder)?;
    Ok(ClosedRun { folder: folder.to_path_buf(), summary, warnings })
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
