//! The grader `choice`: which letter a response to a multiple-choice question chooses.
//!
//! The grader tries these in order and uses the first that it finds: the last statement (`The answer is (b)`,
//! `\boxed{B}`); a letter at the start of the response (`B. Paris`); the last line with a single letter; the last
//! verdict (`B is correct`, `I choose B`); the only letter in brackets. A statement with several letters chooses none.
//! The article `A` and the pronoun `I` are not choices: they count only before a word that can follow an answer (`A
//! because ...`).

use std::sync::LazyLock;

use regex::Regex;

use super::Grade;
use super::statement::{boxed, compile, head, statements};

pub(super) fn grade(answer: &str, response: &str) -> Grade {
    let chosen = choose(response);
    Grade::new(chosen.map(String::from), choose(answer).map(|answer| chosen == Some(answer)))
}

/// The choice that one statement makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    One(char),
    /// Several letters, such as `A and B`: no choice.
    Several,
}

impl Choice {
    fn letter(self) -> Option<char> {
        match self {
            Self::One(letter) => Some(letter),
            Self::Several => None,
        }
    }
}

fn choose(text: &str) -> Option<char> {
    let found = stated(text).or_else(|| opening(text)).or_else(|| alone_on_a_line(text)).or_else(|| verdict(text));
    found.map_or_else(|| only_one_in_brackets(text), Choice::letter)
}

/// The choice of the last statement. A box counts as the last statement, because models put the final answer there.
fn stated(text: &str) -> Option<Choice> {
    static NOUN: LazyLock<Regex> = LazyLock::new(|| {
        compile(r"(?i)\b(?:answer|option|choice|solution|respuesta|réponse|antwort|ответ)\b|答案|正解|答え")
    });
    // `Option A: ...` and `Choice B is ...` discuss an option without choosing it.
    static ABOUT: LazyLock<Regex> = LazyLock::new(|| compile(r"^[\s*_(\[]*[A-Za-z][)\]*_]*(?:\s|$)"));
    if let Some(choice) = boxed(text).into_iter().find_map(letter_at) {
        return Some(choice);
    }
    let found = statements(text, &NOUN);
    let choices = found.iter().filter(|statement| !ABOUT.is_match(statement.gap));
    let mut last: Option<(usize, Choice)> = None;
    for (noun, choice) in choices.filter_map(|statement| Some((statement.noun, letter_at(statement.text)?))) {
        if last.is_none_or(|(before, _)| before != noun) {
            last = Some((noun, choice));
        }
    }
    last.map(|(_, choice)| choice)
}

