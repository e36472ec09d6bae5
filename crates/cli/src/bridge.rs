//! Turns any error into a [`Message`], whether its type implements [`Diagnostic`] or only `Display`.

use std::fmt::Display;

use ergometer_diagnostics::{Diagnostic, Hint, Message};

/// Takes precedence in method lookup, as it needs no further reference.
pub(crate) trait ViaDiagnostic {
    fn diagnosed(&self) -> Message;
}

impl<T: Diagnostic> ViaDiagnostic for T {
    fn diagnosed(&self) -> Message {
        self.to_message()
    }
}

pub(crate) trait ViaDisplay {
    fn diagnosed(&self) -> Message;
}

impl<T: Display> ViaDisplay for &T {
    fn diagnosed(&self) -> Message {
        let text = self.to_string();
        match text.split_once(". hint: ") {
            Some((text, hint)) => Message::new(text).with_hint(Hint::text(hint.to_owned())),
            None => Message::new(text),
        }
    }
}

macro_rules! diagnosed {
    ($error:expr) => {{
        use crate::bridge::*;
        (&$error).diagnosed()
    }};
}
pub(crate) use diagnosed;
