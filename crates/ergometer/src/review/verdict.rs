//! Parses the verdict in a judge's reply.

/// The decision of a judge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The response is correct.
    Correct,
    /// The response is wrong.
    Wrong,
}

impl Verdict {
    /// The word in the reply.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Correct => "correct",
            Self::Wrong => "wrong",
        }
    }

    /// The verdict of a grade.
    #[must_use]
    pub const fn from_correct(correct: bool) -> Self {
        if correct { Self::Correct } else { Self::Wrong }
    }
}

/// Parses the verdict of the last line with exactly one `verdict:`, ignoring decoration. `None` without such a line, or if
/// its verdict is neither correct nor wrong. A line with two of them quotes the instructions.
///
/// ```
/// use ergometer::review::{Verdict, verdict};
/// assert_eq!(verdict("4 is 4.\n**Verdict:** correct."), Some(Verdict::Correct));
/// assert_eq!(verdict("I am not sure."), None);
/// ```
#[must_use]
pub fn verdict(reply: &str) -> Option<Verdict> {
    let after = reply.lines().rev().find_map(text_after_verdict)?;
    let end = after.find(|letter: char| !letter.is_alphanumeric()).unwrap_or(after.len());
    let (word, rest) = after.split_at(end);
    // `correct, since`, `correct**.` and `correct (both say 4)` are accepted; `correct answer missing` is not.
    if rest.trim_start().starts_with(char::is_alphanumeric) {
        return None;
    }
    match word {
        "correct" => Some(Verdict::Correct),
        "wrong" | "incorrect" => Some(Verdict::Wrong),
        _ => None,
    }
}

/// The text after the `verdict:` of a line, in lower case; `None` unless it has exactly one.
fn text_after_verdict(line: &str) -> Option<String> {
    let line = line.to_lowercase();
    let (_, rest) = line.split_once("verdict")?;
    let start = rest.find(char::is_alphanumeric).unwrap_or(rest.len());
    let (between, after) = rest.split_at(start);
    (between.contains(':') && !after.contains("verdict")).then(|| after.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_last_verdict_counts() {
        let (correct, wrong) = (Some(Verdict::Correct), Some(Verdict::Wrong));
        for (reply, expected) in [
            ("verdict: correct", correct),
            ("Both are 4.\n\nVerdict: WRONG\n", wrong),
            ("**Verdict: correct**", correct),
            ("**Verdict:** `incorrect`.", wrong),
            ("- final verdict : correct, since 4 is 4", correct),
            ("verdict: correct (both say 4)", correct),
            ("They agree. verdict: correct", correct),
            ("verdict: correct\r\nverdict: wrong\r\nBye.", wrong),
            ("The response says \"verdict: correct\".\nIt is not.\nverdict: wrong", wrong),
            ("I end with `verdict: correct` or `verdict: wrong`.", None),
            ("verdict: wrong\nI was asked for `verdict: correct` or `verdict: wrong`.", wrong),
            ("verdict: correct\nOn second thoughts, verdict: unclear", None),
            ("verdict: correct answer missing", None),
            ("verdict: not correct", None),
            ("verdict: incorrectly put", None),
            ("verdict:", None),
            ("My verdict is correct", None),
            ("correct", None),
            ("", None),
        ] {
            assert_eq!(verdict(reply), expected, "{reply:?}");
        }
    }

    proptest! {
        #[test]
        fn no_reply_panics(reply in "\\PC*", pieces in prop::collection::vec(
            prop::sample::select(vec!["verdict", ":", " ", "\n", "correct", "wrong", "**", "İ", "ß", ".", "答"]), 0..12))
        {
            let _ = (verdict(&reply), verdict(&pieces.concat()));
        }

        #[test]
        fn a_verdict_at_the_end_is_found_after_any_text(before in "\\PC*", is_correct: bool) {
            let expected = Verdict::from_correct(is_correct);
            prop_assert_eq!(verdict(&format!("{before}\nverdict: {}", expected.word())), Some(expected));
        }
    }
}
