//! Ends an answer before the first stop text.
//!
//! Text that may be the beginning of a stop text is held back until that is decided. The stop text and everything after
//! it are not part of the answer.

/// Searches streamed text for stop texts.
pub(crate) struct StopTexts<'a> {
    texts: Vec<&'a str>,
    held: String,
}

/// The text to hand out after a piece, and whether the answer continues.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StopCheck {
    /// No stop text so far.
    Continue(String),
    /// The last text before a stop text.
    Stop(String),
}

impl<'a> StopTexts<'a> {
    pub(crate) fn new(texts: &'a [String]) -> Self {
        Self { texts: texts.iter().map(String::as_str).filter(|text| !text.is_empty()).collect(), held: String::new() }
    }

    /// Adds a piece and returns the text that is certainly not part of a stop text.
    pub(crate) fn push(&mut self, piece: String) -> StopCheck {
        if self.texts.is_empty() {
            return StopCheck::Continue(piece);
        }
        self.held.push_str(&piece);
        if let Some(start) = self.texts.iter().filter_map(|text| self.held.find(text)).min() {
            self.held.truncate(start);
            return StopCheck::Stop(self.finish());
        }
        let possible = |start: &usize| self.texts.iter().any(|text| text.starts_with(&self.held[*start..]));
        let starts = self.held.char_indices().map(|(start, _)| start);
        let certain = starts.into_iter().find(possible).unwrap_or(self.held.len());
        let rest = self.held.split_off(certain);
        StopCheck::Continue(std::mem::replace(&mut self.held, rest))
    }

    /// Returns the text held back, at the end of the answer.
    pub(crate) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(stops: &[&str], pieces: &[&str]) -> (String, bool) {
        let stops: Vec<String> = stops.iter().map(ToString::to_string).collect();
        let (mut texts, mut answer) = (StopTexts::new(&stops), String::new());
        for piece in pieces {
            match texts.push((*piece).to_owned()) {
                StopCheck::Continue(text) => answer += &text,
                StopCheck::Stop(text) => return (answer + &text, true),
            }
        }
        (answer + &texts.finish(), false)
    }

    #[test]
    fn text_ends_before_a_stop_text_split_over_pieces() {
        assert_eq!(filter(&["\n\n"], &["a\n", "\nb"]), (String::from("a"), true));
        assert_eq!(filter(&["END", "ND"], &["xE", "N", "D"]), (String::from("x"), true), "the first one counts");
        assert_eq!(filter(&["aab"], &["a", "a", "a", "b"]), (String::from("a"), true));
        assert_eq!(filter(&["é!"], &["xé", "é!"]), (String::from("xé"), true));
    }

    #[test]
    fn an_incomplete_stop_text_is_part_of_the_answer() {
        assert_eq!(filter(&["END"], &["E", "N", "E"]), (String::from("ENE"), false));
        assert_eq!(filter(&[""], &["a", "b"]), (String::from("ab"), false));
        let stops = [String::from("END")];
        let mut texts = StopTexts::new(&stops);
        assert_eq!(texts.push(String::from("aE")), StopCheck::Continue(String::from("a")));
        assert_eq!(texts.push(String::from("x")), StopCheck::Continue(String::from("Ex")));
    }
}
