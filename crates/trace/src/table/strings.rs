//! Stores each distinct name of a trace once.

use std::sync::Arc;

use foldhash::HashMap;

/// An interned name, which is cheap to copy and compare. [`Strings`] has its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(u32);

/// The interned names of a trace.
#[derive(Debug, Clone, Default)]
pub struct Strings {
    texts: Vec<Arc<str>>,
    places: HashMap<Arc<str>, Text>,
}

impl Strings {
    /// Interns a text.
    pub(crate) fn intern(&mut self, characters: &str) -> Text {
        if let Some(&text) = self.places.get(characters) {
            return text;
        }
        let shared: Arc<str> = characters.into();
        let text = Text(super::number(self.texts.len()));
        self.texts.push(Arc::clone(&shared));
        self.places.insert(shared, text);
        text
    }

    /// The number of texts.
    pub(crate) fn count(&self) -> usize {
        self.texts.len()
    }

    /// The text of a name.
    #[must_use]
    pub fn get(&self, text: Text) -> &str {
        self.texts.get(text.0 as usize).map_or("", |characters| characters)
    }

    /// The name with this text, if the trace has it.
    #[must_use]
    pub fn find(&self, characters: &str) -> Option<Text> {
        self.places.get(characters).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_are_one() {
        let mut strings = Strings::default();
        let (first, second) = (strings.intern("gemm"), strings.intern("copy"));
        assert_eq!(strings.intern("gemm"), first);
        assert_ne!(first, second);
        assert_eq!((strings.get(first), strings.find("copy"), strings.find("none")), ("gemm", Some(second), None));
    }
}
