//! Reads and writes `after.jsonl`: token counts and judgements made after the measurement.
//!
//! The file is append-only, with one line for each token count and each judgement. The first line of each kind counts for a
//! request. An incomplete last line is skipped on reading and removed before the next write.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::fs::{File, OpenOptions};
use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::lines::Lines;
use super::{Grading, JournalError};
use ergometer_clients::Usage;
use ergometer_clients::redact::Secrets;
use ergometer_runs::{Exchange, regular_file};

/// The longest line that is read.
const LONGEST_LINE: u64 = 64 << 20;

/// The longest reply that is written, in bytes. A judge's reply has a few thousand characters. In JSON a byte takes at most
/// six, so the line is never longer than [`LONGEST_LINE`].
const LONGEST_REPLY: usize = 8 << 20;

/// A line of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewEntry {
    /// The server's tokenizer counted the tokens.
    Counted(TokenCount),
    /// A judge graded the answer.
    Judged(Judgement),
}

/// The tokens of one request and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenCount {
    /// The request's number in the run.
    pub request: u64,
    /// The session it was sent in.
    pub session: u32,
    /// The counts.
    pub usage: Usage,
}

/// The judgement of one answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// The request's number in the run.
    pub request: u64,
    /// The session it was sent in.
    pub session: u32,
    /// The judge's model.
    pub judge: String,
    /// The verdict; `None` if the reply has none.
    pub correct: Option<bool>,
    /// The reply of the judge.
    pub reply: String,
}

impl Judgement {
    /// Its judge.
    #[must_use]
    pub fn grader(&self) -> Grading {
        Grading::Judge(self.judge.clone())
    }
}

/// Session and number of a request.
type Key = (u32, u64);

/// The content of `after.jsonl`. The replies stay in the file.
#[derive(Debug, Default)]
pub struct ReviewJournal {
    path: PathBuf,
    counts: BTreeMap<Key, Usage>,
    /// The offset and length of the line of each judgement.
    judgements: BTreeMap<Key, (u64, u64)>,
    whole_bytes: u64,
    /// Lines that could not be parsed.
    pub damaged_lines: u64,
}

impl ReviewJournal {
    /// Reads the file; a missing file is empty.
    pub(super) fn read(path: &Path) -> Result<Self, JournalError> {
        let mut after = Self { path: path.to_path_buf(), ..Self::default() };
        let file = match regular_file::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(after),
            opened => opened.map_err(JournalError::io("open", path))?,
        };
        let mut lines = Lines::new(BufReader::with_capacity(1 << 16, file), LONGEST_LINE);
        while let Some(line) = lines.read().map_err(JournalError::io("read", path))? {
            match line.text.map(serde_json::from_slice) {
                Some(Ok(entry)) => after.take(&entry, line.length),
                Some(Err(_)) | None => after.damaged_lines += 1,
            }
            after.whole_bytes += line.length;
        }
        Ok(after)
    }

    fn take(&mut self, entry: &ReviewEntry, length: u64) {
        match entry {
            ReviewEntry::Counted(count) => {
                self.counts.entry((count.session, count.request)).or_insert(count.usage);
            }
            ReviewEntry::Judged(judgement) => {
                if let Slot::Vacant(slot) = self.judgements.entry((judgement.session, judgement.request)) {
                    slot.insert((self.whole_bytes, length));
                }
            }
        }
    }

    /// The tokens of a request.
    #[must_use]
    pub fn usage(&self, exchange: &Exchange) -> Option<Usage> {
        self.counts.get(&(exchange.session, exchange.request)).copied()
    }

    /// Whether the tokens of a request were counted.
    #[must_use]
    pub fn is_counted(&self, session: u32, request: u64) -> bool {
        self.counts.contains_key(&(session, request))
    }

    /// Whether the answer to a request was judged.
    #[must_use]
    pub fn is_judged(&self, session: u32, request: u64) -> bool {
        self.judgements.contains_key(&(session, request))
    }

    /// Whether any answer was judged.
    #[must_use]
    pub fn has_judgements(&self) -> bool {
        !self.judgements.is_empty()
    }

    /// Opens the file to read judgements from it.
    pub fn open(&self) -> Result<File, JournalError> {
        regular_file::open(&self.path).map_err(JournalError::io("open", &self.path))
    }

    /// The judgement of an answer, read again from the file.
    pub fn judgement(&self, exchange: &Exchange, file: &mut File) -> Result<Option<Judgement>, JournalError> {
        let Some(&(start, length)) = self.judgements.get(&(exchange.session, exchange.request)) else {
            return Ok(None);
        };
        let io = |cause| JournalError::Io { action: "read", path: self.path.clone(), cause };
        let mut line = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        file.seek(SeekFrom::Start(start)).map_err(io)?;
        file.read_exact(&mut line).map_err(io)?;
        match serde_json::from_slice(&line) {
            Ok(ReviewEntry::Judged(judgement)) => Ok(Some(judgement)),
            _ => Err(JournalError::Damaged {
                path: self.path.clone(),
                what: format!("the judgement of request {} changed while it was read", exchange.request),
            }),
        }
    }

    /// Returns a writer that opens or creates the file on its first write.
    #[must_use]
    pub fn writer(&self, secrets: Secrets) -> ReviewJournalWriter {
        ReviewJournalWriter { file: None, path: self.path.clone(), whole: self.whole_bytes, secrets }
    }
}

