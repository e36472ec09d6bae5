//! The grader `regex`: a pattern that the response must match, or that extracts the answer from the response.

use regex::{Regex, RegexBuilder};

use super::{Grade, GraderError, PatternError};

/// Maximum size of a compiled pattern, in bytes. A pattern of a few hundred characters needs about ten kilobytes; a
/// mistake such as `\w{9999}` needs a hundred megabytes.
const SIZE_LIMIT: usize = 1 << 20;

/// The regular expression of the grader `regex`.
#[derive(Debug, Clone)]
pub struct Pattern(Regex);

impl Pattern {
    pub(super) fn parse(parameter: Option<&str>) -> Result<Self, GraderError> {
        let pattern = parameter.filter(|pattern| !pattern.is_empty()).ok_or(GraderError::MissingPattern)?;
        let built = RegexBuilder::new(pattern).size_limit(SIZE_LIMIT).dfa_size_limit(SIZE_LIMIT).build();
        let failed = |error| {
            let source = PatternError(Box::new(error));
            GraderError::Pattern { pattern: pattern.to_owned(), source }
        };
        built.map(Self).map_err(failed)
    }

    /// The pattern as typed.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// If the pattern has a group, the first group of the first match must equal the answer. Otherwise a match is
    /// enough, and the answer is ignored.
    pub(super) fn grade(&self, answer: &str, response: &str) -> Grade {
        let has_group = self.0.captures_len() > 1;
        let extracted = self
            .0
            .captures(response)
            .and_then(|found| found.get(usize::from(has_group)))
            .map(|found| found.as_str().to_owned());
        let correct = match has_group {
            true if answer.is_empty() => None,
            true => Some(extracted.as_deref() == Some(answer)),
            false => Some(extracted.is_some()),
        };
        Grade::new(extracted, correct)
    }
}

/// Patterns are equal if their texts are equal.
impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error;

    #[test]
    fn a_group_must_equal_the_answer_and_without_a_group_a_match_is_correct() {
        for (pattern, answer, response, correct, extracted) in [
            (r"(?i)answer: (\w+)", "Paris", "Answer: Paris.", Some(true), Some("Paris")),
            (r"(?i)answer: (\w+)", "Paris", "Answer: paris.", Some(false), Some("paris")),
            (r"(?i)answer: (\w+)", "Paris", "Paris", Some(false), None),
            (r"(?i)answer: (\w+)", "", "Answer: Paris", None, Some("Paris")),
            (r"a(b)?", "b", "a", Some(false), None),
            (r"(?s).*x=(\d)", "2", "x=1\nx=2", Some(true), Some("2")),
            (r"\bdef \w+\(", "", "def f(x):", Some(true), Some("def f(")),
            (r"^\d+$", "ignored", "12a", Some(false), None),
        ] {
            let found = Pattern::parse(Some(pattern)).unwrap().grade(answer, response);
            assert_eq!((found.correct, found.extracted.as_deref()), (correct, extracted), "{pattern}|{response}");
        }
    }

    #[test]
    fn a_bad_pattern_is_an_error_with_its_cause() {
        for pattern in ["(", r"\w{9999}", "(?=a)"] {
            let error = Pattern::parse(Some(pattern)).unwrap_err();
            assert!(matches!(&error, GraderError::Pattern { pattern: kept, .. } if kept == pattern), "{error}");
            assert!(error.source().is_some_and(|source| !source.to_string().contains('\n')), "{error:?}");
        }
        assert!(matches!(Pattern::parse(Some("")), Err(GraderError::MissingPattern)));
    }
}
