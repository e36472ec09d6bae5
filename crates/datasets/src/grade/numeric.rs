//! The grader `numeric` compares the final number of a response with the final number of the answer.
//!
//! The grader looks for the final number in this order: in the last `\boxed{...}`; after the last `####` (as in GSM8K);
//! in the last statement (`the answer is ...`); else it is the last number of the text. In the first three cases it is
//! the number after the last `=`, or the first number if there is no `=`.

use std::fmt;
use std::sync::LazyLock;

use regex::Regex;

use super::number::{Number, numbers, tidy};
use super::statement::{boxed, compile, statements};
use super::{Grade, GraderError};

/// The largest accepted difference from the answer.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Tolerance {
    /// No difference; fractions and long decimals are compared to nine digits.
    #[default]
    None,
    /// An absolute difference.
    Absolute(f64),
    /// A percentage of the answer.
    Percent(f64),
}

impl Tolerance {
    pub(super) fn parse(parameter: Option<&str>) -> Result<Self, GraderError> {
        let Some(text) = parameter else { return Ok(Self::None) };
        let (number, variant): (&str, fn(f64) -> Self) = match text.trim().strip_suffix('%') {
            Some(number) => (number, Self::Percent),
            None => (text, Self::Absolute),
        };
        match number.trim().parse::<f64>() {
            Ok(size) if size.is_finite() && size >= 0.0 => Ok(variant(size)),
            _ => Err(GraderError::Tolerance { text: text.to_owned() }),
        }
    }

    pub(super) fn fmt_parameter(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::Absolute(size) => write!(f, ":{size}"),
            Self::Percent(size) => write!(f, ":{size}%"),
        }
    }

    fn allows(self, answer: f64, found: f64) -> bool {
        let difference = (answer - found).abs();
        // The bound is slightly larger than the tolerance, because 3.14 - 3.13 is slightly more than 0.01 in binary.
        match self {
            Self::None => difference <= 1e-9 * answer.abs().max(found.abs()),
            Self::Absolute(size) => difference <= size + 1e-12 * answer.abs(),
            Self::Percent(size) => difference <= size / 100.0 * answer.abs() * (1.0 + 1e-9),
        }
    }

    fn accepts(self, answer: &Number, found: &Number) -> bool {
        // Whole numbers are compared as integers, because floats cannot distinguish long ones.
        let is_same = match (self, answer.integer, found.integer) {
            (Self::None, Some(answer), Some(found)) => answer == found,
            _ => self.allows(answer.value, found.value),
        };
        // 50% equals 50, for answers without the percent sign, and 0.5.
        is_same
            || match (answer.is_percent, found.is_percent) {
                (true, false) => self.allows(answer.value / 100.0, found.value),
                (false, true) => self.allows(answer.value, found.value / 100.0),
                (true, true) | (false, false) => false,
            }
    }
}

pub(super) fn grade(tolerance: Tolerance, answer: &str, response: &str) -> Grade {
    let (answer, found) = (final_number(answer), final_number(response));
    let correct = answer.map(|answer| found.as_ref().is_some_and(|found| tolerance.accepts(&answer, found)));
    Grade::new(found.map(|found| if found.is_percent { format!("{}%", found.text) } else { found.text }), correct)
}

fn final_number(text: &str) -> Option<Number> {
    static NOUN: LazyLock<Regex> =
        LazyLock::new(|| compile(r"(?i)\b(?:answer|respuesta|réponse|antwort)\b|答案|正解|答え"));
    let text = tidy(text);
    let in_box = || boxed(&text).into_iter().find_map(stated);
    let after_mark = || text.rsplit_once("####").and_then(|(_, after)| stated(first_line(after)));
    let in_statement = || {
        // The first verb after the last noun that is followed by a number.
        let found = statements(&text, &NOUN);
        let numbers = found.iter().filter_map(|statement| Some((statement.noun, stated(sentence(statement.text))?)));
        let mut last: Option<(usize, Number)> = None;
        for (noun, number) in numbers {
            if last.as_ref().is_none_or(|(before, _)| *before != noun) {
                last = Some((noun, number));
            }
        }
        last.map(|(_, number)| number)
    };
    in_box().or_else(after_mark).or_else(in_statement).or_else(|| numbers(&text).pop())
}

/// The number of a statement: the number after its last `=`, or its first number.
fn stated(text: &str) -> Option<Number> {
    let first = |text: &str| numbers(text).into_iter().next();
    text.rsplit('=').find_map(first)
}

