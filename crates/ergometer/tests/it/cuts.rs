//! Cuts the journal of a run as a kill would: complete lines are kept, and resuming completes the rest.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ergometer::close::{self, CloseError, ClosedRun, Warning};
use ergometer::journal::Entry;
use ergometer::run::Sensing;
use ergometer_clients::FailureKind;
use ergometer_runs::config::{RunConfig, Schedule};
use tempfile::TempDir;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::client::{Scripted, Step, answer};
use crate::dataset::Questions;
use crate::rig::{Rig, assert_near, closed, config, resume_in};
use crate::sensors::{blind, machine, slow_gpu, whole};
use crate::table::Table;

const QUERIES: u64 = 9;
const SEED: u64 = 0x5eed;
const OFFSETS: usize = 200;

fn flaky() -> Scripted {
    Scripted::new(|index| match index {
        3 => vec![Step::Fail(FailureKind::Rejected, "no")],
        7 => vec![Step::Say("1"), Step::Fail(FailureKind::MidStream, "gone")],
        _ => answer("1é", 4 + 3 * (index % 3)),
    })
}

/// The journal of a run of nine queries, three at a time, two of which fail.
async fn original(sensing: Sensing) -> Rig {
    let rig = Rig::new();
    let three = RunConfig { schedule: Schedule::Concurrency { concurrency: 3 }, ..config() };
    let run = closed(rig.run(three, Questions::new(QUERIES), flaky(), sensing).await);
    assert_eq!((run.summary.total_queries, run.summary.outcomes.completed), (QUERIES, 7));
    rig
}

/// Where to cut: at the start, at the end of every line, and at random places.
fn cuts(bytes: &[u8]) -> BTreeSet<usize> {
    let mut random = fastrand::Rng::with_seed(SEED);
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(place, _)| place + 1);
    let mut cuts: BTreeSet<usize> = ends.collect();
    cuts.insert(0);
    cuts.extend((0..OFFSETS).map(|_| random.usize(..bytes.len())));
    cuts
}

/// A copy of a run's journal, with one of its files cut.
fn copy(run: &Path, file: &str, bytes: &[u8]) -> (TempDir, PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("run");
    fs::create_dir_all(folder.join("journal")).unwrap();
    for entry in fs::read_dir(run.join("journal")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), folder.join("journal").join(entry.file_name())).unwrap();
    }
    fs::write(folder.join("journal").join(file), bytes).unwrap();
    (parent, folder)
}

/// The queries whose end is complete in this text, in order.
fn ended(text: &[u8]) -> Vec<i64> {
    let lines = text.split_inclusive(|&byte| byte == b'\n').filter(|line| line.ends_with(b"\n"));
    let index = |line: &[u8]| match Entry::from_line(line).unwrap() {
        Entry::Ended(exchange) => Some(i64::try_from(exchange.query.index).unwrap()),
        _ => None,
    };
    let mut ended: Vec<i64> = lines.filter_map(index).collect();
    ended.sort_unstable();
    ended
}

fn assert_closes_with(folder: &Path, wanted: &[i64], cut: usize) {
    match close::close(folder) {
        Ok(closed) => {
            assert_eq!(Table::read(folder).queries(), wanted, "cut at {cut}");
            assert_eq!(closed.summary.total_queries, wanted.len() as u64, "cut at {cut}");
            assert_eq!(closed.summary.complete, wanted.len() as u64 == QUERIES, "cut at {cut}");
            assert_conserved(folder, &closed, cut);
        }
        Err(CloseError::NoRecords { .. }) => assert!(wanted.is_empty(), "cut at {cut}"),
        Err(error) => panic!("cut at {cut}: {error}"),
    }
}