/// A letter at the start of the response, separated from the following text: `B`, `(B) Paris`, `B. Paris`. `None` if
/// other lines start with other letters, because the response then lists the options.
fn opening(text: &str) -> Option<Choice> {
    static OPENING: LazyLock<Regex> =
        LazyLock::new(|| compile(r#"^[\s*_"'“‘`$(\[>#-]*([A-Za-z])[*_]*(?:[).:,\]"'”’`$–—]| +[-–—:]|\s*\n|\s*$)"#));
    static BECAUSE: LazyLock<Regex> = LazyLock::new(|| compile(r"^[\s*_]*[A-Z][*_]* +(?:because|since|as|due)\b"));
    let is_separate = |line: &str| OPENING.is_match(line) || BECAUSE.is_match(line);
    let choice = letter_at(text.trim_start_matches(['>', '#', '-', ' ', '\n'])).filter(|_| is_separate(text))?;
    let other = |line: &str| letter_at(line).filter(|_| OPENING.is_match(line)).is_some_and(|other| other != choice);
    (!text.trim().lines().skip(1).any(other)).then_some(choice)
}

fn alone_on_a_line(text: &str) -> Option<Choice> {
    static ALONE: LazyLock<Regex> = LazyLock::new(|| compile(r#"^[\s*_"'“‘`$(\[#>]*([A-Za-z])[\s*_"'”’`$)\].]*$"#));
    text.lines().rev().find_map(|line| ALONE.captures(line)?[1].chars().next().map(one))
}

/// The last of `B is correct`, `I choose B`, `it must be B`.
fn verdict(text: &str) -> Option<Choice> {
    static AFTER: LazyLock<Regex> = LazyLock::new(|| {
        compile(
            r"(?i)\b(?:choose|chose|pick|select|go(?:ing)? with|opt for|must be|should be|would be|it['’]s|it is)\b",
        )
    });
    static BEFORE: LazyLock<Regex> = LazyLock::new(|| {
        compile(
            r"(?:^|[\s*_(\[])([A-Z])[)\].*_]*\s+(?:is|seems|looks)\s+(?:the\s+)?(?:most\s+|only\s+|best\s+)?(?:correct|right|best|answer)\b",
        )
    });
    let after = AFTER.find_iter(text).filter_map(|verb| Some((verb.end(), letter_at(&text[verb.end()..])?)));
    let before = BEFORE.captures_iter(text).filter_map(|found| {
        let letter = found.get(1)?;
        Some((letter.start(), one(letter.as_str().chars().next()?)))
    });
    after.chain(before).max_by_key(|&(place, _)| place).map(|(_, choice)| choice)
}

fn only_one_in_brackets(text: &str) -> Option<char> {
    static BRACKETS: LazyLock<Regex> = LazyLock::new(|| compile(r"\(([A-J])\)"));
    let mut letters = BRACKETS.captures_iter(text).filter_map(|found| found[1].chars().next());
    let first = letters.next()?;
    letters.all(|letter| letter == first).then_some(first)
}

fn one(letter: char) -> Choice {
    Choice::One(letter.to_ascii_uppercase())
}

/// The letter at the start of a text, after markup, brackets and words such as `option`, if it is not part of a word.
fn letter_at(text: &str) -> Option<Choice> {
    static LETTER: LazyLock<Regex> = LazyLock::new(|| {
        compile(
            r#"(?ix)^(?: [\s*_"'“”‘’`$(\[{}:：=] | \\[(\[] | \\[a-z]+\s*\{ | 选项 |
                (?:the|option|choice|letter|answer|most|likely|probably|clearly|simply|thus|therefore|indeed)\b )*
                ([a-z])"#,
        )
    });
    static SEVERAL: LazyLock<Regex> = LazyLock::new(|| {
        compile(
            r#"^[)\]}*_"'.\s]*(?:(?:,?\s*(?:and|or|&)\s+|/)[(\["*_]*(?:option\s+)?[A-HJ-Z](?:[^A-Za-z0-9'’]|$)|,\s*[(\["*_]*[A-HJ-Z][)\]"*_]*\s*(?:,|and\b|or\b|&|\.|$))"#,
        )
    });
    let text = head(text);
    let found = LETTER.captures(text)?.get(1)?;
    let letter = found.as_str().chars().next()?;
    let after = &text[found.end()..];
    if letter.is_ascii_uppercase() && SEVERAL.is_match(after) {
        return Some(Choice::Several);
    }
    is_separate_letter(letter, after).then(|| one(letter))
}

/// Whether the text after a letter shows that the letter is not the start of a word, a name or a formula.
fn is_separate_letter(letter: char, after: &str) -> bool {
    let mut rest = after.chars();
    let Some(next) = rest.next() else { return true };
    let second = rest.next();
    let before_word = second.is_some_and(char::is_alphanumeric);
    match next {
        // D'Alembert, T-cell, x_1, A\cdot B.
        '\'' | '’' | '-' | '–' | '_' | '\\' => !before_word,
        '/' | '+' | '#' | '^' | '=' | '(' | '<' | '>' => false,
        // `B.1` and `e.g.` are not choices. A letter before a full stop and a word is one: `B.Paris`.
        '.' => {
            let is_abbreviation = rest.next() == Some('.') && before_word;
            !is_abbreviation && !second.is_some_and(|second| second.is_ascii_digit())
        }
        ' ' | '\t' => can_follow_answer(letter, after.trim_start_matches([' ', '\t'])),
        // A letter before Chinese or Japanese text is separate; before Latin or Cyrillic text it is part of a word.
        other => !other.is_alphanumeric() || other >= '\u{2e80}',
    }
}

/// Whether the text after a letter and a space can follow an answer. An article is followed by its noun, and a variable
/// by an operator.
fn can_follow_answer(letter: char, rest: &str) -> bool {
    const AFTER_AN_ANSWER: [&str; 10] =
        ["as", "based", "because", "but", "due", "given", "since", "which", "while", "according"];
    let word: String = rest.chars().take_while(|character| character.is_alphanumeric()).collect();
    if word.is_empty() {
        return !rest.starts_with(['=', '+', '/', '^', '<', '>', '×']);
    }
    AFTER_AN_ANSWER.contains(&word.to_lowercase().as_str()) || matches!(letter, 'B'..='H' | 'J'..='Z')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_is_found_in_real_responses() {
        for (response, expected) in [
            ("B", "B"),
            ("b", "B"),
            (" B\n", "B"),
            ("(B)", "B"),
            ("B.", "B"),
            ("B) Paris", "B"),
            ("B. Paris", "B"),
            ("B.Paris", "B"),
            ("B: Paris", "B"),
            ("**B**", "B"),
            ("**B. Paris**", "B"),
            ("\"B\"", "B"),
            ("$B$", "B"),
            ("B because it is the capital", "B"),
            ("B - Paris", "B"),
            ("A", "A"),
            ("A.", "A"),
            ("A) A dog", "A"),
            ("Answer: B", "B"),
            ("Answer: A", "A"),
            ("**Answer:** B", "B"),
            ("**Answer**: (C) Paris", "C"),
            ("Answer - see below.\n\nB", "B"),
            ("### Answer\nC", "C"),
            ("The answer is (b)", "B"),
            ("the answer is b.", "B"),
            ("The answer is A because dogs bark.", "A"),
            ("The correct answer is option C.", "C"),
            ("The correct answer is: \n\n**D**", "D"),
            ("The answer to this question is B, as shown.", "B"),
            ("The correct choice would be (D) since", "D"),
            ("The best option is C", "C"),
            ("The right answer is therefore C.", "C"),
            ("I think the answer is most likely B", "B"),
            (r"\text{Answer: } B", "B"),
            ("<think>The answer is A... no</think>\n\nThe answer is **D**.", "D"),
            ("A or B? I'd go with B.", "B"),
            ("Final answer: \\boxed{B}", "B"),
            (r"Thus \(\boxed{\text{C}}\).", "C"),
            (r"$\boxed{\textbf{(D)}\ 42}$", "D"),
            ("The answer is A. Wait, no. The answer is C.", "C"),
            ("If the answer is A, x = 2, which is false. So the answer is D", "D"),
            ("The answer is not A, it is B", "B"),
            ("The answer can't be A. The answer is B.", "B"),
            ("B\n\nExplanation: option A is correct only in summer.", "B"),
            ("Let me think. A is wrong.\n\nC", "C"),
            ("A. Lyon: no\nB. Paris: yes\nSo B is correct.", "B"),
            ("I would choose C.", "C"),
            ("After some thought it must be D.", "D"),
            ("Paris is the capital, so (B).", "B"),
            ("答案是B", "B"),
            ("答案：C。", "C"),
            ("正确答案是 D 因为", "D"),
            ("Respuesta: B", "B"),
        ] {
            assert_eq!(choose(response).map(String::from).as_deref(), Some(expected), "{response}");
        }
    }

    #[test]
    fn other_letters_are_not_choices() {
        for response in [
            "",
            "A dog is an animal.",
            "The answer is a dog.",
            "Answer: A dog",
            "The answer is I think unclear",
            "I am not sure.",
            "I'm not sure.",
            "D'Alembert",
            "E = mc^2",
            "The answer is B-cells.",
            "The answer is e.g. a cell",
            "The answer is C++",
            "The answer is both A and B",
            "The answer is A and B.",
            "The answer is (A) or (C)",
            "Answer: A, B, and C",
            "Answer: A/B",
            "Vitamin C is good.",
            "Both (A) and (B) look right",
            "The answer is definitely not C.",
            "None of the options is correct.",
            "Paris",
            "42",
            "é",
        ] {
            assert_eq!(choose(response), None, "{response}");
        }
    }

    #[test]
    fn the_choice_is_compared_with_the_answer() {
        for (answer, response, correct) in [
            ("B", "The answer is (b)", Some(true)),
            ("(B)", "B", Some(true)),
            ("b", "B. Paris", Some(true)),
            ("B. Paris", "C", Some(false)),
            ("B", "no idea", Some(false)),
            ("A", "A dog", Some(false)),
            ("", "B", None),
            ("Paris", "B", None),
        ] {
            assert_eq!(grade(answer, response).correct, correct, "{answer}|{response}");
        }
        assert_eq!(grade("B", "(c)").extracted.as_deref(), Some("C"));
    }
}
