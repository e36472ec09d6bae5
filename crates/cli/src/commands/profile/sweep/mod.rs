//! A sweep: several loads, or one load several times, go in; one complete run for each comes out, and one table.

mod begin;
mod show;
mod wait;
mod warnings;

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use ergometer::close::{Closed, close};
use ergometer::config::RunConfig;
use ergometer::journal::Closing;
use ergometer::run::{Prepared, RunError, Sensing, Target};
use ergometer::sweep::{RunState, Sweep, SweepError, SweepFolder, label};
use serde_json::Value;
use tokio::sync::watch;

use super::live::Live;
use super::{config, failure, head, put_back, stop_on_signals};
use crate::arguments::{ProfileArguments, SummaryFormat};
use crate::exit::{Exit, Failure};
use crate::screen::Screen;
use begin::Begun;
use wait::Cooler;
use warnings::Warnings;

/// Whether what was typed is a sweep.
pub(super) fn is_asked_for(arguments: &ProfileArguments) -> bool {
    match &arguments.place.resume {
        Some(folder) => Sweep::is_in(folder),
        None => arguments.load.repeat > 1 || config::schedules(&arguments.load).len() > 1,
    }
}

/// A sweep that has ended.
pub(super) struct Swept {
    sweep: Sweep,
    folder: std::path::PathBuf,
    warnings: Warnings,
    has_failures: bool,
    is_interrupted: bool,
    failure: Option<Failure>,
}

/// Makes the runs; `None` where the user does not want them after all.
pub(super) async fn sweep(arguments: &ProfileArguments, screen: Screen) -> Result<Option<Swept>, Failure> {
    let begun = match &arguments.place.resume {
        Some(folder) => Some(begin::resumed(folder, arguments)?),
        None => begin::new(arguments, screen).await?,
    };
    let Some(begun) = begun else { return Ok(None) };
    let live = Arc::default();
    let stop = stop_on_signals(Arc::clone(&live))?;
    let Begun { sweep, folder, config, states, first } = begun;
    let cooler = Cooler::new(&sweep, screen);
    let mut sweeping = Sweeping {
        arguments,
        screen,
        sweep,
        folder,
        config,
        live,
        stop,
        cooler,
        warnings: Warnings::default(),
        has_failures: false,
    };
    // A sweep holds much; a caller's stack need not.
    let ended = Box::pin(sweeping.make(states, first)).await;
    sweeping.end(ended)
}

/// A sweep that is going on.
struct Sweeping<'a> {
    arguments: &'a ProfileArguments,
    screen: Screen,
    sweep: Sweep,
    folder: SweepFolder,
    /// What all runs have in common, with its secrets.
    config: RunConfig,
    /// The view of the run that is going on.
    live: Arc<Mutex<Weak<Live>>>,
    stop: watch::Receiver<bool>,
    cooler: Cooler,
    warnings: Warnings,
    has_failures: bool,
}

