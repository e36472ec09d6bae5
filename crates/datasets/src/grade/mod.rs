//! Graders compare the response of a model with the answer of a dataset.
//!
//! A grader is selected by its id and, for some graders, a parameter after a colon: `choice`, `numeric:1%`. Grading
//! never fails: a response from which no answer can be extracted is incorrect.

mod choice;
mod error;
mod normalised;
mod number;
mod numeric;
mod pattern;
mod registry;
mod statement;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use error::{GraderError, PatternError};
pub use numeric::Tolerance;
pub use pattern::Pattern;
pub use registry::{GraderInfo, registry};

/// A method of comparing responses with answers.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Grader {
    /// Responses are not graded.
    #[default]
    None,
    /// The response must equal the answer exactly.
    Exact,
    /// The response must equal the answer, ignoring case, articles, white space and surrounding punctuation.
    Normalised,
    /// The chosen letter must be the letter of the answer.
    Choice,
    /// The final number must equal the number of the answer, within a tolerance.
    Numeric(Tolerance),
    /// The response must match a regular expression.
    Regex(Pattern),
}

/// The result of grading a response.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Grade {
    /// Whether the response is correct; `None` if the dataset has no answer to compare it with.
    pub correct: Option<bool>,
    /// The part of the response that was compared with the answer. `None` if the response has no such part, and for
    /// `exact`, which compares the whole response.
    pub extracted: Option<String>,
}

impl Grader {
    /// The id, without a parameter.
    #[must_use]
    pub const fn id(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Exact => "exact",
            Self::Normalised => "normalised",
            Self::Choice => "choice",
            Self::Numeric(_) => "numeric",
            Self::Regex(_) => "regex",
        }
    }

    /// Grades a response.
    ///
    /// ```
    /// # use ergometer_datasets::grade::Grader;
    /// let grader: Grader = "numeric".parse()?;
    /// let grade = grader.grade("1234.5", "So the total is $1,234.50.");
    /// assert_eq!((grade.correct, grade.extracted.as_deref()), (Some(true), Some("1234.50")));
    /// assert_eq!(grader.grade("", "42").correct, None);
    /// # Ok::<(), ergometer_datasets::grade::GraderError>(())
    /// ```
    #[must_use]
    pub fn grade(&self, answer: &str, response: &str) -> Grade {
        match self {
            Self::None => Grade::default(),
            Self::Exact => Grade { correct: (!answer.is_empty()).then(|| answer == response), extracted: None },
            Self::Normalised => normalised::grade(answer, response),
            Self::Choice => choice::grade(answer, response),
            Self::Numeric(tolerance) => numeric::grade(*tolerance, answer, response),
            Self::Regex(pattern) => pattern.grade(answer, response),
        }
    }
}

impl Grade {
    /// A grade from the extracted part of a response; `correct` is `None` if there is no answer to compare it with.
    fn new(extracted: Option<String>, correct: Option<bool>) -> Self {
        Self { correct, extracted }
    }
}

/// The id and the parameter, as in `--grader`. Parsing the text gives the same grader.
impl fmt::Display for Grader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())?;
        match self {
            Self::Numeric(tolerance) => tolerance.fmt_parameter(f),
            Self::Regex(pattern) => write!(f, ":{}", pattern.as_str()),
            Self::None | Self::Exact | Self::Normalised | Self::Choice => Ok(()),
        }
    }
}

impl FromStr for Grader {
    type Err = GraderError;

    fn from_str(text: &str) -> Result<Self, GraderError> {
        let (id, parameter) = match text.split_once(':') {
            Some((id, parameter)) => (id.trim(), Some(parameter)),
            None => (text.trim(), None),
        };
        let grader = match id.to_ascii_lowercase().as_str() {
            "none" => Self::None,
            "exact" => Self::Exact,
            "normalised" => Self::Normalised,
            "choice" => Self::Choice,
            "numeric" => return Ok(Self::Numeric(Tolerance::parse(parameter)?)),
            "regex" => return Ok(Self::Regex(Pattern::parse(parameter)?)),
            _ => return Err(GraderError::unknown(id)),
        };
        match parameter {
            None => Ok(grader),
            Some(parameter) => {
                Err(GraderError::UnexpectedParameter { grader: grader.id(), parameter: parameter.to_owned() })
            }
        }
    }
}

