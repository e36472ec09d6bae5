//! The `ergo` binary. Its code is in the library, so that the Python package can call it, too.

use std::process::ExitCode;

fn main() -> ExitCode {
    ergometer_cli::run(std::env::args_os())
}