/// Checks that all energy of requests is in a record or counted as unrecorded.
fn assert_conserved(folder: &Path, closed: &ClosedRun, cut: usize) {
    let Some(totals) = &closed.summary.energy.measured else { return };
    let records = Table::read(folder).floats("ergometer/energy/measured/gross/joules");
    let records: f64 = records.into_iter().flatten().sum();
    let balance = totals.balance;
    let difference = records + balance.unrecorded_j - balance.requests_j;
    assert!(difference.abs() <= 1e-6 * balance.requests_j, "cut at {cut}: {records} {balance:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_events_are_closed_and_resumed_without_loss_or_repeat() {
    let rig = original(blind()).await;
    let (run, file) = (rig.folder(), "session-0.events.jsonl");
    let bytes = Arc::new(fs::read(run.join("journal").join(file)).unwrap());
    let places = Arc::new(Semaphore::new(64));
    let mut resumed = JoinSet::new();
    for cut in cuts(&bytes) {
        let (bytes, run, places) = (Arc::clone(&bytes), run.clone(), Arc::clone(&places));
        resumed.spawn(async move {
            let _place = places.acquire().await.unwrap();
            let text = &bytes[..cut];
            let (_parent, folder) = copy(&run, file, text);
            let wanted = ended(text);
            assert_closes_with(&folder, &wanted, cut);

            let client = flaky();
            let calls = client.calls();
            let run = closed(resume_in(&folder, Questions::new(QUERIES), client, blind()).await);
            let mut sent = calls.sent();
            sent.sort_unstable();
            let missing: Vec<u64> =
                (0..QUERIES).filter(|&index| !wanted.contains(&i64::try_from(index).unwrap())).collect();
            assert_eq!(sent, missing, "cut at {cut}: only missing queries are sent, once");
            let all: Vec<i64> = (0..i64::try_from(QUERIES).unwrap()).collect();
            let table = Table::read(&folder);
            assert_eq!(table.queries(), all, "cut at {cut}");
            assert!(run.summary.complete, "cut at {cut}");
            assert_eq!((run.summary.outcomes.completed, run.summary.outcomes.failed.len()), (7, 2), "cut at {cut}");
            let mut requests = table.integers("ergometer/request");
            requests.sort_unstable();
            requests.dedup();
            assert_eq!(requests.len(), all.len(), "cut at {cut}: request numbers are unique");
        });
    }
    let mut count = 0;
    while let Some(done) = resumed.join_next().await {
        done.unwrap();
        count += 1;
    }
    assert!(count > OFFSETS);
}

/// Every cut keeps the records; lost readings only lose energy.
#[tokio::test]
async fn cut_readings_lose_energy_and_no_record() {
    let rig = original(machine(vec![slow_gpu()])).await;
    let (run, file) = (rig.folder(), "session-0.readings.jsonl");
    let bytes = fs::read(run.join("journal").join(file)).unwrap();
    let all: Vec<i64> = (0..i64::try_from(QUERIES).unwrap()).collect();
    let (_parent, folder) = copy(&run, file, &bytes);
    let mut most = 0;
    for cut in cuts(&bytes) {
        fs::write(folder.join("journal").join(file), &bytes[..cut]).unwrap();
        assert_closes_with(&folder, &all, cut);
        let known = Table::read(&folder).floats("ergometer/energy/measured/gross/joules");
        let known = known.iter().flatten().inspect(|joules| assert!(joules.is_finite() && **joules >= 0.0)).count();
        most = most.max(known);
    }
    assert_eq!(most as u64, QUERIES, "with nearly all readings every query has energy");
    fs::remove_file(folder.join("journal").join(file)).unwrap();
    assert_closes_with(&folder, &all, 0);
    let damaged = [&bytes[..bytes.len() / 2], b"\xff\xfe not a reading\n", &bytes[bytes.len() / 2..]].concat();
    fs::write(folder.join("journal").join(file), damaged).unwrap();
    assert_closes_with(&folder, &all, 0);
    let warnings = close::close(&folder).unwrap().warnings;
    assert!(warnings.iter().any(|warning| matches!(warning, Warning::Readings { session: 0, .. })), "{warnings:?}");
}

/// Requests whose end is cut off count as in flight until the last reading: their energy is in no record, but is
/// counted.
#[tokio::test]
async fn the_energy_of_requests_lost_with_a_kill_is_counted() {
    let rig = original(machine(vec![slow_gpu()])).await;
    let (run, file) = (rig.folder(), "session-0.events.jsonl");
    let bytes = fs::read(run.join("journal").join(file)).unwrap();
    let whole = close::close(&run).unwrap().summary;
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(place, _)| place + 1);
    for cut in ends {
        let (_parent, folder) = copy(&run, file, &bytes[..cut]);
        let wanted = ended(&bytes[..cut]);
        assert_closes_with(&folder, &wanted, cut);
        if wanted.is_empty() {
            continue;
        }
        let summary = close::close(&folder).unwrap().summary;
        let balance = summary.energy.measured.as_ref().unwrap().balance;
        assert_near(balance.requests_j + balance.idle_j + balance.unattributed_j, balance.meter_j, 1e-9);
        let joules = Table::read(&folder).floats("ergometer/energy/measured/gross/joules");
        let recorded: f64 = joules.iter().flatten().sum();
        if summary.outcomes.lost == 0 {
            assert_near(recorded, balance.requests_j, 1e-6);
        } else {
            assert!(recorded < balance.requests_j, "cut at {cut}: {recorded} {balance:?}");
            assert!(summary.duration_s > whole.duration_s, "cut at {cut}");
        }
    }
}

#[tokio::test]
async fn a_journal_cut_and_resumed_twice_is_complete() {
    let rig = original(whole()).await;
    let (run, file) = (rig.folder(), "session-0.events.jsonl");
    let bytes = fs::read(run.join("journal").join(file)).unwrap();
    let (_parent, folder) = copy(&run, file, &bytes[..bytes.len() / 3]);
    let elsewhere = resume_in(&folder, Questions::new(QUERIES), flaky(), blind()).await.unwrap_err().to_string();
    assert!(elsewhere.contains("it started on H200, and this machine is ABACUS3000"), "{elsewhere}");
    closed(resume_in(&folder, Questions::new(QUERIES), flaky(), whole()).await);
    let second = folder.join("journal/session-1.events.jsonl");
    let bytes = fs::read(&second).unwrap();
    fs::write(&second, &bytes[..bytes.len() / 2]).unwrap();
    let run = closed(resume_in(&folder, Questions::new(QUERIES), flaky(), whole()).await);
    assert_eq!((run.summary.sessions, run.summary.complete), (3, true));
    let table = Table::read(&folder);
    assert_eq!(table.queries(), (0..i64::try_from(QUERIES).unwrap()).collect::<Vec<_>>());
    let sessions: BTreeSet<_> = table.integers("ergometer/session").into_iter().flatten().collect();
    assert_eq!(sessions, BTreeSet::from([0, 1, 2]));
    let mut requests = table.integers("ergometer/request");
    requests.sort_unstable();
    requests.dedup();
    assert_eq!(requests.len() as u64, QUERIES);
}
