//! The journal of a run goes in; its records, tables and summary come out.
//!
//! The same code closes a run that ended, one that was interrupted, and one that was killed. What a run says can be
//! derived again at any time for as long as its journal is there.

mod channels;
mod energy;
mod error;
mod intelligence;
mod records;
mod server;
mod session;
mod summary;
mod tally;
mod totals;
mod utilization;
mod warning;

use std::fs::File;
use std::path::{Path, PathBuf};

pub use error::CloseError;
pub use server::{GaugeSummary, ServerSummary};
pub use summary::{Accuracy, IntelligenceSummary, LatencySummary, Outcomes, SubjectAccuracy, Summary, TokenSummary};
pub use totals::{BalanceSummary, DeviceSummary, EnergySummary, EnergyTotals, Figure};
pub use warning::Warning;

use ergometer_units::Window;

use crate::attribution::Span;
use crate::client::{Outcome, Transcript};
use crate::dataset::Query;
use crate::grade::Grader;
use crate::journal::{Exchange, JournalFolder, Located, Lost, Manifest};
use crate::store::{DatasetWriter, MetadataShape, RecordSchema, RequestsWriter, TelemetryWriter};
use channels::Channels;
use records::RecordBuilder;
use session::{Loaded, Metered};
use tally::Tally;

/// What closing a run came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Closed {
    /// The run folder.
    pub folder: PathBuf,
    /// What is in its `summary.json`.
    pub summary: Summary,
    /// What to know about it.
    pub warnings: Vec<Warning>,
}

/// Derives everything from the journal of a run folder.
pub fn close(folder: &Path) -> Result<Closed, CloseError> {
    let journal = JournalFolder::of_run(folder);
    let manifest = journal.manifest()?;
    let grader: Grader = manifest.grader.parse()?;
    let mut shape = MetadataShape::default();
    let loaded = journal
        .sessions()?
        .into_iter()
        .map(|number| Loaded::read(&journal, number, &mut shape))
        .collect::<Result<Vec<_>, _>>()?;
    let counted = crate::config::Counted::parse(&manifest.config.devices).unwrap_or_default();
    let sessions: Vec<Metered> = loaded.iter().map(|loaded| Metered::new(loaded, &manifest, &counted)).collect();
    let order = order(&loaded);
    if order.iter().all(|entry| !entry.is_record) {
        return Err(CloseError::NoRecords { path: folder.to_path_buf() });
    }

    let mut dataset = DatasetWriter::create(folder, RecordSchema::new(&manifest.config.client.model, &shape))?;
    let mut requests = RequestsWriter::create(folder)?;
    let mut tally = Tally::new(&manifest);
    let builder = RecordBuilder::new(&manifest, &grader);
    let channels: Vec<Channels> = sessions.iter().map(Channels::new).collect();
    let mut files = Files::default();
    for entry in &order {
        let session = entry.session as usize;
        let located = loaded[session].events.requests[entry.place as usize];
        let exchange = files.read(&journal, session, &loaded[session], located)?;
        requests.push(&exchange)?;
        if entry.is_record {
            let record = builder.build(&exchange, &sessions[session], &channels[session]);
            tally.record(&exchange, &record);
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
    let (summary, warnings) = summary::summarise(folder, &manifest, &sessions, &tally);
    summary.write(folder)?;
    Ok(Closed { folder: folder.to_path_buf(), summary, warnings })
}

/// Where one request stands, and whether it is the record of its query. Small, as there is one for each.
struct Ordered {
    session: u32,
    place: u32,
    is_record: bool,
}

/// All requests in the order of the dataset. Of each query the first that was dealt with is its record.
fn order(loaded: &[Loaded]) -> Vec<Ordered> {
    let requests = loaded.iter().zip(0_u32..).flat_map(|(loaded, session)| {
        (0_u32..).zip(&loaded.events.requests).map(move |(place, _)| Ordered { session, place, is_record: false })
    });
    let mut order: Vec<Ordered> = requests.collect();
    let located = |entry: &Ordered| &loaded[entry.session as usize].events.requests[entry.place as usize];
    order.sort_unstable_by_key(|entry| (located(entry).index, entry.session, located(entry).request));
    let mut last = None;
    for entry in &mut order {
        let located = located(entry);
        entry.is_record = located.is_final && last.replace(located.index) != Some(located.index);
    }
    order
}

/// What is known of a request that was lost with a kill.
fn lost_exchange(session: u32, lost: Lost, span: Span) -> Exchange {
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

/// The journals' files, each opened once.
#[derive(Default)]
struct Files(Vec<Option<File>>);

impl Files {
    fn read(
        &mut self,
        journal: &JournalFolder,
        place: usize,
        loaded: &Loaded,
        located: Located,
    ) -> Result<Exchange, CloseError> {
        let path = journal.events_path(loaded.number);
        if self.0.len() <= place {
            self.0.resize_with(place + 1, || None);
        }
        if self.0[place].is_none() {
            self.0[place] = Some(File::open(&path).map_err(crate::journal::JournalError::io("open", &path))?);
        }
        match &mut self.0[place] {
            Some(file) => Ok(located.read(file, &path)?),
            None => Err(CloseError::NoRecords { path }),
        }
    }
}

/// Whether the energy measured on this machine is what the requests used.
fn is_ours(manifest: &Manifest) -> bool {
    !matches!(manifest.place, crate::client::Place::Elsewhere { .. })
}
