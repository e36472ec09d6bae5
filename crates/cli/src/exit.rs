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
    /// It did what was asked, but some requests failed.
    SomeFailed = 3,
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
        Self::new(Exit::Usage, &message)
    }

    /// Something outside went wrong.
    pub(crate) fn failed(message: impl fmt::Display) -> Self {
        Self::new(Exit::Failed, &message)
    }

    /// The user stopped it before there was anything to show.
    pub(crate) fn interrupted(message: impl fmt::Display) -> Self {
        Self::new(Exit::Interrupted, &message)
    }

    /// A library's error may carry its hint in its text; here it has a line of its own.
    fn new(exit: Exit, message: &dyn fmt::Display) -> Self {
        let message = message.to_string();
        match message.split_once(". hint: ") {
            Some((message, hint)) => Self { exit, message: message.to_owned(), hint: Some(hint.to_owned()) },
            None => Self { exit, message, hint: None },
        }
    }

    /// What to do about it.
    pub(crate) fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// What more to do about it.
    pub(crate) fn also(self, hint: impl fmt::Display) -> Self {
        let hint = match &self.hint {
            Some(first) => format!("{first}; {hint}"),
            None => hint.to_string(),
        };
        self.hint(hint)
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

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, ". hint: {hint}"))
    }
}

impl From<std::io::Error> for Failure {
    /// A reader that had enough is no failure.
    fn from(error: std::io::Error) -> Self {
        let is_closed = error.kind() == std::io::ErrorKind::BrokenPipe;
        Self { exit: if is_closed { Exit::Done } else { Exit::Failed }, ..Self::failed(error) }
    }
}
