//! Errors of parsing a grader such as `numeric:1%`.

use ergometer_diagnostics::{Diagnostic, Hint, command, hint, option};
use thiserror::Error;

use super::registry;

/// The text does not name a grader, or its parameter is invalid.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GraderError {
    /// No grader has this id.
    #[error("unknown grader `{id}`")]
    Unknown {
        /// The id as typed.
        id: String,
        /// The grader with the most similar id.
        nearest: Option<&'static str>,
    },
    /// The grader takes no parameter.
    #[error("grader `{grader}` takes no parameter, but has `{parameter}`")]
    UnexpectedParameter {
        /// The grader.
        grader: &'static str,
        /// The parameter.
        parameter: String,
    },
    /// The parameter of `numeric` is not a tolerance.
    #[error("`{text}` is not a tolerance")]
    Tolerance {
        /// The parameter as typed.
        text: String,
    },
    /// The grader `regex` has no pattern.
    #[error("grader `regex` needs a pattern")]
    MissingPattern,
    /// The pattern of `regex` is not a valid regular expression, or is too large when compiled.
    #[error("`{pattern}` is not a valid pattern")]
    Pattern {
        /// The pattern as typed.
        pattern: String,
        /// What is wrong with it.
        source: PatternError,
    },
}

/// The error of the regular expression compiler, in one line.
#[derive(Debug, Error)]
#[error("{}", reason(.0))]
pub struct PatternError(pub(super) Box<regex::Error>);

/// The last line of the error, without the excerpt of the pattern above it.
fn reason(error: &regex::Error) -> String {
    let text = error.to_string();
    text.rsplit_once("error: ").map_or(text.trim(), |(_, reason)| reason.trim()).to_owned()
}

impl Diagnostic for GraderError {
    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::Unknown { nearest: Some(id), .. } => {
                hint!(format!("did you mean `{id}`? The graders are {}", ids()))
            }
            Self::Unknown { nearest: None, .. } => {
                hint!(format!("the graders are {}; ", ids()), command("list graders"), " describes them")
            }
            Self::UnexpectedParameter { grader, .. } => hint!("use ", option("grader").value(*grader)),
            Self::Tolerance { .. } => Hint::text(
                "use numeric:0.01 for a difference of 0.01, or numeric:1% for one percent of the reference answer",
            ),
            Self::MissingPattern => Hint::text("write it as regex:'answer: (.*)'"),
            Self::Pattern { .. } => Hint::text("see https://docs.rs/regex#syntax for the syntax"),
        })
    }
}

impl GraderError {
    pub(super) fn unknown(id: &str) -> Self {
        Self::Unknown { id: id.to_owned(), nearest: nearest(id) }
    }
}

fn ids() -> String {
    registry().iter().map(|info| info.id).collect::<Vec<_>>().join(", ")
}

/// The grader with the most similar id: one or two typing errors away, or a part of the other id (`num`,
/// `multiple-choice`).
fn nearest(typed: &str) -> Option<&'static str> {
    let typed = typed.to_lowercase();
    let is_part = |id: &str| typed.len() >= 3 && (id.starts_with(&typed) || typed.contains(id));
    let distance = |id: &str| if is_part(id) { 0 } else { edit_distance(&typed, id) };
    let ids = registry().iter().map(|info| (distance(info.id), info.id));
    ids.filter(|&(distance, id)| distance <= id.len() / 3).min().map(|(_, id)| id)
}

/// The Levenshtein distance: the number of characters to insert, delete or change.
fn edit_distance(left: &str, right: &str) -> usize {
    let mut row: Vec<usize> = (0..=right.chars().count()).collect();
    for (line, from) in left.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], line + 1);
        for (column, to) in right.chars().enumerate() {
            let changed = diagonal + usize::from(from != to);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_find_the_intended_grader() {
        for (typed, expected) in [
            ("numerical", Some("numeric")),
            ("num", Some("numeric")),
            ("Exakt", Some("exact")),
            ("multiple-choice", Some("choice")),
            ("normalized", Some("normalised")),
            ("regexp", Some("regex")),
            ("bleu", None),
            ("x", None),
        ] {
            assert_eq!(nearest(typed), expected, "{typed}");
        }
    }

    #[test]
    fn edit_distances_match_levenshtein() {
        for (left, right, expected) in
            [("kitten", "sitting", 3), ("", "abc", 3), ("abc", "abc", 0), ("flaw", "lawn", 2)]
        {
            assert_eq!(edit_distance(left, right), expected);
        }
    }
}