/// Appends lines. Each write returns once the system has the line.
#[derive(Debug)]
pub struct ReviewJournalWriter {
    file: Option<File>,
    path: PathBuf,
    /// The length of the file up to its last complete line.
    whole: u64,
    /// Values that must not be written.
    secrets: Secrets,
}

impl ReviewJournalWriter {
    /// Appends a line. Secrets in a reply are redacted, and a reply that is too long is cut.
    pub fn write(&mut self, entry: &ReviewEntry) -> Result<(), JournalError> {
        let mut entry = entry.clone();
        if let ReviewEntry::Judged(Judgement { reply, .. }) = &mut entry {
            self.secrets.redact_in(reply);
            if reply.len() > LONGEST_REPLY {
                let end = (0..=LONGEST_REPLY).rev().find(|&end| reply.is_char_boundary(end)).unwrap_or(0);
                reply.truncate(end);
                reply.push_str(" [cut]");
            }
        }
        let mut line = serde_json::to_vec(&entry).map_err(JournalError::encoding(&self.path))?;
        line.push(b'\n');
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(open(&self.path, self.whole)?),
        };
        if let Err(cause) = file.write_all(&line) {
            let _ = file.set_len(self.whole);
            return Err(JournalError::Io { action: "write", path: self.path.clone(), cause });
        }
        self.whole += line.len() as u64;
        Ok(())
    }

    /// Syncs the file to disk.
    pub fn finish(self) -> Result<(), JournalError> {
        self.file.map_or(Ok(()), |file| file.sync_data()).map_err(JournalError::io("write", &self.path))
    }
}

