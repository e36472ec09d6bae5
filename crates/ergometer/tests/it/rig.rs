//! A configuration, a folder and a stop signal for tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ergometer::close::ClosedRun;
use ergometer::journal::{JournalFolder, SessionEvents};
use ergometer::run::{FinishedRun, Notice, Observer, PreparedRun, Progress, RunError, Sensing, Target};
use ergometer_clients::{ClientSpec, RequestOptions};
use ergometer_datasets::DatasetSpec;
use ergometer_runs::Exchange;
use ergometer_runs::config::{Prices, Retries, RunConfig, Schedule, Slo, Think};
use tempfile::TempDir;
use tokio::sync::watch;

use crate::client::Scripted;
use crate::dataset::Questions;

/// The name of the model in all tests.
pub(crate) const MODEL: &str = "org/m-1.5";

/// A run of all queries, one at a time, without idle measurements.
pub(crate) fn config() -> RunConfig {
    RunConfig {
        dataset: DatasetSpec { id: String::from("questions"), parameters: std::collections::BTreeMap::default() },
        client: ClientSpec { id: String::from("scripted"), model: String::from(MODEL), ..ClientSpec::default() },
        request: RequestOptions::default(),
        grader: None,
        max_queries: None,
        duration_s: None,
        schedule: Schedule::Concurrency { concurrency: 1 },
        ramp_s: 0.0,
        max_in_flight: None,
        think: Think::Never,
        draw: 0,
        slo: Slo::default(),
        warmup: 0,
        timeout_s: None,
        max_failures: None,
        retries: Retries::default(),
        tokenizer: None,
        judge: None,
        server_metrics: None,
        idle_s: 0.0,
        calibrate_s: 0.0,
        sensors: Vec::new(),
        devices: ergometer_runs::config::CountedDevices::default(),
        server_is_local: false,
        model_cpu: true,
        prices: Prices::default(),
        model_parameters: None,
        name: None,
    }
}

/// An observer that ignores everything.
pub(crate) struct NoObserver;

impl Observer for NoObserver {
    fn notice(&self, _: Notice<'_>) {}

    fn progress(&self, _: &Progress) {}
}

/// A folder of runs with one run.
pub(crate) struct Rig {
    runs: TempDir,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self { runs: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn runs(&self) -> &Path {
        self.runs.path()
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.runs.path().join("run")
    }

    pub(crate) fn journal(&self) -> JournalFolder {
        JournalFolder::of_run(&self.folder())
    }

    /// Makes a new run.
    pub(crate) async fn run(
        &self,
        config: RunConfig,
        dataset: Questions,
        client: Scripted,
        sensing: Sensing,
    ) -> Result<FinishedRun, RunError> {
        let prepared = PreparedRun::with(config, Box::new(dataset), Box::new(client), sensing).await?;
        self.run_prepared(prepared).await
    }

    /// Makes a new run with a client that connects to a server.
    pub(crate) async fn run_client(&self, config: RunConfig, dataset: Questions) -> Result<FinishedRun, RunError> {
        let client = ergometer_clients::open(&config.client)?;
        let prepared = PreparedRun::with(config, Box::new(dataset), client, crate::sensors::blind()).await?;
        self.run_prepared(prepared).await
    }

    pub(crate) async fn run_prepared(&self, prepared: PreparedRun) -> Result<FinishedRun, RunError> {
        let (_sender, stop) = watch::channel(false);
        prepared.run(Target::New(self.folder()), stop, Arc::new(NoObserver)).await
    }

    /// Resumes the run.
    pub(crate) async fn resume(
        &self,
        dataset: Questions,
        client: Scripted,
        sensing: Sensing,
    ) -> Result<FinishedRun, RunError> {
        resume_in(&self.folder(), dataset, client, sensing).await
    }

    /// The exchanges of a session in the journal.
    pub(crate) fn exchanges(&self, session: u32) -> (SessionEvents, Vec<Exchange>) {
        let mut exchanges = Vec::new();
        let path = self.journal().events_path(session);
        let events = SessionEvents::read_with(&path, |exchange| exchanges.push(exchange.clone())).unwrap();
        (events, exchanges)
    }
}

pub(crate) async fn resume_in(
    folder: &Path,
    dataset: Questions,
    client: Scripted,
    sensing: Sensing,
) -> Result<FinishedRun, RunError> {
    let (_sender, stop) = watch::channel(false);
    let prepared = PreparedRun::resume_with(folder, Box::new(dataset), Box::new(client), sensing).await?;
    prepared.run(Target::Resume(folder.to_path_buf()), stop, Arc::new(NoObserver)).await
}

/// The result of a run that has records.
pub(crate) fn closed(finished: Result<FinishedRun, RunError>) -> ClosedRun {
    let finished = finished.unwrap();
    assert!(finished.failure.is_none(), "{:?}", finished.failure);
    finished.closed.unwrap()
}

pub(crate) fn has_warning(closed: &ClosedRun, text: &str) -> bool {
    closed.summary.warnings.iter().any(|warning| warning.contains(text))
}

#[track_caller]
pub(crate) fn assert_near(found: f64, wanted: f64, share: f64) {
    assert!((found - wanted).abs() <= share * wanted.abs(), "{found} is not within {share} of {wanted}");
}
