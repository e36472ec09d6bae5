//! Hints: text, option names and commands, formatted by the front end that shows them.

use std::borrow::Cow;

use crate::Phrasing;

/// How to fix an error or a warning. Build one with [`hint!`](crate::hint).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint(Vec<HintPart>);

/// A part of a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HintPart {
    /// Text that is the same in every front end.
    Text(Cow<'static, str>),
    /// An option, such as `max-tokens`.
    Option {
        /// Its long name on the command line, without the dashes.
        name: Cow<'static, str>,
        /// The suggested value.
        value: Option<Cow<'static, str>>,
    },
    /// An option without a value, such as `lenient`, by its long name on the command line, without the dashes.
    Flag(Cow<'static, str>),
    /// A command of `ergo`, such as `doctor` or `profile --resume runs/a`.
    Command(Cow<'static, str>),
}

/// An option by its long name on the command line, without the dashes.
pub fn option(name: impl Into<Cow<'static, str>>) -> HintPart {
    HintPart::Option { name: name.into(), value: None }
}

/// An option without a value, by its long name on the command line, without the dashes: `--lenient` on the command line
/// is `lenient=True` in Python.
pub fn flag(name: impl Into<Cow<'static, str>>) -> HintPart {
    HintPart::Flag(name.into())
}

/// A command of `ergo`, without the program's name.
pub fn command(arguments: impl Into<Cow<'static, str>>) -> HintPart {
    HintPart::Command(arguments.into())
}

impl HintPart {
    /// The same option with a value. Other parts are unchanged.
    #[must_use]
    pub fn value(self, value: impl Into<Cow<'static, str>>) -> Self {
        match self {
            Self::Option { name, .. } => Self::Option { name, value: Some(value.into()) },
            other => other,
        }
    }
}

impl From<&'static str> for HintPart {
    fn from(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for HintPart {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl From<&'static str> for Hint {
    fn from(text: &'static str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Hint {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl Hint {
    /// A hint with these parts.
    #[must_use]
    pub fn new(parts: Vec<HintPart>) -> Self {
        Self(parts)
    }

    /// A hint that is the same in every front end.
    pub fn text(text: impl Into<Cow<'static, str>>) -> Self {
        Self(vec![HintPart::Text(text.into())])
    }

    /// The parts, in order.
    #[must_use]
    pub fn parts(&self) -> &[HintPart] {
        &self.0
    }

    /// The hint, formatted for one front end.
    #[must_use]
    pub fn phrase(&self, phrasing: &dyn Phrasing) -> String {
        let mut words = String::new();
        for part in &self.0 {
            match part {
                HintPart::Text(text) => words.push_str(text),
                HintPart::Option { name, value } => words.push_str(&phrasing.option(name, value.as_deref())),
                HintPart::Flag(name) => words.push_str(&phrasing.flag(name)),
                HintPart::Command(arguments) => words.push_str(&phrasing.command(arguments)),
            }
        }
        words
    }

    /// Whether it names an option, which each front end words differently.
    ///
    /// ```
    /// use ergometer_diagnostics::{command, hint, option};
    ///
    /// assert!(hint!("lower ", option("rate")).names_option());
    /// assert!(!hint!("see ", command("doctor")).names_option());
    /// ```
    #[must_use]
    pub fn names_option(&self) -> bool {
        self.0.iter().any(|part| matches!(part, HintPart::Option { .. } | HintPart::Flag(_)))
    }

    /// The same hint with an option renamed, for a second set of options such as those of a judge.
    #[must_use]
    pub fn with_renamed_option(mut self, from: &str, to: &'static str) -> Self {
        for part in &mut self.0 {
            if let HintPart::Option { name, .. } = part
                && name == from
            {
                *name = Cow::Borrowed(to);
            }
        }
        self
    }

    /// This hint and a second one.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.0.push(HintPart::from("; "));
        self.0.extend(other.0);
        self
    }
}

/// A [`Hint`] from its parts: text (`&'static str` or `String`), [`option`], [`flag`] and [`command`].
#[macro_export]
macro_rules! hint {
    ($($part:expr),+ $(,)?) => {
        $crate::Hint::new(vec![$($crate::HintPart::from($part)),+])
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CommandLine, Keywords};

    #[test]
    fn two_hints_are_joined() {
        let both = hint!("use ", option("name").value("SUFFIX")).and(hint!("run ", command("doctor")));
        assert_eq!(both.phrase(&CommandLine), "use --name SUFFIX; run `ergo doctor`");
        assert_eq!(both.phrase(&Keywords), "use name='SUFFIX'; run `ergo doctor`");
    }

    #[test]
    fn an_option_can_be_renamed() {
        let hint = hint!("use ", option("base-url").value("URL"), " or ", option("base"));
        assert_eq!(hint.with_renamed_option("base-url", "judge").phrase(&CommandLine), "use --judge URL or --base");
    }

    #[test]
    fn only_an_option_takes_a_value() {
        assert_eq!(command("doctor").value("x"), command("doctor"));
    }
}
