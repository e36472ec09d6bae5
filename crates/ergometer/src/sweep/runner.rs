//! Makes the runs of a sweep one after another, with a cooldown between them.

use std::path::{Path, PathBuf};

use tokio::sync::watch;

use super::cooler::Cooler;
use super::fit;
use super::spec::{check_comparable, config_with, identity, look};
use super::{RunState, SweepError, SweepFolder, SweepNotice, SweepObserver, SweepSpec};
use crate::close::{self, ClosedRun};
use crate::run::{PreparedRun, Sensing, Target, read_duration};
use ergometer_runs::Closing;
use ergometer_runs::Summary;
use ergometer_runs::config::RunConfig;
use ergometer_runs::cost_model::CostModels;
use ergometer_runs::sweep::{Identity, Sweep};

/// A sweep whose dataset, model and sensors are checked, and that has no folder yet.
///
/// ```
/// # #[cfg(feature = "embedded")]
/// # async fn sweep() -> Result<(), Box<dyn std::error::Error>> {
/// use ergometer_runs::config::{RunConfig, Schedule};
/// use ergometer::run::Target;
/// use ergometer::sweep::{PreparedSweep, SweepSpec};
///
/// let config: RunConfig = serde_json::from_value(serde_json::json!({
///     "dataset": {"id": "builtin"}, "client": {"id": "embedded", "model": "tiny"},
///     "request": {"seed": 0, "max_tokens": 2}, "max_queries": 1,
///     "schedule": {"mode": "concurrency", "concurrency": 1}, "warmup": 0, "idle_s": 0.0,
///     "devices": [], "server_is_local": false, "model_cpu": true, "prices": {},
/// }))?;
/// let schedules = vec![Schedule::Concurrency { concurrency: 1 }, Schedule::Concurrency { concurrency: 2 }];
/// let sweep = PreparedSweep::new(SweepSpec { config, schedules, repeats: 1, cooldown_s: 0.0 }).await?;
///
/// let runs = tempfile::tempdir()?;
/// let target = Target::New(sweep.folder_in(runs.path(), None));
/// let (_sender, stop) = tokio::sync::watch::channel(false);
/// let finished = sweep.run(&target, stop, &mut ()).await?;
/// assert!(finished.sweep.complete && finished.failure.is_none());
/// assert!(finished.folder.join("concurrency_2/summary.json").is_file());
/// # Ok(())
/// # }
/// # #[cfg(feature = "embedded")]
/// # tokio::runtime::Runtime::new().unwrap().block_on(sweep()).unwrap();
/// ```
pub struct PreparedSweep {
    spec: SweepSpec,
    identity: Identity,
    first: PreparedRun,
}

/// A sweep that ended, with at least one run.
#[derive(Debug)]
pub struct FinishedSweep {
    /// The content of `sweep.json`.
    pub sweep: Sweep,
    /// The folder of the sweep.
    pub folder: PathBuf,
    /// Whether requests failed, of a run or of its judge.
    pub has_failures: bool,
    /// Whether a run that ended by itself lacks records although none of its requests failed.
    pub lacks_records: bool,
    /// Whether the caller stopped it.
    pub is_interrupted: bool,
    /// Why it ended early.
    pub failure: Option<SweepError>,
    /// Why no cost model was fitted to its runs together. They keep their own.
    pub fit_failure: Option<SweepError>,
}

/// Adds secrets to a configuration: run folders do not store them.
pub type Secrets<'a> = &'a (dyn Fn(&mut RunConfig) + Sync);

impl PreparedSweep {
    /// Checks the points and prepares the first run.
    pub async fn new(mut spec: SweepSpec) -> Result<Self, SweepError> {
        spec.check()?;
        spec.drop_needless_calibration();
        let sensing = Sensing::open(&spec.config).await?;
        let first = PreparedRun::new(spec.config.clone(), sensing).await?;
        // If no model was named, the configuration now has the only model of the server.
        spec.config = first.config().clone();
        Ok(Self { identity: identity(&first), spec, first })
    }

    /// The folder of the sweep in a folder of runs.
    #[must_use]
    pub fn folder_in(&self, runs: &Path, name: Option<&str>) -> PathBuf {
        self.identity.folder_in(runs, name)
    }

    /// Closes the client without making a run.
    pub async fn close(self) {
        self.first.close().await;
    }

    /// Makes the runs. A value of `true` in `stop` ends the sweep and keeps the data measured so far.
    pub async fn run(
        self,
        target: &Target,
        stop: watch::Receiver<bool>,
        observer: &mut dyn SweepObserver,
    ) -> Result<FinishedSweep, SweepError> {
        let created =
            self.spec.begin(self.identity).map_err(SweepError::from).and_then(|sweep| {
                Ok((read_duration("cooldown", sweep.cooldown_s)?, sweep, SweepFolder::prepare(target)?))
            });
        let (cooldown, mut sweep, folder) = match created {
            Ok(created) => created,
            Err(error) => {
                self.first.close().await;
                return Err(error);
            }
        };
        let states = look(&mut sweep, folder.now());
        let cooler = Cooler::new(&sweep, cooldown);
        let config = self.spec.config;
        let runner = Runner {
            sweep,
            folder,
            config,
            resumed: None,
            stop,
            observer,
            cooler,
            has_failures: false,
            lacks_records: false,
        };
        runner.finish(states, Some(self.first)).await
    }
}

