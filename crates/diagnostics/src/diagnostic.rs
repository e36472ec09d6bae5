//! Errors and warnings with hints.

use std::fmt::{self, Display};

use crate::{CommandLine, Hint, Phrasing};

/// An error or a warning, with an optional hint.
///
/// The text never contains the hint, so a front end can format them separately.
pub trait Diagnostic: Display {
    /// How to fix it.
    fn hint(&self) -> Option<Hint> {
        None
    }

    /// The text and the hint as owned values.
    fn to_message(&self) -> Message {
        Message { text: self.to_string(), hint: self.hint() }
    }

    /// `text. hint: how to fix it`, formatted for one front end: for logs and other places with one line.
    fn one_line(&self, phrasing: &dyn Phrasing) -> String {
        match self.hint() {
            Some(hint) => format!("{self}. hint: {}", hint.phrase(phrasing)),
            None => self.to_string(),
        }
    }
}

/// The text and the hint of an error, without its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// What happened.
    pub text: String,
    /// How to fix it.
    pub hint: Option<Hint>,
}

impl Message {
    /// A message without a hint.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), hint: None }
    }

    /// The same message with a hint.
    #[must_use]
    pub fn with_hint(self, hint: Hint) -> Self {
        Self { hint: Some(hint), ..self }
    }

    /// The same message with the place in front: `path: what happened`.
    #[must_use]
    pub fn at(self, place: impl Display) -> Self {
        Self { text: format!("{place}: {}", self.text), ..self }
    }

    /// The hint, formatted for the command line.
    #[must_use]
    pub fn command_line_hint(&self) -> Option<String> {
        self.hint.as_ref().map(|hint| hint.phrase(&CommandLine))
    }
}

impl Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Message {}

impl Diagnostic for Message {
    fn hint(&self) -> Option<Hint> {
        self.hint.clone()
    }
}

impl From<String> for Message {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl Diagnostic for str {}
impl Diagnostic for String {}
impl Diagnostic for fmt::Arguments<'_> {}
impl Diagnostic for std::io::Error {}

impl<T: Diagnostic + ?Sized> Diagnostic for &T {
    fn hint(&self) -> Option<Hint> {
        (**self).hint()
    }
}

impl<T: Diagnostic + ?Sized> Diagnostic for Box<T> {
    fn hint(&self) -> Option<Hint> {
        (**self).hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{hint, option};

    #[test]
    fn text_and_hint_are_separate() {
        let message = Message::new("no such file").with_hint(hint!("see ", option("dataset"))).at("a.json");
        assert_eq!(message.to_string(), "a.json: no such file");
        assert_eq!(message.command_line_hint().as_deref(), Some("see --dataset"));
        assert_eq!(message.one_line(&CommandLine), "a.json: no such file. hint: see --dataset");
        assert_eq!((&&message).to_message(), message);
        assert_eq!("plain".to_message(), Message::new("plain"));
    }
}
