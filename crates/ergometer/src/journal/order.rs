//! The requests of all sessions in the order of the dataset, and which of them is the record of its query.

use std::fs::File;
use std::path::PathBuf;

use super::{JournalError, JournalFolder, Located, SessionEvents};
use ergometer_runs::{Exchange, Fate};

/// Where one request stands, and whether it is the record of its query. Small, as there is one for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ordered {
    /// The place of its session among those given.
    pub session: u32,
    /// Its place among the requests of its session.
    pub place: u32,
    /// Whether it is the record of its query.
    pub is_record: bool,
}

/// All requests in the order of the dataset. Of each query the first that was dealt with is its record.
#[must_use]
pub fn order(sessions: &[&SessionEvents]) -> Vec<Ordered> {
    let requests = sessions.iter().zip(0_u32..).flat_map(|(events, session)| {
        (0_u32..).zip(&events.requests).map(move |(place, _)| Ordered { session, place, is_record: false })
    });
    let mut order: Vec<Ordered> = requests.collect();
    let located = |entry: &Ordered| &sessions[entry.session as usize].requests[entry.place as usize];
    order.sort_unstable_by_key(|entry| (located(entry).index, entry.session, located(entry).request));
    let mut last = None;
    for entry in &mut order {
        let located = located(entry);
        entry.is_record = located.fate == Fate::Settled && last.replace(located.index) != Some(located.index);
    }
    order
}

/// Reads requests again, wherever they stand. Each file is opened once.
#[derive(Debug)]
pub struct Exchanges {
    files: Vec<(PathBuf, Option<File>)>,
}

impl Exchanges {
    /// Those of these sessions.
    #[must_use]
    pub fn new(journal: &JournalFolder, sessions: impl IntoIterator<Item = u32>) -> Self {
        Self { files: sessions.into_iter().map(|number| (journal.events_path(number), None)).collect() }
    }

    /// A request of the session at this place.
    pub fn read(&mut self, session: usize, located: Located) -> Result<Exchange, JournalError> {
        let (path, file) = &mut self.files[session];
        let file = match file {
            Some(file) => file,
            None => file.insert(File::open(&*path).map_err(JournalError::io("open", path))?),
        };
        located.read(file, path)
    }
}