/// Resumes a sweep with the settings in its folder.
pub async fn resume(
    folder: &Path,
    secrets: Secrets<'_>,
    stop: watch::Receiver<bool>,
    observer: &mut dyn SweepObserver,
) -> Result<FinishedSweep, SweepError> {
    let locked = SweepFolder::prepare(&Target::Resume(folder.to_path_buf()))?;
    let mut sweep = Sweep::read(folder)?;
    let cooldown = read_duration("cooldown", sweep.cooldown_s)?;
    let config = config_with(&sweep, folder, secrets)?;
    let states = look(&mut sweep, folder);
    let cooler = Cooler::new(&sweep, cooldown);
    let resumed = Some(secrets);
    let runner = Runner {
        sweep,
        folder: locked,
        config,
        resumed,
        stop,
        observer,
        cooler,
        has_failures: false,
        lacks_records: false,
    };
    runner.finish(states, None).await
}

/// The index of a point, and of a run in it.
type RunIndex = (usize, usize);

/// A sweep that is running.
struct Runner<'a> {
    sweep: Sweep,
    folder: SweepFolder,
    /// The settings of all runs, with secrets.
    config: RunConfig,
    /// The secrets of a resumed sweep; `None` for a new one.
    resumed: Option<Secrets<'a>>,
    stop: watch::Receiver<bool>,
    observer: &'a mut dyn SweepObserver,
    cooler: Cooler,
    has_failures: bool,
    lacks_records: bool,
}

