//! Finds the statements of an answer in a response: `The answer is ...`, `Answer: ...`, `\boxed{...}`.
//!
//! The statements are returned in order, as the text after such words. The graders parse that text.

use std::sync::LazyLock;

use regex::Regex;

/// Maximum distance between a noun and its verb, in bytes: `The answer to the question about the trains is`.
const LONGEST_GAP: usize = 100;

/// Maximum length of a statement after its verb, in bytes. This limit and the limit on boxes keep the time linear in
/// the length of any response.
const LONGEST_STATEMENT: usize = 300;

/// Maximum number of boxes, counted from the end of the response.
const MOST_BOXES: usize = 16;

/// A verb or sign between the noun and the answer.
static VERB: LazyLock<Regex> = LazyLock::new(|| compile(r"(?i)\b(?:is|was|be|es|est|ist)\b|[:：=]|是|为|為|は"));

/// A negation of the verb: `cannot be`, `isn't`.
static DENIAL: LazyLock<Regex> = LazyLock::new(|| compile(r"(?i)(?:\b(?:not|cannot|never)|n['’]t)\s*$"));

/// An adjective before the noun that makes it a wrong answer: `the wrong answer is`.
static WRONG: LazyLock<Regex> = LazyLock::new(|| compile(r"(?i)\b(?:wrong|incorrect|false|bad)\s+$"));

/// Compiles a constant pattern.
pub(super) fn compile(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern, compiled in the tests")
}

/// One statement of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Statement<'a> {
    /// The position of its noun in the response. Several verbs may follow a noun; the first verb that is followed by an
    /// answer counts.
    pub(super) noun: usize,
    /// The text between the noun and the verb.
    pub(super) gap: &'a str,
    /// The text after the verb, across the ends of sentences and lines.
    pub(super) text: &'a str,
}

/// A statement for every verb that follows one of the nouns in the same sentence.
pub(super) fn statements<'a>(text: &'a str, nouns: &Regex) -> Vec<Statement<'a>> {
    let mut found = Vec::new();
    let mut places = nouns.find_iter(text).peekable();
    while let Some(noun) = places.next() {
        if WRONG.is_match(tail(&text[..noun.start()])) {
            continue;
        }
        let after = &text[noun.end()..];
        // The text after the next noun belongs to the next noun.
        let end = places.peek().map_or(text.len(), regex::Match::start);
        let sentence = first_sentence(&text[noun.end()..end]);
        for verb in VERB.find_iter(sentence) {
            let gap = &sentence[..verb.start()];
            if !DENIAL.is_match(gap) {
                found.push(Statement { noun: noun.start(), gap, text: head(&after[verb.end()..]) });
            }
        }
    }
    found
}

/// The first [`LONGEST_STATEMENT`] bytes of a text, up to the end of a character.
pub(super) fn head(text: &str) -> &str {
    let ends = text.char_indices().map(|(place, character)| place + character.len_utf8());
    &text[..ends.take_while(|&end| end <= LONGEST_STATEMENT).last().unwrap_or(0)]
}

/// The last 16 characters of a text.
fn tail(text: &str) -> &str {
    text.char_indices().rev().take(16).last().map_or(text, |(place, _)| &text[place..])
}

/// The content of each `\boxed{...}` or `\fbox{...}`, last box first. An unclosed box extends to the end of the text.
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

    fn texts(text: &str) -> Vec<&str> {
        statements(text, &compile("(?i)answer|答案")).iter().map(|statement| statement.text).collect()
    }

    #[test]
    fn statements_are_found_in_their_sentences() {
        assert_eq!(texts("The answer is 4. Is it?"), [" 4. Is it?"]);
        assert_eq!(texts("Answer: 4\nanswer = 5"), [" 4\nanswer = 5", " 5"]);
        assert_eq!(texts("the answer to 2 + 2 must be 4"), [" 4"]);
        assert_eq!(texts("答案是B"), ["B"]);
        assert_eq!(texts("I will answer. It is 4"), [""; 0]);
        assert_eq!(texts("The answer cannot be 4; the wrong answer is 5"), [""; 0]);
        assert_eq!(texts(&format!("answer {} is 4", "é".repeat(60))), [""; 0]);
    }

    #[test]
    fn a_box_contains_the_text_between_its_braces() {
        assert_eq!(boxed(r"\boxed{1} or \boxed {\frac{3}{4}} x"), [r"\frac{3}{4}", "1"]);
        assert_eq!(boxed(r"\fbox{\boxed{2}}"), ["2", r"\boxed{2}"]);
        assert_eq!(boxed(r"\boxed{4"), ["4"]);
        assert_eq!(boxed("boxed 4"), [""; 0]);
    }
}