fn first_line(text: &str) -> &str {
    text.trim_start().split('\n').next().unwrap_or_default()
}

/// The text up to the end of its first line or first sentence: a punctuation mark before white space.
fn sentence(text: &str) -> &str {
    let line = first_line(text.trim_start_matches(['*', '_', ' ', '\n', '\r']));
    let end = line
        .match_indices(['.', '?', '!', ';'])
        .map(|(place, _)| place)
        .find(|place| line[place + 1..].chars().next().is_none_or(char::is_whitespace));
    &line[..end.unwrap_or(line.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_final_number_is_found_in_real_responses() {
        for (response, expected) in [
            ("42", "42"),
            ("The answer is 42.", "42"),
            ("The answer is 42. I checked it in 3 ways.", "42"),
            ("First 12 + 30 = 42.\n#### 42", "42"),
            ("She has 16 - 3 - 4 = <<16-3-4=9>>9 eggs. She makes 9 * 2 = $18.\n#### 18\n\nDone in 2 steps", "18"),
            (r"Hence $\boxed{\frac{3}{4}}$ of 100", "3/4"),
            (r"\boxed{12 \text{ m}^2}", "12"),
            (r"\boxed{x = 42}", "42"),
            (r"\[ \boxed{1{,}234} \]", "1234"),
            (r"\boxed{x} so x is 7", "7"),
            ("**Answer:** 1,234,567", "1234567"),
            ("**Final Answer**\n\n$1,234.50", "1234.50"),
            ("Answer:\n\n42", "42"),
            ("The answer is 3 + 4 = 7 apples", "7"),
            ("The answer to question 3 is 17", "17"),
            ("The answer isn't 5. It's 6", "6"),
            ("My first answer was 5. The correct answer is 6, not 7.", "6"),
            ("It takes 2 hours and costs \u{2212}3.5 dollars", "-3.5"),
            ("About 37.5% of them", "37.5%"),
            ("Step 1: add.\nStep 2: so we get 10", "10"),
            ("答案是42。", "42"),
        ] {
            let extracted = grade(Tolerance::None, "1", response).extracted;
            assert_eq!(extracted.as_deref(), Some(expected), "{response}");
        }
        assert_eq!(grade(Tolerance::None, "1", "I do not know."), Grade::new(None, Some(false)));
    }

    #[test]
    fn numbers_are_compared_within_the_tolerance() {
        let tolerance = |text: &str| Tolerance::parse((!text.is_empty()).then_some(text)).unwrap();
        for (within, answer, response, correct) in [
            ("", "42", "42.0", Some(true)),
            ("", "42", "43", Some(false)),
            ("", "0.75", "3/4", Some(true)),
            ("", "1/3", "0.333", Some(false)),
            ("", "1234", "$1,234.00", Some(true)),
            ("", "12345678901", "12345678902", Some(false)),
            ("", "9007199254740993", "9007199254740992", Some(false)),
            ("", "0", "-0", Some(true)),
            ("", "50%", "0.5", Some(true)),
            ("", "50", "50%", Some(true)),
            ("", "0.5", "50%", Some(true)),
            ("", "50%", "5", Some(false)),
            ("", "6e23", "6 × 10^23", Some(true)),
            ("", "He pays 3 * 6 = 18\n#### 18", "18", Some(true)),
            ("", "", "42", None),
            ("", "forty", "42", None),
            ("0.01", "3.14", "3.13", Some(true)),
            ("0.01", "3.14", "3.1299", Some(false)),
            ("0", "3", "3", Some(true)),
            ("1%", "200", "202", Some(true)),
            ("1%", "200", "203", Some(false)),
            ("1%", "-200", "-198", Some(true)),
            ("1%", "0", "0.001", Some(false)),
        ] {
            assert_eq!(grade(tolerance(within), answer, response).correct, correct, "{within}|{answer}|{response}");
        }
    }

    #[test]
    fn a_tolerance_is_a_number_of_at_least_zero() {
        for text in ["", "-1", "nan", "inf", "1%%", "x", "%"] {
            assert!(matches!(Tolerance::parse(Some(text)), Err(GraderError::Tolerance { .. })), "{text}");
        }
        assert_eq!(Tolerance::parse(Some(" 2.5 %")).unwrap(), Tolerance::Percent(2.5));
    }
}
