//! A run that is ready to start: every check that needs no request has passed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

use super::calibration::reuse_calibration;
use super::checks::{ResolvedSettings, RunInputs};
use super::folder::RunFolder;
use super::session::{Session, SessionEnd, SessionPlan};
use super::{Observer, RunError, Sensing, Target, recover};
use crate::close::{self, CloseError, ClosedRun};
use crate::config::CountedDevices;
use crate::journal::{DatasetFacts, Exchanges, Grading, JournalError, JournalFolder, Manifest};
use crate::review::{Judge, Review, ReviewOutcome};
use ergometer_clients::server_metrics::ServerMetrics;
use ergometer_clients::{Client, EarlierTurn, Locality, ModelFacts, Outcome};
use ergometer_datasets::Dataset;
use ergometer_diagnostics::{Message, command, hint};
use ergometer_runs::config::RunConfig;
use ergometer_runs::slug::folder_name;
use ergometer_runs::{Closing, Fate};

/// A run that is ready to start.
pub struct PreparedRun {
    config: RunConfig,
    dataset: Arc<dyn Dataset>,
    client: Arc<dyn Client>,
    /// The judge, if a model grades. It is checked before the run.
    judge: Option<Judge>,
    settings: ResolvedSettings,
    model: ModelFacts,
    sensing: Sensing,
    /// The server's metrics, if it has any.
    server: Option<ServerMetrics>,
    /// The manifest of the run, if it is resumed.
    resumed: Option<Manifest>,
}

/// A run that has ended.
#[derive(Debug)]
pub struct FinishedRun {
    /// Why it ended.
    pub closing: Closing,
    /// The results; `None` without a record, or if `failure` kept them from being written.
    pub closed: Option<ClosedRun>,
    /// An error that stopped the run. The measurements so far are kept.
    pub failure: Option<RunError>,
    /// The run folder, which can be resumed. `None` without a record: a new run without one leaves no folder.
    pub folder: Option<PathBuf>,
}

impl PreparedRun {
    /// Resolves dataset and client, and prepares the client.
    pub async fn new(mut config: RunConfig, sensing: Sensing) -> Result<Self, RunError> {
        let dataset = ergometer_datasets::open(&config.dataset)?;
        let mut client = ergometer_clients::open(&config.client)?;
        if config.client.model.is_empty() {
            config.client.model = ergometer_clients::only_model(&*client, "model").await?;
            client = ergometer_clients::open(&config.client)?;
        }
        Self::ready(RunInputs { config, dataset, client, sensing }, None).await?.call_judge().await
    }

    /// Resumes a run with the configuration in its folder. `secrets` restores the secrets, which are not stored.
    pub async fn resume(
        folder: &Path,
        secrets: impl FnOnce(&mut RunConfig),
        sensing: impl AsyncFnOnce(&RunConfig) -> Result<Sensing, RunError>,
    ) -> Result<Self, RunError> {
        recover(folder)?;
        let manifest = JournalFolder::of_run(folder).manifest()?;
        let mut config = manifest.config.clone();
        secrets(&mut config);
        if let Some(secret) = config.missing_secret() {
            return Err(RunError::missing_secret(folder, &secret));
        }
        if config.redacted() != manifest.config {
            return Err(RunError::not_resumable(folder, "it was started with another configuration"));
        }
        let dataset = ergometer_datasets::open(&config.dataset)?;
        check_dataset(folder, &manifest, &*dataset)?;
        let client = ergometer_clients::open(&config.client)?;
        let sensing = sensing(&config).await?;
        Self::go_on(folder, manifest, RunInputs { config, dataset, client, sensing }).await?.call_judge().await
    }

    /// Prepares a run with the caller's dataset and client, which are stored under the names in the configuration. To
    /// set the judge, use [`judged_by`](Self::judged_by).
    pub async fn with(
        config: RunConfig,
        dataset: Box<dyn Dataset>,
        client: Box<dyn Client>,
        sensing: Sensing,
    ) -> Result<Self, RunError> {
        Self::ready(RunInputs { config, dataset, client, sensing }, None).await
    }

    /// Resumes a run that was prepared [`with`](Self::with) the caller's dataset and client.
    pub async fn resume_with(
        folder: &Path,
        dataset: Box<dyn Dataset>,
        client: Box<dyn Client>,
        sensing: Sensing,
    ) -> Result<Self, RunError> {
        let manifest = recover(folder).and_then(|()| Ok(JournalFolder::of_run(folder).manifest()?));
        let checked = manifest.and_then(|manifest| check_dataset(folder, &manifest, &*dataset).map(|()| manifest));
        match checked {
            Ok(manifest) => {
                let config = manifest.config.clone();
                Self::go_on(folder, manifest, RunInputs { config, dataset, client, sensing }).await
            }
            Err(error) => {
                let _ = client.close().await;
                Err(error)
            }
        }
    }

