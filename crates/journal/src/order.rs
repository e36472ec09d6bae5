//! Sorts the requests of all sessions by the dataset and marks the record of each query.

use std::fs::File;
use std::path::PathBuf;

use super::{JournalError, JournalFolder, LocatedRequest, SessionEvents};
use ergometer_runs::{Exchange, Fate, regular_file};

/// The position of a request in the journal. It is small because there is one for each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderedRequest {
    /// The index of its session.
    pub session: u32,
    /// Its index among the requests of the session.
    pub place: u32,
    /// Whether it is the record of its query.
    pub is_record: bool,
}

/// All requests in the order of the dataset. The first settled request of a query is its record.
#[must_use]
pub fn order(sessions: &[&SessionEvents]) -> Vec<OrderedRequest> {
    let requests = sessions.iter().zip(0_u32..).flat_map(|(events, session)| {
        (0_u32..).zip(&events.requests).map(move |(place, _)| OrderedRequest { session, place, is_record: false })
    });
    let mut order: Vec<OrderedRequest> = requests.collect();
    let located = |entry: &OrderedRequest| &sessions[entry.session as usize].requests[entry.place as usize];
    order.sort_unstable_by_key(|entry| (located(entry).index, entry.session, located(entry).request));
    let mut last = None;
    for entry in &mut order {
        let located = located(entry);
        entry.is_record = located.fate == Fate::Settled && last.replace(located.index) != Some(located.index);
    }
    order
}

/// Reads requests back from the journal. Each file is opened once.
#[derive(Debug)]
pub struct Exchanges {
    files: Vec<(PathBuf, Option<File>)>,
}

impl Exchanges {
    /// Reads requests of these sessions.
    #[must_use]
    pub fn new(journal: &JournalFolder, sessions: impl IntoIterator<Item = u32>) -> Self {
        Self { files: sessions.into_iter().map(|number| (journal.events_path(number), None)).collect() }
    }

    /// Reads a request of the session at this index.
    pub fn read(&mut self, session: usize, located: LocatedRequest) -> Result<Exchange, JournalError> {
        let (path, file) = &mut self.files[session];
        let file = match file {
            Some(file) => file,
            None => file.insert(regular_file::open(path).map_err(JournalError::io("open", path))?),
        };
        located.read(file, path)
    }
}
