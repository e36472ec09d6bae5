//! How the answers of a run are graded: by a grader, or by a model.

use std::fmt;
use std::str::FromStr;

use ergometer_datasets::grade::{Grader, GraderError};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What precedes the model of a judge in the text.
const JUDGE: &str = "judge:";

/// A grader, or a judge.
#[derive(Debug, Clone, PartialEq)]
pub enum Grading {
    /// Answers are compared with those of the dataset.
    Grader(Grader),
    /// This model judges the answers.
    Judge(String),
}

/// The text of the grader, or `judge:MODEL`.
impl fmt::Display for Grading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grader(grader) => grader.fmt(f),
            Self::Judge(model) => write!(f, "{JUDGE}{model}"),
        }
    }
}

impl FromStr for Grading {
    type Err = GraderError;

    fn from_str(text: &str) -> Result<Self, GraderError> {
        match text.strip_prefix(JUDGE) {
            Some(model) => Ok(Self::Judge(model.to_owned())),
            None => text.parse().map(Self::Grader),
        }
    }
}

/// Serializes as the text that [`FromStr`] reads.
impl Serialize for Grading {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Grading {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_the_one_of_0_1_0() {
        for (text, grading) in [
            ("none", Grading::Grader(Grader::None)),
            ("exact", Grading::Grader(Grader::Exact)),
            ("judge:org/judge", Grading::Judge(String::from("org/judge"))),
            ("judge:", Grading::Judge(String::new())),
        ] {
            assert_eq!(serde_json::to_value(&grading).unwrap(), text);
            assert_eq!(serde_json::from_value::<Grading>(text.into()).unwrap(), grading);
        }
        assert!(serde_json::from_str::<Grading>(r#""vibes""#).unwrap_err().to_string().starts_with("unknown grader"));
    }
}
