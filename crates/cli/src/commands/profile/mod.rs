//! `ergo profile`: sends a dataset to a model, writes a run folder and prints its summary.

pub(super) mod attribution;
pub(super) mod config;
mod head;
mod live;
pub(super) mod show;
mod sweep;
mod under_load;

use std::fs::File;
use std::io::{self, IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use ergometer::close::attribute;
use ergometer::review::JudgeError;
use ergometer::run::{FinishedRun, PreparedRun, RunError, Sensing, Target, is_unstarted, recover};
use ergometer_clients::{ClientError, Locality};
use ergometer_datasets::DatasetError;
use ergometer_diagnostics::{Hint, Message, command, flag, hint, option};
use ergometer_runs::Closing;
use ergometer_runs::config::{RunConfig, SensorSetting};
use ergometer_runs::summary::Summary;
use tokio::sync::watch;

use crate::arguments::{ProfileArguments, SummaryFormat};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::screen::Screen;
use crate::threads::{Workers, start_runtime};
use live::Live;

/// Signals within this time count as one.
const SAME_SIGNAL: Duration = Duration::from_millis(500);

pub(crate) fn run(arguments: &ProfileArguments, screen: Screen) -> Result<ExitCode, Failure> {
    // Reaching the file size limit shall be an error, not a signal that ends the process.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    let runtime = start_runtime(Workers::Threads(senders()))?;
    if let Some(folder) = &arguments.resume.folder {
        recover(folder).map_err(failure)?;
    }
    if let Some(log) = &arguments.energy.engine_log {
        check_engine_log(log)?;
    }
    if sweep::is_requested(arguments) {
        if arguments.energy.engine_log.is_some() {
            return Err(Failure::usage("--engine-log is for a single run")
                .hint(hint!("pass the log after the sweep: ", command("attribute SWEEP --engine-log FILE"))));
        }
        let result = runtime.block_on(sweep::sweep(arguments, screen));
        runtime.shutdown_background();
        return result?.map_or_else(|| Ok(Exit::Failed.into()), |result| result.end(arguments.format, screen));
    }
    if arguments.format == SummaryFormat::Csv {
        return Err(show::no_csv());
    }
    if !arguments.load.cooldown.is_zero() {
        screen.warning(
            &Message::new("--cooldown has no effect: it waits between runs, and there is only one").with_hint(hint!(
                "add ",
                option("repeat"),
                " or several values of ",
                option("concurrency")
            )),
        );
    }
    let finished = runtime.block_on(profile(arguments, screen));
    // Abandoned requests that still generate must not delay the end.
    runtime.shutdown_background();
    let Some(finished) = finished? else { return Ok(Exit::Failed.into()) };
    end(with_engine_log(finished, arguments.energy.engine_log.as_deref()), arguments.format, screen)
}

/// Checks that an engine log can be read. After a long run it would be late to find a wrong path.
fn check_engine_log(log: &Path) -> Result<(), Failure> {
    let opened = std::fs::metadata(log).and_then(|found| {
        if found.is_file() { File::open(log).map(drop) } else { Err(io::Error::other("it is not a file")) }
    });
    let Err(cause) = opened else { return Ok(()) };
    Err(Failure::usage(format!("cannot read the engine log {}: {cause}", log.display())).hint(hint!(
        "start the server first, with its log of steps turned on; if the log appears later, pass it after the run: ",
        command("attribute RUN --engine-log FILE")
    )))
}

/// Refuses an engine log if the server runs on another machine, before anything is sent to it.
fn check_has_energy(config: &RunConfig) -> Result<(), Failure> {
    let client = ergometer_clients::open(&config.client).map_err(|error| failure(error.into()))?;
    let Locality::Elsewhere { host } = client.locality() else { return Ok(()) };
    if config.server_is_local {
        return Ok(());
    }
    let message = format!("--engine-log cannot be used: the server is on {host}, and its energy is not measured here");
    Err(Failure::usage(message).hint(hint!(
        "pass ",
        flag("server-is-local"),
        " if the server is on this machine, or leave out ",
        option("engine-log")
    )))
}

/// Attributes the energy of a run by the steps that its server logged. If the log cannot be used, that is its failure.
fn with_engine_log(mut finished: FinishedRun, log: Option<&Path>) -> FinishedRun {
    if let (Some(closed), Some(log)) = (&mut finished.closed, log) {
        match attribute(std::slice::from_ref(&closed.folder), Some(log)) {
            Ok(runs) => runs.into_iter().for_each(|run| *closed = run),
            Err(error) => finished.failure = finished.failure.or(Some(error.into())),
        }
    }
    finished
}

/// The number of sender threads: half of the cores. The server may be on this machine, and a burst of requests must not
/// take every core from it. One thread sends 20,000 requests per second.
fn senders() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1))
}

