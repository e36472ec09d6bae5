//! The commands, one module each.

mod analyze;
mod attribute;
mod compare;
mod doctor;
mod energy;
mod finalize;
mod generate;
mod list;
mod measure;
mod mock_server;
mod monitor;
mod plot;
mod profile;
mod report;
mod trace;

use std::process::ExitCode;

use crate::arguments::Command;
use crate::exit::Failure;
use crate::screen::Screen;

/// Runs a command.
pub(crate) fn run(command: Command, screen: Screen) -> Result<ExitCode, Failure> {
    match command {
        Command::Profile(arguments) => profile::run(&arguments, screen),
        Command::Finalize(arguments) => finalize::run(&arguments, screen),
        Command::Attribute(arguments) => attribute::run(&arguments, screen),
        Command::Analyze(arguments) => analyze::run(&arguments, screen),
        Command::Plot(arguments) => plot::run(&arguments, screen),
        Command::Report(arguments) => report::run(&arguments, screen),
        Command::Compare(arguments) => compare::run(&arguments, screen),
        Command::List(arguments) => list::run(&arguments, screen),
        Command::Doctor(arguments) => doctor::run(&arguments, screen),
        Command::Monitor(arguments) => monitor::run(&arguments, screen),
        Command::Measure(arguments) => measure::run(&arguments, screen),
        Command::Energy(arguments) => energy::run(&arguments, screen),
        Command::Trace(command) => trace::run(&command, screen),
        Command::MockServer(arguments) => mock_server::run(&arguments, screen),
        Command::Completions(arguments) => generate::completions(&arguments),
        Command::Man => generate::man(),
    }
}
