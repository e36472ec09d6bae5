//! One run of the user's command.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};

use ergometer_telemetry::Clock;
use ergometer_units::Window;

use crate::arguments::Format;
use crate::exit::Failure;
use crate::interrupt::Interrupt;

/// When it ran, and how it ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) window: Window,
    pub(super) status: ExitStatus,
}

impl Run {
    /// Runs the command to its end. With a format for programs its stdout goes to stderr: stdout is for the report.
    pub(super) fn of(
        command: &[OsString],
        format: Format,
        clock: &Clock,
        interrupt: &Interrupt,
    ) -> Result<Self, Failure> {
        let (program, rest) = command.split_first().ok_or_else(|| Failure::usage("no command to measure"))?;
        let stdout = match format {
            Format::Table => Stdio::inherit(),
            Format::Json | Format::Csv => Stdio::from(io::stderr().as_fd().try_clone_to_owned()?),
        };
        let start = clock.now();
        let mut child = Command::new(program).args(rest).stdout(stdout).spawn().map_err(|error| {
            let failure = Failure::failed(format!("cannot run `{}`: {error}", program.to_string_lossy()));
            match error.kind() {
                io::ErrorKind::NotFound => {
                    failure.hint("is it installed, and on the PATH? shell words need `sh -c '…'`")
                }
                io::ErrorKind::PermissionDenied => failure.hint("is it executable? `chmod +x` makes it so"),
                _ => failure,
            }
        })?;
        let status = interrupt.wait_for(&mut child)?;
        let end = clock.now();
        let window = Window::new(start, end).map_err(Failure::failed)?;
        Ok(Self { window, status })
    }
}

/// The exit code to pass on: the command's, or 128 and the signal that ended it, as shells do.
pub(super) fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code & 0xff).unwrap_or(1)
}
