//! Runs the command once.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus, Stdio};

use ergometer_sensors::process_group::GroupGuard;
use ergometer_telemetry::Clock;
use ergometer_units::Window;

use super::{MeasureControl, MeasureError, MeasureSpec};

/// Where the standard output of a command goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdout {
    /// To the standard output of this process.
    Inherit,
    /// To the standard error of this process.
    ToStderr,
}

/// The process group of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessGroup {
    /// The group of this process. Only the group in the foreground of a terminal may read from it, and Ctrl-C reaches all
    /// of that group.
    Shared,
    /// A group of its own, so that signals reach the processes that the command starts. It is killed if this process ends
    /// while the command runs.
    Own,
}

/// When a command ran, and how it ended.
#[derive(Debug, Clone, Copy)]
pub struct CommandRun {
    /// From its start to its end.
    pub window: Window,
    /// Its exit status.
    pub status: ExitStatus,
}

impl CommandRun {
    /// Runs the command to its end. The guard watches its process group, if it has its own.
    pub(super) fn execute(
        spec: &MeasureSpec,
        clock: &Clock,
        guard: Option<&GroupGuard>,
        control: &dyn MeasureControl,
    ) -> Result<Self, MeasureError> {
        let (program, arguments) = spec.command.split_first().ok_or(MeasureError::NoCommand)?;
        let stdout = match spec.stdout {
            Stdout::Inherit => Stdio::inherit(),
            Stdout::ToStderr => Stdio::from(io::stderr().as_fd().try_clone_to_owned().map_err(MeasureError::Command)?),
        };
        let mut command = Command::new(program);
        command.args(arguments).stdout(stdout);
        if spec.process_group == ProcessGroup::Own {
            command.process_group(0);
        }
        let start = clock.now();
        let mut child = command.spawn().map_err(|source| {
            let program = program.to_string_lossy().into_owned();
            MeasureError::Spawn { program, source }
        })?;
        if let Some(guard) = guard {
            guard.watch(child.id());
        }
        let status = control.wait(&mut child).map_err(MeasureError::Command)?;
        if let Some(guard) = guard {
            guard.release();
        }
        Ok(Self { window: Window::between(start, clock.now()), status })
    }

    /// The exit code of the command, or 128 and the signal that ended it, as shells report it.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        let code = self.status.code().or_else(|| self.status.signal().map(|signal| 128 + signal)).unwrap_or(1);
        u8::try_from(code & 0xff).unwrap_or(1)
    }
}
