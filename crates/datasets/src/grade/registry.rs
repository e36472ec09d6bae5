//! The list of graders, for `ergo list graders`, hints and messages.

/// A grader as `ergo list graders` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraderInfo {
    /// The id that selects it.
    pub id: &'static str,
    /// How it decides whether an answer is correct.
    pub description: &'static str,
    /// The parameter after the colon; `None` if the grader has no parameter.
    pub parameter: Option<&'static str>,
}

const GRADERS: &[GraderInfo] = &[
    GraderInfo { id: "none", description: "no grading", parameter: None },
    GraderInfo { id: "exact", description: "the answer equals the reference answer exactly", parameter: None },
    GraderInfo {
        id: "normalised",
        description: "as exact, ignoring case, articles, white space and surrounding punctuation",
        parameter: None,
    },
    GraderInfo {
        id: "choice",
        description: "the letter that the answer chooses (the last, if several) equals the reference answer",
        parameter: None,
    },
    GraderInfo {
        id: "numeric",
        description: "the final number of the answer equals the reference answer",
        parameter: Some("a tolerance: 0.01 (absolute) or 1% (relative to the reference answer)"),
    },
    GraderInfo {
        id: "regex",
        description: "the answer matches the pattern; if the pattern has a group, the text of the group equals the \
                      reference answer",
        parameter: Some("the pattern (required)"),
    },
];

/// All graders, in the order of `ergo list graders`.
#[must_use]
pub const fn registry() -> &'static [GraderInfo] {
    GRADERS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grade::Grader;

    #[test]
    fn every_listed_grader_can_be_parsed() {
        for info in registry() {
            let text = if info.id == "regex" { "regex:x".to_owned() } else { info.id.to_owned() };
            assert_eq!(text.parse::<Grader>().unwrap().id(), info.id);
            let has_parameter = format!("{}:1", info.id).parse::<Grader>().is_ok();
            assert_eq!(has_parameter, info.parameter.is_some(), "{}", info.id);
        }
    }
}