fn open(path: &Path, whole: u64) -> Result<File, JournalError> {
    let file = regular_file::open_to_write(OpenOptions::new().append(true).create(true), path);
    let file = file.map_err(JournalError::io("open", path))?;
    // An incomplete last line would make the next line unreadable.
    file.set_len(whole).map_err(JournalError::io("write", path))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::exchange;
    use ergometer_clients::TokenSource;
    use proptest::prelude::*;

    fn judged(request: u64, reply: &str) -> ReviewEntry {
        let (correct, reply, judge) = (Some(request.is_multiple_of(2)), reply.to_owned(), String::from("j"));
        ReviewEntry::Judged(Judgement { request, session: 0, judge, correct, reply })
    }

    fn counted(request: u64, output: u64) -> ReviewEntry {
        let usage = Usage { input: 7, output, cached: None, source: TokenSource::Tokenize };
        ReviewEntry::Counted(TokenCount { request, session: 0, usage })
    }

    fn lines(entries: &[ReviewEntry]) -> Vec<Vec<u8>> {
        let line = |entry| [serde_json::to_vec(entry).unwrap(), vec![b'\n']].concat();
        entries.iter().map(line).collect()
    }

    /// The output tokens and the judge's reply of the first requests.
    fn known(path: &Path, requests: u64) -> Vec<(Option<u64>, Option<String>)> {
        let after = ReviewJournal::read(path).unwrap();
        let known = |request| {
            let exchange = exchange(request, 5);
            let judgement = after.open().ok().and_then(|mut file| after.judgement(&exchange, &mut file).unwrap());
            (after.usage(&exchange).map(|usage| usage.output), judgement.map(|judgement| judgement.reply))
        };
        (0..requests).map(known).collect()
    }

    #[test]
    fn the_first_line_of_a_kind_counts_and_a_damaged_one_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("after.jsonl");
        assert_eq!(known(&path, 1), [(None, None)], "no file, nothing known");
        let mut all = lines(&[counted(0, 1), judged(0, "a\nb"), counted(0, 2), judged(0, "c"), judged(1, "d")]);
        all.insert(1, b"{\"sung\":{}}\n".to_vec());
        std::fs::write(&path, all.concat()).unwrap();
        let reply = |text: &str| Some(text.to_owned());
        assert_eq!(known(&path, 2), [(Some(1), reply("a\nb")), (None, reply("d"))]);
        let after = ReviewJournal::read(&path).unwrap();
        assert_eq!((after.damaged_lines, after.is_judged(0, 1), after.is_judged(1, 1)), (1, true, false));
        assert!(after.is_counted(0, 0) && !after.is_counted(0, 1));
    }

    #[test]
    fn a_reply_that_is_too_long_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("after.jsonl");
        let mut writer = ReviewJournal::read(&path).unwrap().writer(Secrets::default());
        // Each of these characters takes six bytes in JSON.
        writer.write(&judged(0, &"\u{1}".repeat(LONGEST_REPLY + 1))).unwrap();
        writer.write(&judged(1, "short")).unwrap();
        writer.finish().unwrap();
        let known = known(&path, 2);
        let long = known[0].1.as_ref().unwrap();
        assert!(long.len() == LONGEST_REPLY + 6 && long.ends_with(" [cut]"));
        assert_eq!(known[1].1.as_deref(), Some("short"));
    }

    #[test]
    fn the_lines_are_small_and_typed() {
        let text = |entry| serde_json::to_string(&entry).unwrap();
        let usage = r#"{"input":7,"output":3,"source":"tokenize"}"#;
        assert_eq!(text(counted(4, 3)), format!(r#"{{"counted":{{"request":4,"session":0,"usage":{usage}}}}}"#));
        let judgement = r#"{"request":4,"session":0,"judge":"j","correct":true,"reply":"r"}"#;
        assert_eq!(text(judged(4, "r")), format!(r#"{{"judged":{judgement}}}"#));
    }

    proptest! {
        /// A file cut anywhere keeps its complete lines, and a writer continues after them.
        #[test]
        fn a_cut_damages_only_the_line_it_is_in(
            replies in prop::collection::vec("\\PC{0,12}", 1..6), place: prop::sample::Index,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("after.jsonl");
            let entries: Vec<_> = (0..).zip(&replies).flat_map(|(request, reply)| {
                [counted(request, request), judged(request, reply)]
            }).collect();
            let all = lines(&entries);
            let cut = place.index(all.concat().len() + 1);
            std::fs::write(&path, &all.concat()[..cut]).unwrap();
            let ends = all.iter().scan(0, |end, line| { *end += line.len(); Some(*end) });
            let whole = ends.take_while(|&end| end <= cut).count();
            let count = replies.len() as u64;
            let expected: Vec<_> = (0_usize..).zip(&replies).map(|(place, reply)| {
                ((2 * place < whole).then_some(place as u64), (2 * place + 1 < whole).then(|| reply.clone()))
            }).collect();
            prop_assert_eq!(known(&path, count), expected);
            prop_assert_eq!(ReviewJournal::read(&path).unwrap().damaged_lines, 0);

            let mut writer = ReviewJournal::read(&path).unwrap().writer(Secrets::default());
            for entry in &entries[whole..] {
                writer.write(entry).unwrap();
            }
            writer.finish().unwrap();
            prop_assert_eq!(std::fs::read(&path).unwrap(), all.concat());
        }
    }
}
