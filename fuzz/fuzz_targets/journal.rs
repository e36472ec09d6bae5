//! Reads arbitrary bytes as a file of a journal. The first byte chooses the file, the next two where it is cut.
//!
//! Reading must not panic. A cut file must give a prefix of the whole, and an entry that is written must be read back
//! equally.

#![no_main]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::sync::LazyLock;

use ergometer::journal::{Entry, JournalFolder, Manifest, ReviewEntry, SessionEvents, order};
use ergometer_clients::redact::Secrets;
use ergometer_clients::{Outcome, ServerTimes, Transcript};
use ergometer_datasets::Query;
use ergometer_fuzz::Scratch;
use ergometer_runs::{Exchange, Fate};
use libfuzzer_sys::fuzz_target;

static SCRATCH: LazyLock<Scratch> = LazyLock::new(Scratch::new);

fuzz_target!(|data: &[u8]| {
    let [choice, high, low, text @ ..] = data else { return };
    let cut = usize::from(u16::from_be_bytes([*high, *low])).min(text.len());
    match choice % 4 {
        0 | 1 => events(text, cut, *choice),
        2 => review(text, cut),
        _ => manifest(text),
    }
});

/// The complete lines of a file.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|&byte| byte == b'\n').filter(|line| line.ends_with(b"\n"))
}

fn events(text: &[u8], cut: usize, choice: u8) {
    let path = SCRATCH.write("journal/session-0.events.jsonl", text);
    let mut exchanges = Vec::new();
    let whole = SessionEvents::read_with(&path, |exchange| exchanges.push(exchange.clone())).expect("a readable file");
    let read: Vec<_> = lines(text).map(Entry::from_line).collect();
    let entries: Vec<Entry> = read.into_iter().flatten().collect();
    check_events(text, &whole, &entries);

    let ended = entries.iter().filter_map(|entry| if let Entry::Ended(one) = entry { Some(&**one) } else { None });
    assert!(ended.eq(&exchanges));
    let mut file = File::open(&path).expect("the file exists");
    assert_eq!(whole.requests.len(), exchanges.len());
    for (located, exchange) in whole.requests.iter().zip(&exchanges) {
        assert_eq!(located.read(&mut file, &path).expect("a request at its position"), *exchange);
    }
    check_order(&whole);

    // What is written is read back.
    let exact: Vec<&Entry> = entries.iter().filter(|entry| is_exact(entry)).collect();
    let written: Vec<Vec<u8>> = exact.iter().map(|entry| entry.to_line()).collect();
    for (entry, line) in exact.iter().zip(&written) {
        assert_eq!(lines(line).count(), 1);
        assert_eq!(Entry::from_line(line).as_ref().ok(), Some(*entry));
    }
    // The writer has a thread that sleeps for a millisecond.
    if choice > 248 {
        let _ = fs::remove_file(&path);
        let writer = JournalFolder::of_run(&SCRATCH.path("")).start_events(0, Secrets::default()).expect("a new file");
        exact.iter().for_each(|entry| writer.append((*entry).clone()));
        writer.finish().expect("enough memory");
        assert!(fs::read(&path).expect("the file exists") == written.concat());
    }

    let part = read_part(&path, &text[..cut]);
    check_events(&text[..cut], &part, &lines(&text[..cut]).flat_map(Entry::from_line).collect::<Vec<_>>());
    assert!(whole.requests.starts_with(&part.requests));
    assert!(whole.idle.starts_with(&part.idle) && whole.warmup.starts_with(&part.warmup));
    assert!(part.next_request <= whole.next_request && part.damaged_lines <= whole.damaged_lines);
}

fn read_part(path: &Path, text: &[u8]) -> SessionEvents {
    fs::write(path, text).expect("a writable file");
    SessionEvents::read(path).expect("a readable file")
}

/// Compares the events of a session with its entries.
fn check_events(text: &[u8], events: &SessionEvents, entries: &[Entry]) {
    let end = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |place| place + 1);
    assert_eq!((events.whole_bytes, events.is_cut), (end as u64, end < text.len()));
    assert_eq!(events.damaged_lines, (lines(text).count() - entries.len()) as u64);
    let last = |pick: fn(&Entry) -> bool| entries.iter().rfind(|entry| pick(entry));
    assert_eq!(events.start.map(Entry::Session).as_ref(), last(|entry| matches!(entry, Entry::Session(_))));
    assert_eq!(events.closed.map(Entry::Closed).as_ref(), last(|entry| matches!(entry, Entry::Closed(_))));
    let idle = entries.iter().filter(|entry| matches!(entry, Entry::Idle(..))).count();
    let sent = entries.iter().filter(|entry| matches!(entry, Entry::Sent { .. })).count();
    assert_eq!(events.idle.len(), idle);
    assert!(events.lost.len() <= sent);
}

