//! `ergo finalize`: writes the result files of a run from its journal.

use std::process::ExitCode;

use ergometer::close::{close, import_engine_log};
use ergometer::journal::JournalFolder;
use ergometer::run::{RunError, clear, recover};
use ergometer_diagnostics::{Message, hint};
use ergometer_runs::Sweep;

use super::profile::{done, failure, show};
use crate::arguments::FinalizeArguments;
use crate::exit::Failure;
use crate::screen::Screen;

pub(crate) fn run(arguments: &FinalizeArguments, screen: Screen) -> Result<ExitCode, Failure> {
    recover(&arguments.run).map_err(failure)?;
    if Sweep::is_in(&arguments.run) {
        let message = Message::new(format!("{} is a sweep", arguments.run.display()));
        return Err(Failure::failed(message.with_hint(hint!("pass one of its run folders"))));
    }
    let journal = JournalFolder::of_run(&arguments.run);
    // A folder that is not a run gets an error, and no lock file.
    journal.manifest().map_err(|error| failure(error.into()))?;
    let lock = journal.lock().map_err(|error| failure(error.into()))?;
    clear(&arguments.run);
    if let Some(log) = &arguments.engine_log {
        import_engine_log(&arguments.run, log).map_err(|error| failure(RunError::from(error)))?;
    }
    let closed = close(&arguments.run).map_err(|error| failure(RunError::from(error)))?;
    drop(lock);
    show::print(&closed, arguments.format.into(), screen)?;
    Ok(done(&closed.summary))
}
