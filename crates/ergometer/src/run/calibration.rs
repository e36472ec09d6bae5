//! Sends calibration requests: queries of the dataset at 1 and at 4 in flight, before a run at a higher load.
//!
//! One load cannot show what a step of the server costs whatever its number of sequences; these requests can. They are in
//! the journal, but are no records. A calibration that fails does not fail the run. Later runs reuse it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ergometer_attribution::Calibration;
use ergometer_clients::{Locality, Outcome, Transcript};
use ergometer_runs::{Exchange, Sweep};
use ergometer_telemetry::Provenance;
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, sleep_until};

use super::sending::{Prompt, Sender};
use super::{Notice, Observer, PreparedRun, RunError};
use crate::close::difference;
use crate::journal::{Entry, JournalFolder, Manifest};

/// A run with fewer requests in flight is close enough to the loads of a calibration.
const LEAST_LOAD: u32 = 8;

/// The requests in flight in the second half; in the first, it is one.
pub(crate) const CALIBRATION_LOAD: u32 = 4;

/// How long requests in flight may continue after their half of the time. What arrived until then is evidence, too.
const GRACE: Duration = Duration::from_secs(1);

/// The wait after a failure.
const PAUSE: Duration = Duration::from_millis(200);

/// The most requests in each half. A model server answers fewer; a scripted one would fill the journal.
const MOST: u64 = 512;

/// If the dataset has this many queries that the run does not send, they are used: a prefix cache then does not
/// carry over to the run.
const ENOUGH: u64 = 16;

/// A calibration that is older is not reused: the server may have been restarted with other settings. 24 hours.
const OLDEST_NS: i64 = 24 * 3_600_000_000_000;

/// The first index in an endless dataset, far beyond those of a run.
const FAR: u64 = 1 << 40;

impl PreparedRun {
    /// How long calibration requests are sent. `None` if nothing measures the server here, if its net energy will be
    /// unknown, or if the load is low.
    #[must_use]
    pub fn calibration(&self) -> Option<Duration> {
        let config = self.config();
        let most = config.schedule.concurrency().or(config.max_in_flight);
        let is_server_here = self.locality() == Locality::ThisMachine && config.client.id != "embedded";
        let mut channels = self.sensing().sensors.iter().flat_map(|sensor| sensor.channels());
        let is_measured = channels.any(|channel| {
            let is_energy = !matches!(channel.provenance, Provenance::Modelled | Provenance::Gauge);
            is_energy && self.counted().counts(channel.device)
        });
        let is_useful = is_measured && is_server_here && config.idle_s > 0.0;
        let length = Duration::try_from_secs_f64(config.calibrate_s).ok()?;
        (is_useful && !length.is_zero() && most.is_none_or(|most| most >= LEAST_LOAD)).then_some(length)
    }
}

/// Copies the newest calibration of a run like this one from the folder that `run` is in; for a run of a sweep, also from
/// the folder that the sweep is in. Returns the name of that run.
pub(super) fn reuse_calibration(journal: &JournalFolder, run: &Path, manifest: &Manifest) -> Option<String> {
    let entries = folders_of_runs(run).into_iter().filter_map(|folder| fs::read_dir(folder).ok());
    let calibrated = entries.flat_map(Iterator::flatten).filter_map(|entry| {
        let other = JournalFolder::of_run(&entry.path());
        let mut found = Calibration::read(&other.calibration_path()).ok()??;
        let age_ns = manifest.created_ns.saturating_sub(found.measured_ns);
        let is_usable = (0..=OLDEST_NS).contains(&age_ns) && is_alike(&other.manifest().ok()?, manifest);
        found.run.get_or_insert_with(|| entry.file_name().to_string_lossy().into_owned());
        is_usable.then_some(found)
    });
    let newest = calibrated.max_by_key(|found| found.measured_ns)?;
    newest.write(&journal.calibration_path()).ok()?;
    newest.run
}

/// The folder that a run is in. If that is a sweep, also the folder that the sweep is in.
fn folders_of_runs(run: &Path) -> Vec<PathBuf> {
    // A relative path of one name has no parent.
    let run = std::path::absolute(run).unwrap_or_else(|_| run.to_path_buf());
    let of_sweep = run.parent().filter(|parent| Sweep::is_in(parent)).and_then(Path::parent);
    run.parent().into_iter().chain(of_sweep).map(Path::to_path_buf).collect()
}

/// Whether two runs have the same server, model, devices and dataset. Every run of a sweep has its own synthetic prompts.
fn is_alike(one: &Manifest, other: &Manifest) -> bool {
    let model = |manifest: &Manifest| (manifest.model.parameters, manifest.model.fingerprint.clone());
    let prompts = |manifest: &Manifest| {
        let mut spec = manifest.config.dataset.clone();
        spec.parameters.remove("seed");
        (manifest.dataset.id == "synthetic").then_some(spec)
    };
    let is_same_dataset = one.dataset.fingerprint == other.dataset.fingerprint
        || prompts(one).is_some_and(|prompts_of_one| Some(prompts_of_one) == prompts(other));
    is_same_dataset && model(one) == model(other) && difference(one, other).is_none()
}