/// Serializes as the text that [`FromStr`] reads: `numeric:1%`.
impl Serialize for Grader {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Grader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use ergometer_diagnostics::{CommandLine, Diagnostic as _};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parsing_a_formatted_grader_returns_it() {
        for text in
            ["none", "exact", "normalised", "choice", "numeric", "numeric:0.01", "numeric:1%", r"regex:^a:(\d+)$"]
        {
            let grader: Grader = text.parse().unwrap();
            assert_eq!(grader.to_string(), text);
            assert_eq!(grader.to_string().parse::<Grader>().unwrap(), grader);
            let json = serde_json::to_value(&grader).unwrap();
            assert_eq!(json, text);
            assert_eq!(serde_json::from_value::<Grader>(json).unwrap(), grader);
        }
        assert_eq!(" Exact ".parse::<Grader>().unwrap(), Grader::Exact);
    }

    #[test]
    fn a_bad_id_or_parameter_has_a_hint() {
        for (text, expected) in [
            (
                "nummeric",
                "unknown grader `nummeric`. hint: did you mean `numeric`? The graders are none, exact, normalised, choice, numeric, regex",
            ),
            (
                "normalized",
                "unknown grader `normalized`. hint: did you mean `normalised`? The graders are none, exact, normalised, choice, numeric, regex",
            ),
            (
                "llm-judge",
                "unknown grader `llm-judge`. hint: the graders are none, exact, normalised, choice, numeric, regex; `ergo list graders` describes them",
            ),
            (
                "",
                "unknown grader ``. hint: the graders are none, exact, normalised, choice, numeric, regex; `ergo list graders` describes them",
            ),
            ("exact:1", "grader `exact` takes no parameter, but has `1`. hint: use --grader exact"),
            (
                "numeric:-1",
                "`-1` is not a tolerance. hint: use numeric:0.01 for a difference of 0.01, or numeric:1% for one percent of the reference answer",
            ),
            ("regex", "grader `regex` needs a pattern. hint: write it as regex:'answer: (.*)'"),
        ] {
            assert_eq!(text.parse::<Grader>().unwrap_err().one_line(&CommandLine), expected);
        }
    }

    #[test]
    fn exact_compares_the_whole_text() {
        for (answer, response, expected) in
            [("a", "a", Some(true)), ("a", "A", Some(false)), ("a", "a ", Some(false)), ("", "a", None)]
        {
            assert_eq!(Grader::Exact.grade(answer, response).correct, expected, "{answer}|{response}");
        }
        assert_eq!(Grader::None.grade("a", "a"), Grade::default());
    }

    fn any_grader() -> impl Strategy<Value = Grader> {
        let texts = vec!["none", "exact", "normalised", "choice", "numeric", "numeric:1%", r"regex:(\w+)$"];
        prop::sample::select(texts).prop_map(|text| text.parse().unwrap())
    }

    proptest! {
        #[test]
        fn random_responses_never_panic(grader in any_grader(), answer in ".*", response in ".*") {
            let _ = grader.grade(&answer, &response);
        }

        #[test]
        fn responses_of_typical_pieces_never_panic(grader in any_grader(), pieces in prop::collection::vec(
            prop::sample::select(vec![
                "the answer is", "A", "(b)", "**", "\\boxed{", "}", "4", ",", ".", "/", "-", "####", "\n", " ", "e9", "%",
                "$", "\\frac{1}{2}", "−", "é", "答案", ":"]), 0..12))
        {
            let response = pieces.concat();
            let _ = grader.grade("4", &response);
            let _ = grader.grade(&response, "B");
        }

        #[test]
        fn an_answer_is_correct_as_a_response(number in -1_000_000_i64..1_000_000, letter in "[A-J]") {
            prop_assert_eq!(Grader::Numeric(Tolerance::None).grade(&number.to_string(), &number.to_string()).correct, Some(true));
            prop_assert_eq!(Grader::Choice.grade(&letter, &letter).correct, Some(true));
            prop_assert_eq!(Grader::Normalised.grade(&letter, &letter).correct, Some(true));
        }
    }
}
