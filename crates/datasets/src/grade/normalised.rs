//! The grader `normalised` compares texts without case, articles, white space and surrounding punctuation.
//!
//! It follows the evaluation script of `SQuAD` (Rajpurkar and others, 2016): lower case, without articles, white space
//! collapsed. Punctuation inside the text stays, because it carries meaning (3.14 is not 314).

use super::Grade;

const ARTICLES: [&str; 3] = ["a", "an", "the"];

pub(super) fn grade(answer: &str, response: &str) -> Grade {
    let (answer, response) = (normalise(answer), normalise(response));
    let correct = (!answer.is_empty()).then(|| answer == response);
    Grade::new((!response.is_empty()).then_some(response), correct)
}

/// The text in the form in which it is compared.
fn normalise(text: &str) -> String {
    let lower = text.to_lowercase();
    let words: Vec<&str> = strip(&lower).split_whitespace().collect();
    let kept: Vec<&str> = words.iter().copied().filter(|word| !ARTICLES.contains(word)).collect();
    // A text of articles only is kept, because "A" can be an answer.
    if kept.is_empty() { words.join(" ") } else { strip(&kept.join(" ")).to_owned() }
}

/// Strips punctuation around a text, but keeps the sign and the decimal point of a number: neither `-5` nor `.5` is 5.
fn strip(text: &str) -> &str {
    let ends = text.trim_end_matches(|last: char| last.is_whitespace() || is_punctuation(last));
    let is_part = |place: usize| {
        let rest = &ends[place..];
        rest.starts_with(['.', '-']) && rest[1..].starts_with(|next: char| next.is_ascii_digit() || next == '.')
    };
    let outside =
        |(place, first): &(usize, char)| (first.is_whitespace() || is_punctuation(*first)) && !is_part(*place);
    let start = ends.char_indices().find(|character| !outside(character)).map_or(ends.len(), |(place, _)| place);
    &ends[start..]
}

/// Whether a character is a quote, a bracket, a punctuation mark or markup.
fn is_punctuation(character: char) -> bool {
    matches!(
        character,
        '.' | ','
            | ';'
            | ':'
            | '!'
            | '?'
            | '\''
            | '"'
            | '`'
            | '*'
            | '_'
            | '~'
            | '-'
            | '('
            | ')'
            | '['
            | ']'
            | '{'
            | '}'
            | '‘'
            | '’'
            | '‚'
            | '“'
            | '”'
            | '„'
            | '«'
            | '»'
            | '‹'
            | '›'
            | '¿'
            | '¡'
            | '…'
            | '–'
            | '—'
            | '、'
            | '。'
            | '，'
            | '！'
            | '？'
            | '：'
            | '；'
            | '「'
            | '」'
            | '『'
            | '』'
            | '（'
            | '）'
            | '《'
            | '》'
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn case_articles_spaces_and_surrounding_punctuation_are_ignored() {
        for (answer, response, correct) in [
            ("Paris", "paris", Some(true)),
            ("Paris", " Paris.\n", Some(true)),
            ("Paris", "**Paris**", Some(true)),
            ("Paris", "“Paris!”", Some(true)),
            ("the Eiffel Tower", "Eiffel  tower", Some(true)),
            ("Eiffel Tower", "\"The Eiffel Tower\".", Some(true)),
            ("an apple a day", "Apple day", Some(true)),
            ("A", "a.", Some(true)),
            ("A", "the", Some(false)),
            ("ÉCOLE", "école", Some(true)),
            ("ΣΊΣΥΦΟΣ", "σίσυφος", Some(true)),
            ("東京", "「東京」。", Some(true)),
            ("3.14", "3.14.", Some(true)),
            ("3.14", "314", Some(false)),
            ("-5", "5", Some(false)),
            ("-5", "(-5)", Some(true)),
            (".5", "5", Some(false)),
            ("5%", "5", Some(false)),
            ("C++", "C", Some(false)),
            ("Paris", "Paris, France", Some(false)),
            ("Paris", "", Some(false)),
            ("", "Paris", None),
            ("...", "Paris", None),
        ] {
            assert_eq!(grade(answer, response).correct, correct, "{answer}|{response}");
        }
        assert_eq!(grade("x", "The **Answer**!").extracted.as_deref(), Some("answer"));
    }

    proptest! {
        #[test]
        fn upper_case_quotes_and_spaces_do_not_change_the_normalised_text(text in "[a-zA-Z0-9 ]{1,20}") {
            let dressed = format!(" \"{}\".", text.to_uppercase());
            prop_assert_eq!(normalise(&dressed), normalise(&text));
        }
    }
}