/// Makes the run; `None` if the user declines to replace an older run.
async fn profile(arguments: &ProfileArguments, screen: Screen) -> Result<Option<FinishedRun>, Failure> {
    let ready = match &arguments.resume.folder {
        Some(folder) => Some(resumed(folder, arguments).await?),
        None => new(arguments, screen).await?,
    };
    let Some((prepared, target)) = ready else { return Ok(None) };
    screen.note(&head::line(&prepared));
    // A resumed run has been calibrated, unless it was stopped before.
    if let Some(length) = prepared.calibration().filter(|_| !matches!(target, Target::Resume(_))) {
        screen.note(&head::calibration(length));
    }
    let live = Arc::new(Live::new(screen, prepared.config().schedule));
    let stop = stop_on_signals(Arc::new(Mutex::new(Arc::downgrade(&live))))?;
    // A run that is resumed keeps its folder. A new one that fails without a result has no folder.
    let kept = arguments.resume.folder.as_deref();
    prepared.run(target, stop, live).await.map(Some).map_err(|error| failure_of(error, kept))
}

/// From now on Ctrl-C stops the run, and a second Ctrl-C exits at once. Before, it ends the program, as there is
/// nothing to keep yet.
fn stop_on_signals(live: Arc<Mutex<Weak<Live>>>) -> Result<watch::Receiver<bool>, Failure> {
    let (sender, stop) = watch::channel(false);
    let mut first = None;
    Interrupt::listen()?.on_signals(move |_| {
        let first = *first.get_or_insert_with(Instant::now);
        // Some launchers send a signal to the process and to its group: that is one signal, not two.
        if first.elapsed() > SAME_SIGNAL {
            std::process::exit(Exit::Interrupted as i32);
        }
        let live = live.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        if !sender.send_replace(true)
            && let Some(live) = live
        {
            live.note("stopping; measured data is kept. Press Ctrl-C again to exit at once");
        }
    })?;
    Ok(stop)
}

/// Adds the secrets from the arguments, which run folders do not store.
fn restore_secrets(config: &mut RunConfig, arguments: &ProfileArguments) {
    let what = &arguments.dataset;
    if !what.server.header.is_empty() {
        config.client.headers.clone_from(&what.server.header);
    }
    if arguments.energy.server_metrics.is_some() {
        config.server_metrics.clone_from(&arguments.energy.server_metrics);
    }
    if !arguments.energy.sensor.is_empty() {
        config.sensors = arguments.energy.sensor.iter().cloned().map(SensorSetting::Spec).collect();
    }
    if what.server.base_url.is_some() {
        config.client.base_url.clone_from(&what.server.base_url);
    }
    if let (Some(judge), Some(base_url)) = (&mut config.judge, &what.judge) {
        judge.base_url.clone_from(base_url);
    }
    config.client.parameters.extend(what.client_param.iter().cloned());
}

/// Prepares to resume a run. Secrets are not stored, so they come from the arguments.
async fn resumed(folder: &Path, arguments: &ProfileArguments) -> Result<(PreparedRun, Target), Failure> {
    let secrets = |config: &mut RunConfig| restore_secrets(config, arguments);
    let sensing = async |config: &RunConfig| Sensing::open(config).await;
    let prepared = PreparedRun::resume(folder, secrets, sensing).await.map_err(failure)?;
    Ok((prepared, Target::Resume(folder.to_path_buf())))
}

/// Prepares a new run, and asks before it replaces another.
async fn new(arguments: &ProfileArguments, screen: Screen) -> Result<Option<(PreparedRun, Target)>, Failure> {
    let config = config::config(arguments)?;
    if arguments.energy.engine_log.is_some() {
        check_has_energy(&config)?;
    }
    let sensing = Sensing::open(&config).await.map_err(failure)?;
    let prepared = PreparedRun::new(config, sensing).await.map_err(failure)?;
    let folder = prepared.folder_in(&arguments.output.output_dir);
    match target(folder, is_unstarted, arguments, screen) {
        Ok(Some(target)) => Ok(Some((prepared, target))),
        refused => {
            prepared.close().await;
            refused.map(|_| None)
        }
    }
}