impl Sweeping<'_> {
    /// Makes what is left to make.
    async fn make(
        &mut self,
        states: Vec<((usize, usize), RunState)>,
        mut first: Option<Prepared>,
    ) -> Result<(), Failure> {
        for (place, state) in &states {
            if let RunState::Complete(summary) = state {
                self.has_failures |= has_failures(summary);
                self.warnings.stored(place.0, summary);
            }
        }
        self.sweep.write(self.folder.now()).map_err(told)?;
        let mut has_head = false;
        for (place, state) in states {
            if matches!(state, RunState::Complete(_)) {
                continue;
            }
            if first.is_none() {
                self.cool_down(place).await?;
            }
            if self.is_stopped() {
                break;
            }
            let prepared = match first.take() {
                Some(prepared) => prepared,
                None => self.prepare(place, &state).await?,
            };
            if !has_head {
                self.screen.note(&head::line(&prepared));
                has_head = true;
                self.cooler.learn(&mut self.sweep, &prepared, &self.stop).await;
                self.sweep.write(self.folder.now()).map_err(told)?;
            }
            if self.is_stopped() {
                prepared.close().await;
                break;
            }
            self.screen.note(&self.heading(place));
            // A run holds much; a sweep's stack need not.
            Box::pin(self.run(place, &state, prepared)).await?;
        }
        Ok(())
    }

    /// `point 2 of 4  ·  concurrency 4  ·  repeat 1 of 3`.
    fn heading(&self, (point, run): (usize, usize)) -> String {
        let (points, repeats) = (self.sweep.points.len(), self.sweep.repeats);
        let of = if points > 1 { format!("point {} of {points}  ·  ", point + 1) } else { String::new() };
        let repeat = if repeats > 1 { format!("  ·  repeat {} of {repeats}", run + 1) } else { String::new() };
        format!("{of}{}{repeat}", label(&self.sweep.points[point].schedule))
    }

    async fn cool_down(&mut self, (point, run): (usize, usize)) -> Result<(), Failure> {
        if let Some(cooled) = self.cooler.wait(&self.sweep, &self.stop).await {
            self.sweep.points[point].runs[run].cooldown = Some(cooled);
            self.sweep.write(self.folder.now()).map_err(told)?;
        }
        Ok(())
    }

    /// What is asked of one run. Repeats draw their arrivals anew, and every run has synthetic prompts of its own: what a server
    /// keeps of one must not help the next.
    fn config_of(&self, (point, run): (usize, usize)) -> RunConfig {
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

    /// A run that is to be made, or to be gone on with.
    async fn prepare(&self, (point, run): (usize, usize), state: &RunState) -> Result<Prepared, Failure> {
        let runs = &self.sweep.points[point].runs;
        if *state == RunState::Unfinished {
            let folder = self.folder.now().join(&runs[run].folder);
            let secrets = |config: &mut RunConfig| put_back(config, self.arguments);
            let sensing = async |config: &RunConfig| Sensing::of(config).await;
            return Prepared::resume(&folder, secrets, sensing).await.map_err(failure);
        }
        let config = self.config_of((point, run));
        let sensing = Sensing::of(&config).await.map_err(failure)?;
        let prepared = Prepared::new(config, sensing).await.map_err(failure)?;
        // In one go it is the same machine, though it may once not say in time what it is.
        if self.arguments.place.resume.is_some()
            && let Err(error) = self.sweep.check(self.folder.path(), &prepared)
        {
            prepared.close().await;
            return Err(told(error));
        }
        Ok(prepared)
    }

    async fn run(&mut self, place: (usize, usize), state: &RunState, prepared: Prepared) -> Result<(), Failure> {
        let name = self.sweep.points[place.0].runs[place.1].folder.clone();
        let folder = self.folder.now().join(&name);
        // What was killed before it had a journal is an empty folder, which is replaced.
        let target = if *state == RunState::Unfinished { Target::Resume(folder) } else { Target::Replace(folder) };
        let live = Arc::new(Live::new(self.screen, prepared.config().schedule));
        *self.live.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&live);
        let finished = prepared.run(target, self.stop.clone(), live).await.map_err(failure)?;
        self.cooler.has_worked();
        let is_empty = finished.closed.is_none();
        if let Some(mut closed) = finished.closed {
            if self.folder.commit().map_err(told)? {
                // Its files name the folder that it was in.
                let folder = self.folder.path().join(&name);
                let again = tokio::task::spawn_blocking(move || close(&folder)).await;
                closed = again.map_err(Failure::failed)?.map_err(|error| failure(RunError::from(error)))?;
            }
            self.take(place, &closed)?;
        }
        if let Some(error) = finished.failure {
            return Err(failure(error));
        }
        if is_empty && finished.closing != Closing::Interrupted {
            return Err(Failure::failed("no request was sent").hint("see --max-queries, --duration and --max-failures"));
        }
        Ok(())
    }

    /// Takes in a run that has ended.
    fn take(&mut self, place: (usize, usize), closed: &Closed) -> Result<(), Failure> {
        let summary = serde_json::to_value(&closed.summary).map_err(Failure::failed)?;
        self.sweep.take(place, &summary);
        self.sweep.write(self.folder.now()).map_err(told)?;
        self.has_failures |= has_failures(&summary);
        self.warnings.closed(place.0, closed);
        if self.screen.is_verbose() && self.arguments.format == SummaryFormat::Table {
            super::show::print(closed, SummaryFormat::Table, self.screen)?;
        } else {
            self.screen.note(&show::line(&self.sweep.points[place.0].runs[place.1]));
        }
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// What came of it. A sweep without a run is none.
    fn end(mut self, ended: Result<(), Failure>) -> Result<Option<Swept>, Failure> {
        let is_interrupted = ended.is_ok() && !self.sweep.complete && self.is_stopped();
        let is_empty = self.sweep.points.iter().all(|point| point.figures.is_empty());
        let is_resumed = self.arguments.place.resume.is_some();
        if is_empty {
            // What was measured is kept, even where its files could not be derived.
            let now = self.folder.now().to_path_buf();
            let mut runs = self.sweep.points.iter().flat_map(|point| &point.runs);
            let has_journal = runs.any(|run| RunState::of(&now.join(&run.folder)) != RunState::Missing);
            if has_journal && let Err(failure) = ended {
                return Err(failure.also(format!("what was measured is in {}", now.display())));
            }
            if !is_resumed && !has_journal {
                self.folder.abandon();
            }
            ended?;
            return Err(Failure::interrupted("interrupted before the first request ended; nothing was kept"));
        }
        let folder = self.folder.path().to_path_buf();
        self.sweep.write(&folder).map_err(told)?;
        let go_on = format!("`ergo profile --resume {}` goes on with the sweep", folder.display());
        if is_interrupted {
            self.screen.note(&format!("interrupted: {go_on}"));
        }
        Ok(Some(Swept {
            sweep: self.sweep,
            folder,
            warnings: self.warnings,
            has_failures: self.has_failures,
            is_interrupted,
            failure: ended.err().map(|failure| failure.also(go_on)),
        }))
    }
}

impl Swept {
    /// Tells what came of it.
    pub(super) fn end(self, format: SummaryFormat, screen: Screen) -> Result<ExitCode, Failure> {
        show::print(&self, format, screen)?;
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        Ok(if self.is_interrupted {
            Exit::Interrupted.into()
        } else if self.has_failures {
            Exit::SomeFailed.into()
        } else {
            Exit::Done.into()
        })
    }
}

/// Whether requests of a run failed: those of the judge are requests, too.
fn has_failures(summary: &Value) -> bool {
    let is_unjudged = summary["judge"]["unjudged"].as_u64().is_some_and(|count| count > 0);
    is_unjudged || summary["outcomes"]["failed"].as_object().is_some_and(|failed| !failed.is_empty())
}

/// A point that cannot be is the user's; the rest is the world's.
fn told(error: SweepError) -> Failure {
    match error {
        SweepError::Run(error) => failure(error),
        SweepError::NoPoint | SweepError::TwoAxes { .. } | SweepError::Twice { .. } => Failure::usage(error),
        SweepError::NotASweep { .. } | SweepError::Store(_) => Failure::failed(error),
    }
}
