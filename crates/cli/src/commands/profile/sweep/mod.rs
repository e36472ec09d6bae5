//! A sweep: `ergo profile` with several loads or repeats, which makes one run for each and prints one table.

mod progress;
mod show;
mod warnings;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use ergometer::sweep::{self, PreparedSweep, SweepError, SweepSpec};
use ergometer_diagnostics::{Message, command, hint};
use ergometer_runs::sweep::Sweep;

use super::{config, failure, no_request_hint, restore_secrets, stop_on_signals, target};
use crate::arguments::{ProfileArguments, SummaryFormat};
use crate::exit::{Exit, Failure};
use crate::screen::Screen;
use progress::SweepView;
use warnings::Warnings;

/// Whether the arguments ask for a sweep.
pub(super) fn is_requested(arguments: &ProfileArguments) -> bool {
    match &arguments.resume.folder {
        Some(folder) => Sweep::is_in(folder),
        None => arguments.load.repeat > 1 || config::schedules(&arguments.load).len() > 1,
    }
}

/// A sweep that has ended.
pub(super) struct SweepResult {
    sweep: Sweep,
    folder: PathBuf,
    warnings: Warnings,
    exit: Exit,
    failure: Option<Failure>,
}

/// Makes the runs; `None` if the user declines to replace an older sweep.
pub(super) async fn sweep(arguments: &ProfileArguments, screen: Screen) -> Result<Option<SweepResult>, Failure> {
    let live = Arc::default();
    let mut view = SweepView::new(screen, arguments.format, Arc::clone(&live));
    let finished = if let Some(folder) = &arguments.resume.folder {
        let stop = stop_on_signals(live)?;
        sweep::resume(folder, &|config| restore_secrets(config, arguments), stop, &mut view).await
    } else {
        let prepared = PreparedSweep::new(spec(arguments)?).await.map_err(sweep_failure)?;
        let folder = prepared.folder_in(&arguments.output.output_dir, arguments.output.name.as_deref());
        let target = match target(folder, sweep::is_unstarted, arguments, screen) {
            Ok(Some(target)) => target,
            refused => {
                prepared.close().await;
                return refused.map(|_| None);
            }
        };
        let stop = stop_on_signals(live)?;
        Box::pin(prepared.run(&target, stop, &mut view)).await
    };
    let finished = finished.map_err(sweep_failure)?;
    let go_on = || hint!("resume the sweep with ", command(format!("profile --resume {}", finished.folder.display())));
    if finished.is_interrupted {
        screen.note(&format!("interrupted; {}", go_on().phrase(&crate::phrasing::Options)));
    }
    let exit = match (finished.is_interrupted, finished.has_failures) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::SomeFailed,
        (false, false) => Exit::Done,
    };
    let (warnings, unprinted) = view.finish();
    let mut failure = finished.failure.map(|error| sweep_failure(error).also(go_on()));
    if failure.is_none() && finished.lacks_records && !finished.is_interrupted {
        let message = "a run of the sweep is incomplete: some of its queries have no record";
        failure = Some(Failure::failed(message).hint(go_on().and(hint!("it sends only these queries"))));
    }
    if let Some(error) = finished.fit_failure {
        let folder = finished.folder.display();
        let message = Message::new(format!("no cost model was fitted to the runs together: {error}"))
            .with_hint(hint!("run ", command(format!("attribute {folder}"))));
        // How the sweep itself ended comes first.
        if failure.is_some() || finished.is_interrupted {
            screen.warning(&message);
        } else {
            failure = Some(Failure::failed(message));
        }
    }
    let failure = failure.or(unprinted);
    Ok(Some(SweepResult { sweep: finished.sweep, folder: finished.folder, warnings, exit, failure }))
}

fn spec(arguments: &ProfileArguments) -> Result<SweepSpec, Failure> {
    let load = &arguments.load;
    Ok(SweepSpec {
        config: config::config(arguments)?,
        schedules: config::schedules(load),
        repeats: load.repeat,
        cooldown_s: load.cooldown.as_secs_f64(),
    })
}

impl SweepResult {
    /// Prints the table and returns the exit code.
    pub(super) fn end(self, format: SummaryFormat, screen: Screen) -> Result<ExitCode, Failure> {
        show::print(&self, format, screen)?;
        self.failure.map_or_else(|| Ok(self.exit.into()), Err)
    }
}

/// Invalid points are wrong usage.
fn sweep_failure(error: SweepError) -> Failure {
    match error {
        SweepError::Run(error) => failure(error),
        SweepError::Kept { error, folder } => {
            sweep_failure(*error).also(format!("the measured data is in {}", folder.display()))
        }
        SweepError::Plan(error) => Failure::usage(error),
        SweepError::Interrupted => Failure::interrupted(error),
        SweepError::NoRequest => Failure::failed(error).hint(no_request_hint()),
        error => Failure::failed(error),
    }
}
