//! The `ergo` command: parses arguments, calls the libraries, prints results and returns an exit code.
//!
//! Data goes to stdout, messages go to stderr. A failure is one `error:` line and, if there is something to do about
//! it, one `hint:` line.
//!
//! ```
//! use std::ffi::OsString;
//! use std::process::ExitCode;
//!
//! let code = ergometer_cli::run(["ergo", "list", "graders"].map(OsString::from));
//! assert_eq!(code, ExitCode::SUCCESS);
//! ```

mod arguments;
mod commands;
mod csv;
mod devices;
mod exit;
mod figures;
mod interrupt;
mod phrasing;
mod recorder;
mod report;
mod screen;
mod threads;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use arguments::Arguments;
use exit::Exit;
use screen::Screen;

/// Runs `ergo` with these arguments; the first is the name of the program.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // To clap, help and version are errors that go to stdout with code 0. A closed pipe is ignored.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() };
        }
    };
    let screen = Screen::new(&arguments.global);
    match commands::run(arguments.command, screen) {
        Ok(code) => code,
        Err(failure) => failure.report(screen),
    }
}
