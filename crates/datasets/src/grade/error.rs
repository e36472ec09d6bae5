//! What can be wrong with the text that chooses a grader, and what to do about it.

use thiserror::Error;

use super::registry;

/// Why a text chooses no grader.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GraderError {
    /// No grader has this id.
    #[error("no grader `{id}`; there are {}. hint: {}", ids(), hint(*.nearest))]
    Unknown {
        /// The id as typed.
        id: String,
        /// The grader that was probably meant.
        nearest: Option<&'static str>,
    },
    /// The grader takes no parameter.
    #[error("grader `{grader}` takes no parameter, and was given `{parameter}`. hint: --grader {grader}")]
    UnexpectedParameter {
        /// The grader.
        grader: &'static str,
        /// What it was given.
        parameter: String,
    },
    /// The parameter of `numeric` is no tolerance.
    #[error(
        "`{text}` is no tolerance. hint: numeric:0.01 for a difference of 0.01, numeric:1% for one per cent of the answer"
    )]
    Tolerance {
        /// The parameter as typed.
        text: String,
    },
    /// `regex` without a pattern.
    #[error("grader `regex` needs a pattern. hint: regex:'answer: (.*)'")]
    MissingPattern,
    /// The pattern of `regex` is not a regular expression, or is too large a one.
    #[error("`{pattern}` is not a pattern that can be used. hint: the syntax is that of https://docs.rs/regex#syntax")]
    Pattern {
        /// The pattern as typed.
        pattern: String,
        /// What is wrong with it.
        source: Box<regex::Error>,
    },
}

impl GraderError {
    pub(super) fn unknown(id: &str) -> Self {
        Self::Unknown { id: id.to_owned(), nearest: nearest(id) }
    }
}

fn ids() -> String {
    registry().iter().map(|info| info.id).collect::<Vec<_>>().join(", ")
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(|| "ergo list graders".to_owned(), |id| format!("did you mean `{id}`?"))
}

/// The grader whose id is a slip or two away, or begins alike: `num`, `multiple-choice`.
fn nearest(typed: &str) -> Option<&'static str> {
    let typed = typed.to_lowercase();
    let alike = |id: &str| typed.len() >= 3 && (id.starts_with(&typed) || typed.contains(id));
    let distance = |id: &str| if alike(id) { 0 } else { edit_distance(&typed, id) };
    let ids = registry().iter().map(|info| (distance(info.id), info.id));
    ids.filter(|&(distance, id)| distance <= id.len() / 3).min().map(|(_, id)| id)
}

/// How many characters must be put in, left out or changed (Levenshtein).
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
    fn slips_find_the_grader_that_was_meant() {
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
    fn distances_are_those_of_levenshtein() {
        for (left, right, expected) in
            [("kitten", "sitting", 3), ("", "abc", 3), ("abc", "abc", 0), ("flaw", "lawn", 2)]
        {
            assert_eq!(edit_distance(left, right), expected);
        }
    }
}