/// What to do with a folder that may exist; `None` if the user keeps it. `is_unstarted` says whether a killed run or sweep
/// left it empty.
fn target(
    folder: PathBuf,
    is_unstarted: fn(&Path) -> bool,
    arguments: &ProfileArguments,
    screen: Screen,
) -> Result<Option<Target>, Failure> {
    if arguments.output.overwrite {
        return Ok(Some(Target::Replace(folder)));
    }
    if !folder.exists() || is_unstarted(&folder) {
        return Ok(Some(Target::New(folder)));
    }
    if !can_ask() {
        return Err(failure(RunError::Exists { path: folder }));
    }
    if !is_confirmed(&folder)? {
        screen.note(&format!("{} is unchanged", folder.display()));
        return Ok(None);
    }
    Ok(Some(Target::Replace(folder)))
}

/// Prints the result.
fn end(finished: FinishedRun, format: SummaryFormat, screen: Screen) -> Result<ExitCode, Failure> {
    let kept = finished.folder.as_deref();
    let Some(closed) = &finished.closed else {
        return Err(match finished.failure {
            Some(error) => failure_of(error, kept),
            None if finished.closing == Closing::Interrupted => {
                Failure::interrupted("interrupted before the first request ended; nothing was kept")
            }
            None => Failure::failed("no request was sent").hint(no_request_hint()),
        });
    };
    show::print(closed, format, screen)?;
    if let Some(error) = finished.failure {
        return Err(failure_of(error, kept));
    }
    let summary = &closed.summary;
    match finished.closing {
        Closing::Interrupted => Ok(Exit::Interrupted.into()),
        _ if !summary.complete && !has_failures(summary) => Err(incomplete()),
        _ => Ok(done(summary)),
    }
}

/// A run without failed requests that lacks records anyway, such as one whose journal was damaged while it was written.
pub(super) fn incomplete() -> Failure {
    Failure::failed("the run is incomplete: some of its queries have no record").hint(hint!(
        "resume the run with ",
        command("profile --resume RUN_FOLDER"),
        "; it sends only these queries"
    ))
}

/// The exit code of a run: success, or some requests failed; those of the judge are requests, too.
pub(super) fn done(summary: &Summary) -> ExitCode {
    if has_failures(summary) { Exit::SomeFailed.into() } else { Exit::Done.into() }
}

fn has_failures(summary: &Summary) -> bool {
    let is_unjudged = summary.judge.as_ref().is_some_and(|judge| judge.unjudged > 0);
    is_unjudged || !summary.outcomes.failed.is_empty()
}

/// Maps an error to its exit code: an unknown id, a wrong parameter or an invalid configuration is wrong usage.
pub(super) fn failure(error: RunError) -> Failure {
    failure_of(error, None)
}

/// The failure of a run, which can be resumed if its folder was kept.
#[expect(clippy::needless_pass_by_value, reason = "it is passed to map_err")]
fn failure_of(error: RunError, kept: Option<&Path>) -> Failure {
    match &error {
        RunError::Dataset(
            DatasetError::Unknown { .. }
            | DatasetError::Parameter { .. }
            | DatasetError::MissingPath { .. }
            | DatasetError::Value { .. },
        )
        | RunError::Client(ClientError::Unknown { .. } | ClientError::Parameter(_))
        | RunError::Judge(JudgeError::Invalid(_))
        | RunError::Device(_)
        | RunError::Config(_) => Failure::usage(&error),
        RunError::Journal(cause) if cause.is_disk_full() => Failure::failed(&error).hint(match kept {
            Some(folder) => hint!(
                "free disk space or raise the file size limit; everything measured so far is kept, so resume with ",
                command(format!("profile --resume {}", folder.display()))
            ),
            None => hint!("free disk space or raise the file size limit"),
        }),
        RunError::ServerGone { .. } => match kept {
            Some(folder) => Failure::failed(&error).hint(hint!(
                "when the server runs again, continue with ",
                command(format!("profile --resume {}", folder.display())),
                "; requests that failed are not sent again"
            )),
            None => Failure::failed(&error),
        },
        _ => Failure::failed(&error),
    }
}

/// What to check when a run ended before its first request.
pub(super) fn no_request_hint() -> Hint {
    hint!("check ", option("max-queries"), ", ", option("duration"), " and ", option("max-failures"))
}

fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks before anything is sent. No answer means no.
fn is_confirmed(folder: &Path) -> Result<bool, Failure> {
    let mut err = io::stderr().lock();
    write!(err, "{} exists. Replace it as soon as the new run has its first record? [y/N] ", folder.display())?;
    err.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
