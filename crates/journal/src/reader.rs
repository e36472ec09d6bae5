//! Reads the events of a session. It keeps only the position of each request's line, so memory stays small.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use ergometer_units::{Timestamp, Window};

use super::entry::LONGEST_LINE;
use super::lines::Lines;
use super::{Entry, IdleKind, JournalError, SessionStart};
use ergometer_clients::Outcome;
use ergometer_runs::{Closing, Exchange, Fate, SenderFacts, regular_file};

/// The events of one session, without the texts.
#[derive(Debug, Default)]
pub struct SessionEvents {
    /// The first line; `None` if it is incomplete.
    pub start: Option<SessionStart>,
    /// When idle power was measured.
    pub idle: Vec<(IdleKind, Window)>,
    /// When warm-up requests were sent.
    pub warmup: Vec<Window>,
    /// The calibration requests, which are not records.
    pub calibration: Vec<Exchange>,
    /// The requests that ended, in the order of their ends.
    pub requests: Vec<LocatedRequest>,
    /// The facts of the sender, if all requests were sent.
    pub sender: Option<SenderFacts>,
    /// Requests that were in flight when the run was killed.
    pub lost: Vec<LostRequest>,
    /// One past the highest number of a request, including lost ones.
    pub next_request: u64,
    /// Why the session ended; `None` if it was killed.
    pub closed: Option<Closing>,
    /// The length of the file up to its last complete line.
    pub whole_bytes: u64,
    /// Whether the last line is incomplete.
    pub is_cut: bool,
    /// Lines that could not be parsed, or that are too long.
    pub damaged_lines: u64,
}

/// A request that was in flight when the run was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostRequest {
    /// Its number in the run.
    pub request: u64,
    /// The index of its query in the dataset.
    pub index: u64,
    /// When it was sent.
    pub sent: Timestamp,
}

/// A request and the position of its line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LocatedRequest {
    /// Its number in the run.
    pub request: u64,
    /// The index of its query in the dataset.
    pub index: u64,
    /// When it was sent.
    pub sent: Timestamp,
    /// When its first token arrived.
    pub first_token: Option<Timestamp>,
    /// When it ended.
    pub end: Timestamp,
    /// What happens to its query afterwards.
    pub fate: Fate,
    /// Whether it completed, its tokens are unknown and can be counted. Those of a further turn cannot, because its exchange
    /// does not contain the earlier turns.
    pub is_uncounted: bool,
    /// Whether it completed and its query has an answer to compare with.
    pub is_gradable: bool,
    start: u64,
    length: u64,
}

impl SessionEvents {
    /// Reads the events of a session. Skips an incomplete last line, and skips and counts damaged lines.
    pub fn read(path: &Path) -> Result<Self, JournalError> {
        Self::read_with(path, |_| {})
    }

    /// Reads the events of a session and calls `show` with each request.
    pub fn read_with(path: &Path, mut show: impl FnMut(&Exchange)) -> Result<Self, JournalError> {
        let file = regular_file::open(path).map_err(JournalError::io("open", path))?;
        let mut lines = Lines::new(BufReader::with_capacity(1 << 18, file), LONGEST_LINE);
        let mut events = Self::default();
        let mut sent = BTreeMap::new();
        while let Some(line) = lines.read().map_err(JournalError::io("read", path))? {
            match line.text.map(Entry::from_line) {
                Some(Ok(entry)) => {
                    if let Entry::Ended(exchange) = &entry {
                        show(exchange);
                    }
                    events.take(entry, &mut sent, line.length);
                }
                Some(Err(_)) | None => events.damaged_lines += 1,
            }
            events.whole_bytes += line.length;
        }
        events.is_cut = lines.is_cut();
        events.lost = sent.into_values().collect();
        Ok(events)
    }

