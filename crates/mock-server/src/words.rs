//! Tokenizes text into words and generates random words.
//!
//! A word with the white space before it is one token, so the tokens of a text join to the text.

/// The words of random answers.
const WORDS: [&str; 64] = [
    "river", "stone", "light", "field", "cloud", "north", "seven", "paper", "glass", "water", "green", "house",
    "train", "apple", "bread", "chair", "dance", "eagle", "flame", "grain", "heart", "ivory", "jewel", "knife",
    "lemon", "metal", "night", "ocean", "piano", "quiet", "robin", "sugar", "tiger", "uncle", "valve", "wheat",
    "youth", "zebra", "amber", "beach", "candy", "delta", "earth", "frost", "globe", "honey", "index", "juice",
    "koala", "lunar", "maple", "noble", "olive", "pearl", "quilt", "radio", "salad", "table", "ultra", "vivid",
    "wagon", "xenon", "yacht", "zesty",
];

/// The tokens of a text. White space at the end belongs to the last token.
pub(crate) fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut start = 0;
    let mut in_word = false;
    for (at, character) in text.char_indices() {
        let is_space = character.is_whitespace();
        if in_word && is_space {
            tokens.push(&text[start..at]);
            start = at;
        }
        in_word = !is_space;
    }
    if in_word {
        tokens.push(&text[start..]);
    } else if let Some(last) = tokens.last_mut() {
        *last = &text[start - last.len()..];
    }
    tokens
}

/// The number of tokens of a text.
pub(crate) fn count(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

/// The id of a token: the same for the same word.
pub(crate) fn id(token: &str) -> u32 {
    // FNV-1a, cut to 17 bits: the size of a typical vocabulary.
    token.trim().bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
        & 0x1_ffff
}

/// The word at this position of a random text.
pub(crate) fn random_word(seed: u64, position: u64) -> &'static str {
    let mut random = fastrand::Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(position));
    WORDS[random.usize(..WORDS.len())]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_keep_their_spaces() {
        assert_eq!(tokens("the  answer is\n42. "), ["the", "  answer", " is", "\n42. "]);
        assert_eq!(tokens(" a"), [" a"]);
        assert!(tokens(" ").is_empty());
    }

    proptest! {
        #[test]
        fn tokens_join_to_the_text(text in "[ \n\u{e9}a-c]{0,40}") {
            let tokens = tokens(&text);
            prop_assert_eq!(tokens.len() as u64, count(&text));
            if !tokens.is_empty() {
                prop_assert_eq!(tokens.concat(), text);
            }
        }

        #[test]
        fn random_words_are_repeatable(seed: u64, position in 0..1000u64) {
            prop_assert_eq!(random_word(seed, position), random_word(seed, position));
            prop_assert_eq!(count(random_word(seed, position)), 1);
        }
    }
}
