//! Stop texts: pieces of text go in, and come out as long as they are no part of one.
//!
//! Text that may be the beginning of a stop text is held back until it is one or cannot be. A stop text is no part of
//! the answer, and nothing after it is.

/// Looks for stop texts in a stream.
pub(crate) struct StopTexts<'a> {
    texts: Vec<&'a str>,
    held: String,
}

/// What became of a piece.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    /// This text is certain; more may come.
    More(String),
    /// This text is the last, and a stop text follows it.
    Stopped(String),
}

impl<'a> StopTexts<'a> {
    pub(crate) fn new(texts: &'a [String]) -> Self {
        Self { texts: texts.iter().map(String::as_str).filter(|text| !text.is_empty()).collect(), held: String::new() }
    }

    /// Takes a piece and gives the text that is certain.
    pub(crate) fn push(&mut self, piece: String) -> Passed {
        if self.texts.is_empty() {
            return Passed::More(piece);
        }
        self.held.push_str(&piece);
        if let Some(start) = self.texts.iter().filter_map(|text| self.held.find(text)).min() {
            self.held.truncate(start);
            return Passed::Stopped(self.finish());
        }
        let possible = |start: &usize| self.texts.iter().any(|text| text.starts_with(&self.held[*start..]));
        let starts = self.held.char_indices().map(|(start, _)| start);
        let certain = starts.into_iter().find(possible).unwrap_or(self.held.len());
        let rest = self.held.split_off(certain);
        Passed::More(std::mem::replace(&mut self.held, rest))
    }

    /// Gives what was held back, since nothing follows.
    pub(crate) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(stops: &[&str], pieces: &[&str]) -> (String, bool) {
        let stops: Vec<String> = stops.iter().map(ToString::to_string).collect();
        let (mut texts, mut passed) = (StopTexts::new(&stops), String::new());
        for piece in pieces {
            match texts.push((*piece).to_owned()) {
                Passed::More(text) => passed += &text,
                Passed::Stopped(text) => return (passed + &text, true),
            }
        }
        (passed + &texts.finish(), false)
    }

    #[test]
    fn text_ends_before_a_stop_text_however_it_is_cut() {
        assert_eq!(pass(&["\n\n"], &["a\n", "\nb"]), (String::from("a"), true));
        assert_eq!(pass(&["END", "ND"], &["xE", "N", "D"]), (String::from("x"), true), "the first one counts");
        assert_eq!(pass(&["aab"], &["a", "a", "a", "b"]), (String::from("a"), true));
        assert_eq!(pass(&["é!"], &["xé", "é!"]), (String::from("xé"), true));
    }

    #[test]
    fn text_that_only_looks_like_one_comes_out() {
        assert_eq!(pass(&["END"], &["E", "N", "E"]), (String::from("ENE"), false));
        assert_eq!(pass(&[""], &["a", "b"]), (String::from("ab"), false));
        let stops = [String::from("END")];
        let mut texts = StopTexts::new(&stops);
        assert_eq!(texts.push(String::from("aE")), Passed::More(String::from("a")));
        assert_eq!(texts.push(String::from("x")), Passed::More(String::from("Ex")));
    }
}