    /// Sets the client of the judge, if the configuration has one. Its model is stored under the name in the
    /// configuration.
    pub async fn judged_by(mut self, judge: Box<dyn Client>) -> Result<Self, RunError> {
        let model = self.config.judge.as_ref().map(|spec| spec.model.clone()).unwrap_or_default();
        self.judge = match Judge::admit(judge, &model).await {
            Ok(judge) => Some(judge),
            Err(error) => {
                self.close().await;
                return Err(error.into());
            }
        };
        Ok(self)
    }

    /// Connects to the judge of the configuration.
    async fn call_judge(mut self) -> Result<Self, RunError> {
        let Some(spec) = &mut self.config.judge else { return Ok(self) };
        match Judge::open(spec).await {
            Ok(judge) => self.judge = Some(judge),
            Err(error) => {
                self.close().await;
                return Err(error.into());
            }
        }
        Ok(self)
    }

    async fn go_on(folder: &Path, manifest: Manifest, inputs: RunInputs) -> Result<Self, RunError> {
        let (then, label) = (manifest.model.clone(), manifest.hardware_label.clone());
        let tokenizer = manifest.tokenizer.clone();
        // On the heap: the future holds all inputs, and callers keep it in theirs.
        let prepared = Box::pin(Self::ready(inputs, Some(manifest))).await?;
        let now = prepared.hardware_label();
        let is_same = then.parameters == prepared.model.parameters && then.fingerprint == prepared.model.fingerprint;
        let why = if !is_same {
            Message::new("the model has changed since the run started")
        } else if tokenizer != prepared.settings.tokenizer {
            Message::new("the tokenizer has changed since the run started")
                .with_hint(hint!("restore the old tokenizer"))
        } else if label != now {
            Message::new(format!("it started on {label}, and this machine is {now}"))
                .with_hint(hint!("resume on the machine that started the run"))
        } else {
            return Ok(prepared);
        };
        prepared.close().await;
        Err(RunError::not_resumable(folder, why))
    }

