//! Exit codes, in one place, and failures as people see them.

use std::fmt;
use std::process::ExitCode;

use crate::screen::Screen;

/// What `ergo` exits with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what was asked.
    Done = 0,
    /// It could not.
    Failed = 1,
    /// It was asked wrongly.
    Usage = 2,
    /// It was interrupted; what was measured is kept.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command ended early: what happened, and what to do.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
    hint: Option<String>,
}

impl Failure {
    /// The user asked for something that cannot be.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self { exit: Exit::Usage, message: message.to_string(), hint: None }
    }

    /// Something outside went wrong.
    pub(crate) fn failed(message: impl fmt::Display) -> Self {
        Self { exit: Exit::Failed, message: message.to_string(), hint: None }
    }

    /// What to do about it.
    pub(crate) fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// Whether nobody reads stdout any more.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        self.exit == Exit::Done
    }

    pub(crate) fn report(&self, screen: Screen) -> ExitCode {
        if self.is_closed_pipe() {
            return self.exit.into();
        }
        screen.error(&self.message, self.hint.as_deref());
        self.exit.into()
    }
}

impl From<std::io::Error> for Failure {
    /// A reader that had enough is no failure.
    fn from(error: std::io::Error) -> Self {
        let is_closed = error.kind() == std::io::ErrorKind::BrokenPipe;
        Self { exit: if is_closed { Exit::Done } else { Exit::Failed }, ..Self::failed(error) }
    }
}
