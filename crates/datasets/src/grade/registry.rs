//! The graders that exist, for lists, hints and messages.

/// What is to be known of a grader before it is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraderInfo {
    /// What it is chosen by.
    pub id: &'static str,
    /// When a response is right.
    pub description: &'static str,
    /// What may stand after a colon; `None` where nothing may.
    pub parameter: Option<&'static str>,
}

const GRADERS: &[GraderInfo] = &[
    GraderInfo { id: "none", description: "nothing is graded", parameter: None },
    GraderInfo { id: "exact", description: "the response is the answer, character by character", parameter: None },
    GraderInfo {
        id: "normalised",
        description: "the same but for case, articles, white space and the punctuation around it",
        parameter: None,
    },
    GraderInfo { id: "choice", description: "the letter chosen last is that of the answer", parameter: None },
    GraderInfo {
        id: "numeric",
        description: "the final number is that of the answer",
        parameter: Some("a tolerance: 0.01 (difference) or 1% (of the answer)"),
    },
    GraderInfo {
        id: "regex",
        description: "the pattern matches; with a group, the group is the answer",
        parameter: Some("the pattern; needed"),
    },
];

/// All graders, in the order they are listed.
#[must_use]
pub const fn registry() -> &'static [GraderInfo] {
    GRADERS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grade::Grader;

    #[test]
    fn every_grader_listed_can_be_chosen() {
        for info in registry() {
            let text = if info.id == "regex" { "regex:x".to_owned() } else { info.id.to_owned() };
            assert_eq!(text.parse::<Grader>().unwrap().id(), info.id);
            let takes_one = format!("{}:1", info.id).parse::<Grader>().is_ok();
            assert_eq!(takes_one, info.parameter.is_some(), "{}", info.id);
        }
    }
}
