//! Tokens to text as they come: each token goes in, the text that it adds comes out.
//!
//! A character may span tokens, so text whose end may still change is held back until it cannot. The pieces joined are
//! what the tokenizer makes of all tokens at once. (One exception is the tokenizer's own: with byte fallback, a stray
//! byte after a whole character takes that character back, and it has been handed out by then.)

use std::error::Error;

use crate::tokenizer::Tokenizer;

/// Tokens in the window that is decoded at each step, before it moves on.
const WINDOW: usize = 16;
/// Marks at the end of a text that may still become a character: one lacks at most three of its bytes.
const OPEN_MARKS: usize = 3;

/// The text of a growing list of tokens.
pub(crate) struct Detokenizer<'a> {
    tokenizer: &'a Tokenizer,
    /// Tokens from the start of the window on. It starts where a character does, and holds text: decoders treat the
    /// beginning of a text in their own way, and it must not be taken for one.
    window: Vec<u32>,
    /// Bytes of the window's text that were handed out.
    handed_out: usize,
    /// Tokens of the window up to which the text was whole when it was last whole.
    whole: usize,
}

impl<'a> Detokenizer<'a> {
    pub(crate) fn new(tokenizer: &'a Tokenizer) -> Self {
        Self { tokenizer, window: Vec::new(), handed_out: 0, whole: 0 }
    }

    /// Takes a token and gives the text that is certain now and was not before.
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

    /// Gives what was held back, since no token follows.
    pub(crate) fn finish(&mut self) -> Result<String, Box<dyn Error + Send + Sync>> {
        let text = self.tokenizer.decode(&self.window)?;
        let rest = text.get(self.handed_out..).unwrap_or_default().to_owned();
        self.handed_out = text.len();
        Ok(rest)
    }
}

/// The length of the text without the replacement characters at its end that may still become something else.
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
    fn a_character_comes_with_its_last_token() {
        let tokens: Vec<u32> = "a€b".bytes().map(u32::from).collect();
        assert_eq!(pieces(&tokenizer(), &tokens), ["a", "", "", "€", "b", ""]);
    }

    #[test]
    fn what_is_not_a_character_becomes_a_mark_at_the_end() {
        assert_eq!(pieces(&tokenizer(), &[97, 0xE2, 0x82]), ["a", "", "", "\u{FFFD}"]);
        assert_eq!(
            pieces(&tokenizer(), &[0xFF, 97, 257]),
            ["", "\u{FFFD}a", "", ""],
            "and the special token is no text"
        );
    }

    #[test]
    fn decoders_that_strip_the_beginning_keep_the_spaces_between() {
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
        fn the_pieces_joined_are_the_whole(bytes in proptest::collection::vec(
            prop_oneof![0_u32..260, 0x80_u32..0xC0, Just(0xE2), Just(0xF0), Just(0x41)], 0..80)) {
            let tokenizer = tokenizer();
            prop_assert_eq!(pieces(&tokenizer, &bytes).concat(), tokenizer.decode(&bytes).unwrap());
        }

        #[test]
        fn text_comes_back(text in "\\PC{0,40}") {
            let tokens: Vec<u32> = text.bytes().map(u32::from).collect();
            prop_assert_eq!(pieces(&tokenizer(), &tokens).concat(), text);
        }
    }
}