    fn take(&mut self, entry: Entry, in_flight: &mut BTreeMap<u64, LostRequest>, length: u64) {
        match entry {
            Entry::Session(start) => self.start = Some(start),
            Entry::Idle(kind, window) => self.idle.push((kind, window)),
            Entry::Warmup(window) => self.warmup.push(window),
            Entry::Calibration(exchange) => self.calibration.push(*exchange),
            Entry::Sender(facts) => self.sender = Some(*facts),
            Entry::Closed(closing) => self.closed = Some(closing),
            Entry::Sent { request, index, sent } => {
                self.next_request = self.next_request.max(request.saturating_add(1));
                in_flight.insert(request, LostRequest { request, index, sent });
            }
            Entry::Ended(exchange) => {
                self.next_request = self.next_request.max(exchange.request.saturating_add(1));
                in_flight.remove(&exchange.request);
                let is_completed = exchange.outcome == Outcome::Completed;
                self.requests.push(LocatedRequest {
                    request: exchange.request,
                    index: exchange.query.index,
                    sent: exchange.sent,
                    first_token: exchange.transcript.first_token(),
                    end: exchange.end,
                    fate: exchange.fate(),
                    is_uncounted: is_completed
                        && exchange.transcript.usage.is_none()
                        && !exchange.query.is_further_turn(),
                    is_gradable: is_completed && !exchange.query.answer.is_empty(),
                    start: self.whole_bytes,
                    length,
                });
            }
        }
    }
}

impl LocatedRequest {
    /// Reads the request from the file of its session.
    pub fn read(&self, file: &mut File, path: &Path) -> Result<Exchange, JournalError> {
        let io = |cause| JournalError::Io { action: "read", path: path.to_path_buf(), cause };
        let mut line = vec![0; usize::try_from(self.length).unwrap_or(usize::MAX)];
        file.seek(SeekFrom::Start(self.start)).map_err(io)?;
        file.read_exact(&mut line).map_err(io)?;
        match Entry::from_line(&line) {
            Ok(Entry::Ended(exchange)) => Ok(*exchange),
            _ => Err(JournalError::Damaged {
                path: path.to_path_buf(),
                what: format!("request {} changed while it was read", self.request),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::exchange;

    fn journal() -> Vec<Vec<u8>> {
        let mut lines = vec![Entry::Session(SessionStart { session: 0, started_ns: 1 }).to_line()];
        for request in 0..6_u64 {
            let exchange = exchange(request, 1000 + 100 * i64::try_from(request).unwrap());
            lines.push(Entry::Sent { request, index: request, sent: exchange.sent }.to_line());
            lines.push(Entry::Ended(Box::new(exchange)).to_line());
        }
        lines.push(Entry::Closed(Closing::Finished).to_line());
        lines
    }

    #[test]
    fn a_journal_cut_anywhere_gives_the_complete_lines_before_the_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let lines = journal();
        let whole = lines.concat();
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let events = SessionEvents::read(&path).unwrap();
            let mut left = cut;
            let whole_lines =
                lines.iter().take_while(|line| left.checked_sub(line.len()).inspect(|&rest| left = rest).is_some());
            let whole_lines = whole_lines.count();
            let ended = (whole_lines.saturating_sub(1) / 2).min(6);
            assert_eq!(events.requests.len(), ended, "cut at {cut}");
            assert_eq!(events.lost.len(), (whole_lines.saturating_sub(1).min(12)) % 2, "cut at {cut}");
            assert_eq!(events.is_cut, left > 0 && whole_lines < lines.len(), "cut at {cut}");
            assert_eq!(events.damaged_lines, 0);
            let mut file = File::open(&path).unwrap();
            for (number, located) in events.requests.iter().enumerate() {
                assert_eq!(located.read(&mut file, &path).unwrap().request, number as u64);
            }
        }
    }

    #[test]
    fn a_damaged_line_is_counted_and_the_rest_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut lines = journal();
        lines[4] = b"\xff\x00 garbage\n".to_vec();
        std::fs::write(&path, lines.concat()).unwrap();
        let events = SessionEvents::read(&path).unwrap();
        assert_eq!((events.requests.len(), events.damaged_lines, events.lost.len()), (5, 1, 1));
        assert_eq!(events.closed, Some(Closing::Finished));
        std::fs::write(&path, b"").unwrap();
        assert!(SessionEvents::read(&path).unwrap().start.is_none());
    }
}
