//! What a front end shows of an error: its text and its hint.

use std::fmt::{self, Display};

use crate::{CommandLine, Hint, Phrasing};

/// Something that went wrong, with what to do about it where that is known.
///
/// Its text never contains the hint, so a front end never has to take the two apart.
pub trait Diagnostic: Display {
    /// What to do about it.
    fn hint(&self) -> Option<Hint> {
        None
    }

    /// Its text and its hint as owned values, for an error that outlives this one.
    fn to_message(&self) -> Message {
        Message { text: self.to_string(), hint: self.hint() }
    }

    /// `text. hint: what to do`, in the words of one front end: for logs and places with room for one line only.
    fn one_line(&self, phrasing: &dyn Phrasing) -> String {
        match self.hint() {
            Some(hint) => format!("{self}. hint: {}", hint.phrase(phrasing)),
            None => self.to_string(),
        }
    }
}

/// The text and the hint of an error whose type does not matter any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// What happened.
    pub text: String,
    /// What to do about it.
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

    /// The same message with where it happened in front: `path: what happened`.
    #[must_use]
    pub fn at(self, place: impl Display) -> Self {
        Self { text: format!("{place}: {}", self.text), ..self }
    }

    /// The hint in the words of the command line.
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
    fn a_message_keeps_text_and_hint_apart() {
        let message = Message::new("no such file").with_hint(hint!("see ", option("dataset"))).at("a.json");
        assert_eq!(message.to_string(), "a.json: no such file");
        assert_eq!(message.command_line_hint().as_deref(), Some("see --dataset"));
        assert_eq!(message.one_line(&CommandLine), "a.json: no such file. hint: see --dataset");
        assert_eq!((&&message).to_message(), message);
        assert_eq!("plain".to_message(), Message::new("plain"));
    }
}
