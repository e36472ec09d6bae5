//! Exit codes, and failures with their message and hint.

use std::fmt;
use std::process::ExitCode;

use ergometer_diagnostics::{Diagnostic, Hint, Message};

use crate::phrasing::Options;
use crate::screen::Screen;

/// The exit codes of `ergo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command succeeded.
    Done = 0,
    /// The command failed.
    Failed = 1,
    /// The arguments or the configuration are invalid.
    Usage = 2,
    /// The command succeeded, but some requests failed.
    SomeFailed = 3,
    /// The command was interrupted; measured data is kept.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command ended early, with its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: Message,
}

impl Failure {
    /// The arguments or the configuration are invalid.
    pub(crate) fn usage(error: impl Diagnostic) -> Self {
        Self { exit: Exit::Usage, message: error.to_message() }
    }

    /// The command could not do its work.
    pub(crate) fn failed(error: impl Diagnostic) -> Self {
        Self { exit: Exit::Failed, message: error.to_message() }
    }

    /// The user interrupted the command before it had a result.
    pub(crate) fn interrupted(error: impl Diagnostic) -> Self {
        Self { exit: Exit::Interrupted, message: error.to_message() }
    }

    /// The same failure with this hint instead of its own.
    pub(crate) fn hint(self, hint: impl Into<Hint>) -> Self {
        Self { message: self.message.with_hint(hint.into()), ..self }
    }

    /// The same failure with this hint after its own.
    pub(crate) fn also(self, hint: impl Into<Hint>) -> Self {
        let hint = hint.into();
        let hint = match &self.message.hint {
            Some(first) => first.clone().and(hint),
            None => hint,
        };
        self.hint(hint)
    }

    /// Whether the reader of stdout went away (`ergo … | head`).
    pub(crate) fn is_closed_pipe(&self) -> bool {
        self.exit == Exit::Done
    }

    /// Prints the failure and returns the exit code.
    pub(crate) fn report(&self, screen: Screen) -> ExitCode {
        if !self.is_closed_pipe() {
            screen.error(&self.message);
        }
        self.exit.into()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message.one_line(&Options))
    }
}

impl From<std::io::Error> for Failure {
    /// A closed pipe is not a failure.
    fn from(error: std::io::Error) -> Self {
        let is_closed = error.kind() == std::io::ErrorKind::BrokenPipe;
        Self { exit: if is_closed { Exit::Done } else { Exit::Failed }, ..Self::failed(error) }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::failed(error.to_string())
    }
}