impl Runner<'_> {
    async fn finish(
        mut self,
        states: Vec<(RunIndex, RunState)>,
        first: Option<PreparedRun>,
    ) -> Result<FinishedSweep, SweepError> {
        // Boxed: this future is large, and the caller's stack may be small.
        let ended = Box::pin(self.make(states, first)).await;
        let fitted = self.fit_together().await;
        self.end(ended, fitted)
    }

    /// Makes the runs that are missing or unfinished.
    async fn make(
        &mut self,
        states: Vec<(RunIndex, RunState)>,
        mut first: Option<PreparedRun>,
    ) -> Result<(), SweepError> {
        for ((point, run), state) in &states {
            if let RunState::Complete(summary) = state {
                self.has_failures |= has_failures(summary);
                self.observer.notice(SweepNotice::Complete { point: *point, run: *run, summary });
            }
        }
        self.sweep.write(self.folder.now())?;
        let mut is_begun = false;
        for (index, state) in states {
            if matches!(state, RunState::Complete(_)) {
                continue;
            }
            if first.is_none() {
                self.cool_down(index).await?;
            }
            if self.is_stopped() {
                break;
            }
            let prepared = match first.take() {
                Some(prepared) => prepared,
                None => self.prepare(index, &state).await?,
            };
            if !is_begun {
                is_begun = true;
                self.observer.notice(SweepNotice::Prepared(&prepared));
                self.cooler.learn(&mut self.sweep, &prepared, &self.stop, self.observer).await;
                self.sweep.write(self.folder.now())?;
            }
            if self.is_stopped() {
                prepared.close().await;
                break;
            }
            self.observer.notice(SweepNotice::Starting { sweep: &self.sweep, point: index.0, run: index.1 });
            // Boxed: this future is large, and the caller's stack may be small.
            Box::pin(self.run(index, &state, prepared)).await?;
        }
        Ok(())
    }

    async fn cool_down(&mut self, (point, run): RunIndex) -> Result<(), SweepError> {
        if let Some(cooled) = self.cooler.wait(&self.sweep, &self.stop, self.observer).await {
            self.sweep.points[point].runs[run].cooldown = Some(cooled);
            self.sweep.write(self.folder.now())?;
        }
        Ok(())
    }

    /// The configuration of one run. Repeats draw new arrival times, and every run has its own synthetic prompts: a server's
    /// prefix cache must not carry over from one run to the next.
    fn run_config(&self, (point, run): RunIndex) -> RunConfig {
        let mut config = RunConfig { schedule: self.sweep.points[point].schedule, ..self.config.clone() };
        config.draw = u32::try_from(run).unwrap_or(u32::MAX);
        let number = run * self.sweep.points.len() + point;
        if config.dataset.id == "synthetic" && number > 0 {
            let seed = config.dataset.parameters.get("seed").and_then(|seed| seed.trim().parse::<u64>().ok());
            let seed = seed.unwrap_or(0).wrapping_add((number as u64).wrapping_mul(0x1000_0001));
            config.dataset.parameters.insert(String::from("seed"), seed.to_string());
        }
        config
    }

    /// Prepares a run to make or to resume.
    async fn prepare(&self, index: RunIndex, state: &RunState) -> Result<PreparedRun, SweepError> {
        if let (RunState::Unfinished, Some(secrets)) = (state, self.resumed) {
            let folder = self.folder.now().join(&self.sweep.points[index.0].runs[index.1].folder);
            let sensing = async |config: &RunConfig| Sensing::open(config).await;
            return Ok(PreparedRun::resume(&folder, secrets, sensing).await?);
        }
        let config = self.run_config(index);
        let sensing = Sensing::open(&config).await?;
        let prepared = PreparedRun::new(config, sensing).await?;
        // Within one session the machine cannot change, though it may fail to identify itself in time.
        if self.resumed.is_some()
            && let Err(error) = check_comparable(&self.sweep, self.folder.path(), &prepared)
        {
            prepared.close().await;
            return Err(error);
        }
        Ok(prepared)
    }

    async fn run(&mut self, index: RunIndex, state: &RunState, prepared: PreparedRun) -> Result<(), SweepError> {
        let name = self.sweep.points[index.0].runs[index.1].folder.clone();
        let folder = self.folder.now().join(&name);
        // A run that was killed before it had a journal left an empty folder, which is replaced.
        let target = if *state == RunState::Unfinished { Target::Resume(folder) } else { Target::Replace(folder) };
        let observer = self.observer.run_observer(prepared.config().schedule);
        let finished = prepared.run(target, self.stop.clone(), observer).await?;
        self.cooler.has_worked();
        let is_empty = finished.closed.is_none();
        let ended_by_itself = finished.failure.is_none() && finished.closing != Closing::Interrupted;
        if let Some(mut closed) = finished.closed {
            if self.folder.is_staged() {
                // The files of the run name the folder in which they were written, so they are written again. Without
                // its summary, a run that is killed before that is not taken for a complete one.
                Summary::remove(&self.folder.now().join(&name))?;
                self.folder.commit()?;
                let folder = self.folder.path().join(&name);
                closed = tokio::task::spawn_blocking(move || close::close(&folder))
                    .await
                    .map_err(SweepError::CloseThread)??;
            }
            self.lacks_records |= ended_by_itself && !closed.summary.complete && !has_failures(&closed.summary);
            self.add(index, &closed)?;
        }
        if let Some(error) = finished.failure {
            return Err(error.into());
        }
        if is_empty && finished.closing != Closing::Interrupted {
            return Err(SweepError::NoRequest);
        }
        Ok(())
    }

    /// Adds a run that ended to the sweep.
    fn add(&mut self, (point, run): RunIndex, closed: &ClosedRun) -> Result<(), SweepError> {
        self.sweep.take((point, run), &closed.summary);
        self.sweep.write(self.folder.now())?;
        self.has_failures |= has_failures(&closed.summary);
        self.observer.notice(SweepNotice::Closed { sweep: &self.sweep, point, run, closed });
        Ok(())
    }

    /// Fits one cost model to all runs that have results, and takes their new figures. Runs without energy of their
    /// requests keep their files.
    async fn fit_together(&mut self) -> Result<(), SweepError> {
        let folders = fit::folders(&self.sweep, self.folder.now())?;
        let has_costs = |folder: &PathBuf| matches!(CostModels::read(folder), Ok(Some(_)));
        if folders.len() < 2 || !folders.iter().any(has_costs) {
            return Ok(());
        }
        let closed = tokio::task::spawn_blocking(move || close::attribute(&folders, None)).await;
        fit::take_summaries(&mut self.sweep, self.folder.now());
        self.sweep.write(self.folder.now())?;
        Ok(closed.map_err(SweepError::CloseThread)?.map(drop)?)
    }

    fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// Finishes the sweep. A new sweep without a run leaves no folder.
    fn end(
        mut self,
        ended: Result<(), SweepError>,
        fitted: Result<(), SweepError>,
    ) -> Result<FinishedSweep, SweepError> {
        let is_interrupted = ended.is_ok() && !self.sweep.complete && self.is_stopped();
        let is_empty = self.sweep.points.iter().all(|point| point.figures.is_empty());
        if is_empty {
            // The measurements are kept, even if their files could not be derived.
            let folder = self.folder.now().to_path_buf();
            let mut runs = self.sweep.points.iter().flat_map(|point| &point.runs);
            let has_journal = runs.any(|run| RunState::read(&folder.join(&run.folder)) != RunState::Missing);
            if has_journal && let Err(error) = ended {
                return Err(SweepError::Kept { error: Box::new(error), folder });
            }
            if self.resumed.is_none() && !has_journal {
                self.folder.abandon();
            }
            ended?;
            return Err(SweepError::Interrupted);
        }
        let folder = self.folder.path().to_path_buf();
        self.sweep.write(&folder)?;
        let Self { sweep, has_failures, lacks_records, .. } = self;
        let (failure, fit_failure) = (ended.err(), fitted.err());
        Ok(FinishedSweep { sweep, folder, has_failures, lacks_records, is_interrupted, failure, fit_failure })
    }
}

/// Whether requests of a run failed, including requests to the judge.
fn has_failures(summary: &Summary) -> bool {
    summary.judge.as_ref().is_some_and(|judge| judge.unjudged > 0) || summary.failed() > 0
}
