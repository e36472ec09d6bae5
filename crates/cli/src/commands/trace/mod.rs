//! `ergo trace`: prints the times in a profiler trace by device, module, execution, step, op, kernel and scope.
//!
//! Each command opens the files, calls one function of the trace library, and prints its rows.

mod cat;
mod cell;
mod executions;
mod function_report;
mod functions;
mod gaps;
mod json_text;
mod listing;
mod modules;
mod open;
mod report;
mod rows;
mod scopes;
mod shares;
mod spread;
mod steps;
mod summary;

use std::process::ExitCode;

use crate::arguments::TraceCommand;
use crate::exit::Failure;
use crate::screen::Screen;
use crate::threads::start_pool;

pub(crate) fn run(command: &TraceCommand, screen: Screen) -> Result<ExitCode, Failure> {
    start_pool()?;
    match command {
        TraceCommand::Summary(arguments) => summary::run(arguments, screen),
        TraceCommand::Ops(arguments) => rows::ops(arguments, screen),
        TraceCommand::Kernels(arguments) => rows::kernels(arguments, screen),
        TraceCommand::Events(arguments) => rows::events(arguments, screen),
        TraceCommand::Modules(arguments) => modules::run(arguments, screen),
        TraceCommand::Executions(arguments) => executions::run(arguments, screen),
        TraceCommand::Steps(arguments) => steps::run(arguments, screen),
        TraceCommand::Gaps(arguments) => gaps::run(arguments, screen),
        TraceCommand::Scopes(arguments) => scopes::run(arguments, screen),
        TraceCommand::Functions(arguments) => functions::run(arguments, screen),
        TraceCommand::Report(arguments) => report::run(arguments, screen),
        TraceCommand::Cat(arguments) => cat::run(arguments, screen),
    }
}