/// Sends calibration requests for this long.
pub(super) async fn calibrate(sender: &Sender, observer: &dyn Observer, length: Duration) {
    if sender.control.is_stopped() {
        return;
    }
    observer.notice(Notice::Calibrating(length));
    let calibration = Sending { sender, observer, next: AtomicU64::new(0), has_failed: AtomicBool::new(false) };
    let Some(half) = Half::new(length, &calibration) else { return };
    calibration.send(half).await;
    let Some(half) = Half::new(length, &calibration) else { return };
    let slot = || calibration.send(half);
    tokio::join!(slot(), slot(), slot(), slot());
}

/// When one half of a calibration ends.
#[derive(Debug, Clone, Copy)]
struct Half {
    end: Instant,
    cancel: Instant,
    /// One past the number of its last request.
    limit: u64,
}

impl Half {
    /// `None` if its end is beyond the range of the clock.
    fn new(length: Duration, calibration: &Sending) -> Option<Self> {
        let end = Instant::now().checked_add(length / 2)?;
        let limit = calibration.next.load(Ordering::Relaxed) + MOST;
        Some(Self { end, cancel: end.checked_add(GRACE)?, limit })
    }
}

/// A calibration that is being sent.
struct Sending<'a> {
    sender: &'a Sender,
    observer: &'a dyn Observer,
    /// The number of the next request.
    next: AtomicU64,
    has_failed: AtomicBool,
}

impl Sending<'_> {
    /// Sends one request after the other until the half is over or the user stops the run.
    async fn send(&self, half: Half) {
        let control = &self.sender.control;
        while Instant::now() < half.end && !control.is_stopped() {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= half.limit {
                return;
            }
            let exchange = match self.exchange(number, half.cancel).await {
                Ok(exchange) => exchange,
                Err(error) => return self.report(&error.to_string()),
            };
            let failure = match &exchange.outcome {
                Outcome::Failed { cause, .. } => Some(cause.clone()),
                Outcome::Completed | Outcome::Cancelled | Outcome::Lost => None,
            };
            self.sender.record(Entry::Calibration(Box::new(exchange)));
            if let Some(cause) = failure {
                self.report(&cause);
                control.sleep(PAUSE).await;
            }
        }
    }

    /// Sends one request. It is cancelled at this time, and when the user stops the run.
    async fn exchange(&self, number: u64, cancel: Instant) -> Result<Exchange, RunError> {
        let Sender { control, clock, .. } = self.sender;
        let (size, most) = (self.sender.dataset().size(), self.sender.config().max_queries);
        let query = self.sender.query(index(number, size, most)).await?;
        let id = self.sender.run_id().calibration(number);
        let (scheduled, mut transcript) = (clock.now(), Transcript::default());
        let prompt = Prompt { query: &query, before: &[] };
        let outcome = tokio::select! {
            (outcome, _) = self.sender.attempt(prompt, &id, &mut transcript) => outcome,
            // As in `attempt`: timers must fire even if the client uses up the budget of the task.
            () = unconstrained(sleep_until(cancel)) => Outcome::Cancelled,
            () = unconstrained(control.stopped()) => Outcome::Cancelled,
        };
        let now = clock.now();
        let sent = transcript.sent.take().unwrap_or(scheduled).clamp(scheduled, now);
        let end = transcript.ended.take().unwrap_or(now).clamp(sent, now);
        let (request, session, attempt, is_retried) = (number, self.sender.session(), 1, false);
        Ok(Exchange { request, session, attempt, query, scheduled, sent, end, transcript, outcome, is_retried })
    }

    fn report(&self, cause: &str) {
        if !self.has_failed.swap(true, Ordering::Relaxed) {
            self.observer.notice(Notice::CalibrationFailed(cause));
        }
    }
}

/// The index of a request's query. Indices are spread over the dataset, so that all kinds of queries appear.
fn index(number: u64, size: Option<u64>, max_queries: Option<u64>) -> u64 {
    let Some(size) = size else { return FAR + number };
    let first = max_queries.filter(|most| most.saturating_add(ENOUGH) <= size).unwrap_or(0);
    // Multiples of the golden ratio are evenly spread between 0 and 1, however many there are.
    let fraction = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let place = (u128::from(fraction) * u128::from(size - first)) >> 64;
    first + u64::try_from(place).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_runs_are_beside_the_run_or_beside_its_sweep() {
        assert_eq!(folders_of_runs(Path::new("run")), [std::env::current_dir().unwrap()]);
        let runs = tempfile::tempdir().unwrap();
        let sweep = runs.path().join("sweep_x");
        let run = sweep.join("concurrency_8");
        assert_eq!(folders_of_runs(&run), [sweep.as_path()]);
        fs::create_dir(&sweep).unwrap();
        fs::write(sweep.join("sweep.json"), "{}").unwrap();
        assert_eq!(folders_of_runs(&run), [sweep.as_path(), runs.path()]);
    }

    #[test]
    fn queries_are_spread_over_those_that_the_run_does_not_send() {
        let indices = |size, most| (0..30).map(|number| index(number, size, most)).collect::<Vec<_>>();
        let all = indices(Some(10), None);
        assert!((0..10).all(|index| all.contains(&index)), "{all:?}");
        assert!(indices(Some(100), Some(90)).iter().any(|&index| index < 90), "too few others");
        let others = indices(Some(100), Some(70));
        assert!(others.iter().all(|index| (70..100).contains(index)), "{others:?}");
        assert_eq!(indices(None, Some(70))[..2], [FAR, FAR + 1]);
    }
}
