//! The `ergo` command. All of it is in the library, so that other launchers can call it.

use std::process::ExitCode;

fn main() -> ExitCode {
    ergometer_cli::run(std::env::args_os())
}
