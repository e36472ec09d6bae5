//! Decodes a stream of tokens to text, one token at a time.
//!
//! A character may span several tokens, so the text at the end is held back while it can still change. The pieces
//! joined equal the text of all tokens decoded at once. The one exception comes from the tokenizer: with byte fallback,
//! a stray byte after a complete character removes that character, which has already been handed out.

use std::error::Error;

use crate::tokenizer::Tokenizer;

/// The window of tokens decoded at each step moves on when it has this many tokens.
const WINDOW: usize = 16;
/// The maximum number of replacement characters at the end that can still become a character: an incomplete character
/// has at most three bytes.
const OPEN_MARKS: usize = 3;

/// Decodes tokens one at a time.
pub(crate) struct Detokenizer<'a> {
    tokenizer: &'a Tokenizer,
    /// The latest tokens. The window starts at the start of a character and always contains text that was handed out,
    /// because decoders treat the beginning of a text differently.
    window: Vec<u32>,
    /// Bytes of the window's text that were handed out.
    handed_out: usize,
    /// The number of tokens in the window when its text last ended with a complete character.
    whole: usize,
}

impl<'a> Detokenizer<'a> {
    pub(crate) fn new(tokenizer: &'a Tokenizer) -> Self {
        Self { tokenizer, window: Vec::new(), handed_out: 0, whole: 0 }
    }

    /// Adds a token and returns the text that it completes.
    pub(crate) fn push(&mut self, token: u32) -> Result<String, Box<dyn Error + Send + Sync>> {
        self.window.push(token);
        let text = self.tokenizer.decode(&self.window)?;
        let certain = certain_length(&text);
        let piece = text.get(self.handed_out..certain).unwrap_or_default().to_owned();
        self.handed_out = self.handed_out.max(certain);
        if certain == text.len() && !piece.is_empty() {
            if self.window.len() >= WINDOW {
                self.window.drain(..self.whole);
                self.handed_out = self.tokenizer.decode(&self.window)?.len();
            }
            self.whole = self.window.len();
        }
        Ok(piece)
    }

    /// Returns the text held back, after the last token.
    pub(crate) fn finish(&mut self) -> Result<String, Box<dyn Error + Send + Sync>> {
        let text = self.tokenizer.decode(&self.window)?;
        let rest = text.get(self.handed_out..).unwrap_or_default().to_owned();
        self.handed_out = text.len();
        Ok(rest)
    }
}

/// The length of the text without trailing replacement characters that can still become a character.
fn certain_length(text: &str) -> usize {
    let marks = text.chars().rev().take(OPEN_MARKS).take_while(|&letter| letter == char::REPLACEMENT_CHARACTER);
    text.len() - marks.map(char::len_utf8).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::Demo;
    use proptest::prelude::*;

    fn tokenizer() -> Tokenizer {
        Tokenizer::load(&Demo::Tiny.files().tokenizer).unwrap()
    }

    fn pieces(tokenizer: &Tokenizer, tokens: &[u32]) -> Vec<String> {
        let mut text = Detokenizer::new(tokenizer);
        let mut pieces: Vec<String> = tokens.iter().map(|&token| text.push(token).unwrap()).collect();
        pieces.push(text.finish().unwrap());
        pieces
    }

    #[test]
    fn a_character_is_returned_with_its_last_token() {
        let tokens: Vec<u32> = "a€b".bytes().map(u32::from).collect();
        assert_eq!(pieces(&tokenizer(), &tokens), ["a", "", "", "€", "b", ""]);
    }

    #[test]
    fn an_incomplete_character_becomes_a_replacement_character_at_the_end() {
        assert_eq!(pieces(&tokenizer(), &[97, 0xE2, 0x82]), ["a", "", "", "\u{FFFD}"]);
        assert_eq!(pieces(&tokenizer(), &[0xFF, 97, 257]), ["", "\u{FFFD}a", "", ""], "a special token has no text");
    }

    #[test]
    fn decoders_that_strip_leading_spaces_keep_the_spaces_between_words() {
        let json = serde_json::json!({
            "version": "1.0", "added_tokens": [],
            "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true},
            "model": {"type": "BPE", "vocab": {"▁a": 0, "b": 1, "▁": 2}, "merges": []}
        });
        let file = crate::files::File { path: "t".into(), bytes: serde_json::to_vec(&json).unwrap().into() };
        let tokenizer = Tokenizer::load(&file).unwrap();
        let tokens: Vec<u32> = [0, 1, 0, 2, 2, 0].repeat(12);
        assert_eq!(pieces(&tokenizer, &tokens).concat(), tokenizer.decode(&tokens).unwrap());
        assert_eq!(pieces(&tokenizer, &tokens)[..3], ["a", "b", " a"]);
    }

    proptest! {
        #[test]
        fn the_pieces_joined_equal_the_whole_text(bytes in proptest::collection::vec(
            prop_oneof![0_u32..260, 0x80_u32..0xC0, Just(0xE2), Just(0xF0), Just(0x41)], 0..80)) {
            let tokenizer = tokenizer();
            prop_assert_eq!(pieces(&tokenizer, &bytes).concat(), tokenizer.decode(&bytes).unwrap());
        }

        #[test]
        fn decoding_restores_the_text(text in "\\PC{0,40}") {
            let tokens: Vec<u32> = text.bytes().map(u32::from).collect();
            prop_assert_eq!(pieces(&tokenizer(), &tokens).concat(), text);
        }
    }
}
