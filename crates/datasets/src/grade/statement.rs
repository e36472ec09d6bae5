//! Where a response states its answer: `The answer is ...`, `Answer: ...`, `\boxed{...}`.
//!
//! A response goes in; the texts that follow such words come out, in order. What they say is read by the graders.

use std::sync::LazyLock;

use regex::Regex;

/// How far behind its noun a verb may stand, in bytes: `The answer to the question about the trains is`.
const LONGEST_GAP: usize = 100;

/// How much of what follows a verb is looked at, in bytes. With a bound on it, and on boxes, the time is linear in the
/// length of a response, whatever is in it.
const LONGEST_STATEMENT: usize = 300;

/// How many boxes are looked into, the last ones.
const MOST_BOXES: usize = 16;

/// What connects the noun with what is stated.
static VERB: LazyLock<Regex> = LazyLock::new(|| compile(r"(?i)\b(?:is|was|be|es|est|ist)\b|[:：=]|是|为|為|は"));

/// What makes the verb after it deny: `cannot be`, `isn't`.
static DENIAL: LazyLock<Regex> = LazyLock::new(|| compile(r"(?i)(?:\b(?:not|cannot|never)|n['’]t)\s*$"));

/// What makes the noun after it name what is not the answer: `the wrong answer is`.
static WRONG: LazyLock<Regex> = LazyLock::new(|| compile(r"(?i)\b(?:wrong|incorrect|false|bad)\s+$"));

/// A constant pattern.
pub(super) fn compile(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern, compiled in the tests")
}

/// One place where a response states its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Statement<'a> {
    /// Which of the nouns it belongs to, by its place in the response: a noun may be followed by several verbs, of which
    /// the first that leads to something counts.
    pub(super) noun: usize,
    /// What stands between the noun and the verb.
    pub(super) gap: &'a str,
    /// What follows the verb, over the ends of sentences and lines.
    pub(super) said: &'a str,
}

/// Every verb that follows one of the nouns in its sentence.
pub(super) fn statements<'a>(text: &'a str, nouns: &Regex) -> Vec<Statement<'a>> {
    let mut found = Vec::new();
    let mut places = nouns.find_iter(text).peekable();
    while let Some(noun) = places.next() {
        if WRONG.is_match(tail(&text[..noun.start()])) {
            continue;
        }
        let after = &text[noun.end()..];
        // What follows the next noun belongs to that one.
        let end = places.peek().map_or(text.len(), regex::Match::start);
        let sentence = first_sentence(&text[noun.end()..end]);
        for verb in VERB.find_iter(sentence) {
            let gap = &sentence[..verb.start()];
            if !DENIAL.is_match(gap) {
                found.push(Statement { noun: noun.start(), gap, said: head(&after[verb.end()..]) });
            }
        }
    }
    found
}

/// The start of a text, as much of it as is looked at.
pub(super) fn head(text: &str) -> &str {
    let ends = text.char_indices().map(|(place, character)| place + character.len_utf8());
    &text[..ends.take_while(|&end| end <= LONGEST_STATEMENT).last().unwrap_or(0)]
}

/// The last few characters of a text.
fn tail(text: &str) -> &str {
    text.char_indices().rev().take(16).last().map_or(text, |(place, _)| &text[place..])
}

/// What stands in each `\boxed{...}` or `\fbox{...}`, from last to first; one that is not closed goes to the end.
pub(super) fn boxed(text: &str) -> Vec<&str> {
    static BOX: LazyLock<Regex> = LazyLock::new(|| compile(r"\\(?:boxed|fbox)\s*\{"));
    let content = |start: usize| {
        let mut depth = 1_usize;
        let end = text[start..].char_indices().find_map(|(place, character)| {
            match character {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            (depth == 0).then_some(start + place)
        });
        &text[start..end.unwrap_or(text.len())]
    };
    let starts: Vec<usize> = BOX.find_iter(text).map(|found| found.end()).collect();
    starts.into_iter().rev().take(MOST_BOXES).map(content).collect()
}

/// The text up to the end of its line or sentence, at most [`LONGEST_GAP`] bytes of it.
fn first_sentence(text: &str) -> &str {
    let mut end = 0;
    let mut characters = text.char_indices().peekable();
    while let Some((place, character)) = characters.next() {
        let stops = matches!(character, '.' | '?' | '!' | ';')
            && characters.peek().is_none_or(|(_, next)| next.is_whitespace());
        if character == '\n' || stops || place >= LONGEST_GAP {
            break;
        }
        end = place + character.len_utf8();
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Vec<&str> {
        statements(text, &compile("(?i)answer|答案")).iter().map(|statement| statement.said).collect()
    }

    #[test]
    fn statements_are_found_in_their_sentences() {
        assert_eq!(said("The answer is 4. Is it?"), [" 4. Is it?"]);
        assert_eq!(said("Answer: 4\nanswer = 5"), [" 4\nanswer = 5", " 5"]);
        assert_eq!(said("the answer to 2 + 2 must be 4"), [" 4"]);
        assert_eq!(said("答案是B"), ["B"]);
        assert_eq!(said("I will answer. It is 4"), [""; 0]);
        assert_eq!(said("The answer cannot be 4; the wrong answer is 5"), [""; 0]);
        assert_eq!(said(&format!("answer {} is 4", "é".repeat(60))), [""; 0]);
    }

    #[test]
    fn boxes_hold_what_is_between_their_braces() {
        assert_eq!(boxed(r"\boxed{1} or \boxed {\frac{3}{4}} x"), [r"\frac{3}{4}", "1"]);
        assert_eq!(boxed(r"\fbox{\boxed{2}}"), ["2", r"\boxed{2}"]);
        assert_eq!(boxed(r"\boxed{4"), ["4"]);
        assert_eq!(boxed("boxed 4"), [""; 0]);
    }
}
