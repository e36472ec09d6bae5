//! `ergo finalize`: the journal of a run goes in; the files of the run come out, as it is.

use std::process::ExitCode;

use ergometer::close::close;
use ergometer::journal::JournalFolder;
use ergometer::run::RunError;

use super::profile::{done, failure, show};
use crate::arguments::FinalizeArguments;
use crate::exit::Failure;
use crate::screen::Screen;

pub(crate) fn run(arguments: &FinalizeArguments, screen: Screen) -> Result<ExitCode, Failure> {
    let journal = JournalFolder::of_run(&arguments.run);
    // What is no run folder is told as such, and gets no lock file.
    journal.manifest().map_err(|error| failure(error.into()))?;
    let _lock = journal.lock().map_err(|error| failure(error.into()))?;
    let closed = close(&arguments.run).map_err(|error| failure(RunError::from(error)))?;
    show::print(&closed, arguments.format, screen)?;
    Ok(done(&closed.summary))
}