/// Every request is in the order once, and a query has at most one record.
fn check_order(events: &SessionEvents) {
    let order = order(&[events]);
    let mut places: Vec<u32> = order.iter().map(|entry| entry.place).collect();
    places.sort_unstable();
    assert!(places.into_iter().eq(0..events.requests.len() as u32));
    let records = order.iter().filter(|entry| entry.is_record).map(|entry| events.requests[entry.place as usize]);
    let records: Vec<_> = records.collect();
    assert!(records.iter().all(|record| record.fate == Fate::Settled));
    assert!(records.is_sorted_by(|one, other| one.index < other.index));
}

/// Whether the times of an entry have a nanosecond's accuracy as seconds, and their differences no overflow. All times
/// of a run do.
fn is_exact(entry: &Entry) -> bool {
    let Entry::Ended(exchange) = entry else { return true };
    let Transcript { connection_use, server_times, processor_time, chunks, .. } = &exchange.transcript;
    let ServerTimes { load, prompt, output, total } = *server_times;
    let (connect, waited) = connection_use.map_or((None, None), |line| (line.connect, line.waited));
    let durations = [load, prompt, output, total, *processor_time, connect, waited];
    let times = chunks.iter().map(|chunk| chunk.at).chain([exchange.sent]);
    durations.into_iter().flatten().all(|time| time.get().abs() < 4e6)
        && times.into_iter().all(|time| time.nanos_since_epoch().unsigned_abs() < 1 << 61)
}

fn review(text: &[u8], cut: usize) {
    let path = SCRATCH.write("journal/after.jsonl", text);
    let journal = JournalFolder::of_run(&SCRATCH.path(""));
    let whole = journal.review_journal().expect("a readable file");
    let entries: Vec<ReviewEntry> = lines(text).flat_map(serde_json::from_slice).collect();
    assert_eq!(whole.damaged_lines, (lines(text).count() - entries.len()) as u64);
    // The first entry of each kind counts for a request.
    let (mut counts, mut judgements) = (BTreeMap::new(), BTreeMap::new());
    for entry in &entries {
        match entry {
            ReviewEntry::Counted(count) => {
                counts.entry((count.session, count.request)).or_insert(count.usage);
            }
            ReviewEntry::Judged(judgement) => {
                judgements.entry((judgement.session, judgement.request)).or_insert(judgement);
            }
        }
    }
    let mut file = whole.open().expect("the file exists");
    for (session, request) in counts.keys().chain(judgements.keys()).copied() {
        let (key, exchange) = ((session, request), exchange(session, request));
        assert_eq!(whole.usage(&exchange).as_ref(), counts.get(&key));
        let found = whole.judgement(&exchange, &mut file).expect("a readable file");
        assert_eq!(found.as_ref(), judgements.get(&key).copied());
    }

    // A line that is written after a cut is read, and so are the lines before it.
    fs::write(&path, &text[..cut]).expect("a writable file");
    let part = journal.review_journal().expect("a readable file");
    let before: Vec<ReviewEntry> = lines(&text[..cut]).flat_map(serde_json::from_slice).collect();
    assert!(entries.starts_with(&before));
    let mut writer = part.writer(Secrets::default());
    for entry in &entries {
        writer.write(entry).expect("a writable file");
    }
    drop(writer);
    if !entries.is_empty() {
        let text = fs::read(&path).expect("the file exists");
        let after: Vec<ReviewEntry> = lines(&text).flat_map(serde_json::from_slice).collect();
        assert!(after.iter().eq(before.iter().chain(&entries)));
        assert_eq!(journal.review_journal().expect("a readable file").damaged_lines, part.damaged_lines);
    }
}

fn exchange(session: u32, request: u64) -> Exchange {
    let at = ergometer_units::Timestamp::from_nanos_since_epoch(0);
    Exchange {
        request,
        session,
        attempt: 1,
        query: Query::default(),
        scheduled: at,
        sent: at,
        end: at,
        transcript: Transcript::default(),
        outcome: Outcome::Completed,
        is_retried: false,
    }
}

fn manifest(text: &[u8]) {
    SCRATCH.write("journal/run.json", text);
    let journal = JournalFolder::of_run(&SCRATCH.path(""));
    let read = journal.manifest();
    let Ok(mut manifest) = serde_json::from_slice::<Manifest>(text) else {
        assert!(read.is_err());
        return;
    };
    manifest.config_hash = Manifest::hash_of(&manifest.config).expect("paths from JSON are UTF-8");
    journal.create(&manifest).expect("a writable file");
    if manifest.format_version <= 1 {
        assert_eq!(journal.manifest().expect("a valid manifest"), manifest);
    }
}