    /// Runs all checks. On an error, the client is closed.
    async fn ready(inputs: RunInputs, resumed: Option<Manifest>) -> Result<Self, RunError> {
        let settings = inputs.check();
        let RunInputs { config, dataset, client, sensing } = inputs;
        let ready = async {
            let settings = settings?;
            client.health().await?;
            let mut model = client.prepare(&config.request).await?;
            model.parameters = model.parameters.or(config.model_parameters);
            let asked = config.server_metrics.as_deref();
            let server = ServerMetrics::find(&config.client, client.base_url(), asked).await?;
            Ok((settings, model, server))
        };
        // Boxed: this future is large, and the caller's stack may be small.
        match Box::pin(ready).await {
            Ok((settings, model, server)) => {
                let (dataset, client) = (Arc::from(dataset), Arc::from(client));
                Ok(Self { config, dataset, client, judge: None, settings, model, sensing, server, resumed })
            }
            Err(error) => {
                let _ = client.close().await;
                Err(error)
            }
        }
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &RunConfig {
        &self.config
    }

    /// The dataset.
    #[must_use]
    pub fn dataset(&self) -> &dyn Dataset {
        &*self.dataset
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &ModelFacts {
        &self.model
    }

    /// The devices whose energy counts.
    #[must_use]
    pub fn counted(&self) -> &CountedDevices {
        &self.settings.counted
    }

    /// The sensors and the machine.
    #[must_use]
    pub fn sensing(&self) -> &Sensing {
        &self.sensing
    }

    /// The server's metrics, if it has any.
    #[must_use]
    pub fn server_metrics(&self) -> Option<&ServerMetrics> {
        self.server.as_ref()
    }

    /// Whether the requests run on this machine, so that its sensors measure their energy.
    #[must_use]
    pub fn locality(&self) -> Locality {
        if self.config.server_is_local { Locality::ThisMachine } else { self.client.locality() }
    }

    /// The name of the hardware, if the requests run on this machine.
    #[must_use]
    pub fn hardware_label(&self) -> String {
        match self.locality() {
            Locality::Elsewhere { .. } => ergometer_sensors::hardware::hardware_label(&[], None),
            _ => self.sensing.machine.label(),
        }
    }

    /// The number of queries; `None` if the run is endless.
    #[must_use]
    pub fn queries(&self) -> Option<u64> {
        match (self.dataset.size(), self.config.max_queries) {
            (Some(size), Some(most)) => Some(size.min(most)),
            (size, most) => size.or(most),
        }
    }

    /// The path of the run folder in a folder of runs.
    #[must_use]
    pub fn folder_in(&self, runs: &Path) -> PathBuf {
        let (model, name) = (&self.config.client.model, self.config.name.as_deref());
        runs.join(folder_name(&self.hardware_label(), model, self.dataset.name(), name))
    }

    /// Closes the client and the judge without a run.
    pub fn close(&self) -> impl Future<Output = ()> + Send + use<> {
        // Captures no sensors, which are not `Sync`, so that the future is `Send`.
        let (client, judge) = (Arc::clone(&self.client), self.judge.clone());
        async move {
            let _ = client.close().await;
            if let Some(judge) = judge {
                judge.close().await;
            }
        }
    }

    /// Makes the run. `stop` becomes true when the user stops it.
    pub async fn run(
        self,
        target: Target,
        stop: watch::Receiver<bool>,
        observer: Arc<dyn Observer>,
    ) -> Result<FinishedRun, RunError> {
        let close = self.close();
        // Boxed: this future is large, and the caller's stack may be small.
        let finished = Box::pin(self.run_open(target, stop, observer)).await;
        close.await;
        finished
    }

    async fn run_open(
        self,
        target: Target,
        stop: watch::Receiver<bool>,
        observer: Arc<dyn Observer>,
    ) -> Result<FinishedRun, RunError> {
        if self.resumed.is_some() != matches!(target, Target::Resume(_)) {
            return Err(RunError::config("a run can only be resumed in its own folder"));
        }
        if self.config.judge.is_some() && self.judge.is_none() {
            return Err(RunError::config("the configuration has a judge, but none was passed"));
        }
        let folder = Arc::new(RunFolder::prepare(&target, &self.manifest()?)?);
        let result = self.run_in(&folder, stop, observer).await;
        // A new run without a record leaves no folder.
        folder.abandon();
        folder.clear();
        result
    }

    async fn run_in(
        self,
        folder: &Arc<RunFolder>,
        stop: watch::Receiver<bool>,
        observer: Arc<dyn Observer>,
    ) -> Result<FinishedRun, RunError> {
        let journal = JournalFolder::of_run(&folder.now());
        let mut plan = self.plan(&journal)?;
        let (client, judge) = (Arc::clone(&self.client), self.judge);
        let (common, wish) = (Arc::new(self.config.request.clone()), stop.clone());
        let mut ended = if let Some(closing) = plan.is_done(self.config.duration_s) {
            // All queries are settled, so there is no warm-up either.
            SessionEnd { closing, failure: None }
        } else {
            let manifest = journal.manifest()?;
            let wanted = plan.calibration.and_then(|_| reuse_calibration(&journal, folder.path(), &manifest));
            if let Some(earlier) = wanted {
                plan.calibration = None;
                observer.notice(super::Notice::CalibrationReused(&earlier));
            }
            let session = Session {
                run_id: manifest.run_id(),
                config: self.config,
                dataset: self.dataset,
                client: self.client,
                counted: self.settings.counted,
                server: self.server,
                folder: Arc::clone(folder),
                observer: Arc::clone(&observer),
            };
            session.run(plan, self.sensing.sensors, &journal, stop).await?
        };
        let path = folder.now();
        if !folder.has_record() {
            return Ok(FinishedRun { closing: ended.closing, closed: None, failure: ended.failure, folder: None });
        }
        if ended.failure.is_none() {
            let review = Review { journal: JournalFolder::of_run(&path), client, common, judge, stop: wish };
            ended.add_review(review.run(&|step| observer.notice(super::Notice::Reviewing(step))).await);
        }
        observer.notice(super::Notice::Closing(folder.path()));
        let closed = tokio::task::spawn_blocking(move || close::close(&path)).await;
        let finished = |closed, failure| {
            let folder = Some(folder.now());
            Ok(FinishedRun { closing: ended.closing, closed, failure, folder })
        };
        match (closed, ended.failure) {
            (Ok(Ok(closed)), failure) => finished(Some(closed), failure),
            // A resumed run that still has no record, or an error that stopped the run: it comes before its consequences.
            (Ok(Err(CloseError::NoRecords { .. })), failure) | (_, failure @ Some(_)) => finished(None, failure),
            (Ok(Err(error)), None) => Err(error.into()),
            (Err(error), None) => {
                Err(RunError::internal(format!("the files of the run could not be written: {error}")))
            }
        }
    }

    /// Reads from the journal which queries are left.
    fn plan(&self, journal: &JournalFolder) -> Result<SessionPlan, RunError> {
        let mut plan = SessionPlan {
            session: 0,
            end: self.queries(),
            done: BTreeSet::new(),
            first_request: 0,
            attempts: BTreeMap::new(),
            earlier_turns: BTreeMap::new(),
            seconds_before: 0.0,
            calibration: self.calibration().filter(|_| !journal.calibration_path().exists()),
        };
        let numbers = journal.sessions()?;
        let mut settled = BTreeMap::new();
        for (place, &number) in numbers.iter().enumerate() {
            let events = journal.events(number)?;
            let records = events.requests.iter().filter(|located| located.fate == Fate::Settled);
            records.for_each(|located| _ = settled.entry(located.index).or_insert((place, *located)));
            plan.session = number + 1;
            plan.calibration = plan.calibration.filter(|_| events.calibration.is_empty());
            plan.done.extend(
                events.requests.iter().filter(|located| located.fate == Fate::Settled).map(|located| located.index),
            );
            let tried = events.requests.iter().map(|located| located.index);
            for index in tried.chain(events.lost.iter().map(|lost| lost.index)) {
                *plan.attempts.entry(index).or_default() += 1;
            }
            plan.first_request = plan.first_request.max(events.next_request);
            let first = events.requests.iter().map(|located| located.sent).min();
            let last = events.requests.iter().map(|located| located.end).max();
            plan.seconds_before += first.zip(last).map_or(0.0, |(first, last)| (last - first).get());
        }
        plan.attempts.retain(|index, _| !plan.done.contains(index));
        let mut exchanges = Exchanges::new(journal, numbers);
        for index in self.turns_of_open_conversations(&plan.done) {
            let Some((place, located)) = settled.get(&index) else { continue };
            let exchange = exchanges.read(*place, *located)?;
            if exchange.outcome == Outcome::Completed {
                let turn = EarlierTurn { problem: exchange.query.problem, answer: exchange.transcript.text };
                plan.earlier_turns.insert(index, turn);
            }
        }
        Ok(plan)
    }

    /// The settled turns of conversations that are not complete.
    fn turns_of_open_conversations(&self, done: &BTreeSet<u64>) -> Vec<u64> {
        let (mut half, mut next) = (Vec::new(), 0);
        while done.last().is_some_and(|&last| next <= last) {
            let turns = next..next.saturating_add(self.dataset.turns(next).max(1));
            if turns.clone().any(|index| !done.contains(&index)) {
                half.extend(turns.clone().filter(|index| done.contains(index)));
            }
            next = turns.end;
        }
        half
    }

    fn manifest(&self) -> Result<Manifest, RunError> {
        let config = self.config.redacted();
        let config_hash = Manifest::hash_of(&config)
            .map_err(|error| RunError::config(format!("the configuration cannot be stored: {error}")))?;
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let dataset = DatasetFacts {
            id: self.dataset.id().to_owned(),
            name: self.dataset.name().to_owned(),
            size: self.dataset.size(),
            fingerprint: self.dataset.fingerprint().to_owned(),
            columns: self.dataset.columns().cloned(),
        };
        Ok(Manifest {
            format_version: Manifest::VERSION,
            ergometer: String::from(env!("CARGO_PKG_VERSION")),
            created_ns: i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX),
            config_hash,
            config,
            dataset,
            grader: match &self.config.judge {
                Some(judge) => Grading::Judge(judge.model.clone()),
                None => Grading::Grader(self.settings.grader.clone()),
            },
            tokenizer: self.settings.tokenizer.clone(),
            model: self.model.clone(),
            place: self.locality(),
            hardware_label: self.hardware_label(),
            system_info: self.sensing.machine.system.clone(),
            gpus: self.sensing.machine.gpus.clone(),
        })
    }
}

impl SessionEnd {
    /// Adds the outcome of the review. A stopped review marks the run as interrupted, though all measurements are
    /// complete.
    fn add_review(&mut self, outcome: Result<ReviewOutcome, JournalError>) {
        match outcome {
            Ok(ReviewOutcome::Done) => {}
            Ok(ReviewOutcome::Stopped) => self.closing = Closing::Interrupted,
            Err(error) => self.failure = Some(error.into()),
        }
    }
}

/// Checks that a dataset has not changed since the run started.
fn check_dataset(folder: &Path, manifest: &Manifest, dataset: &dyn Dataset) -> Result<(), RunError> {
    let (then, now) = (&manifest.dataset, dataset.fingerprint());
    if then.fingerprint == now {
        return Ok(());
    }
    let text = format!(
        "the dataset {} has changed since the run started (hash {:.12}, now {now:.12})",
        then.name, then.fingerprint
    );
    let finalize = command(format!("finalize {}", folder.display()));
    let hint = hint!("restore the old dataset, or finalize the run without the remaining queries: ", finalize);
    Err(RunError::not_resumable(folder, Message::new(text).with_hint(hint)))
}
