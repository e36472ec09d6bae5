//! Builds a column of texts that stores each distinct text once.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int32Array, StringArray};
use foldhash::HashMap;

/// Distinct texts and their keys.
#[derive(Default)]
pub(super) struct Dictionary {
    keys: HashMap<Box<str>, i32>,
    texts: Vec<Box<str>>,
}

impl Dictionary {
    /// The key of a text.
    pub(super) fn key(&mut self, text: &str) -> i32 {
        if let Some(&key) = self.keys.get(text) {
            return key;
        }
        let key = i32::try_from(self.texts.len()).unwrap_or(i32::MAX);
        self.keys.insert(text.into(), key);
        self.texts.push(text.into());
        key
    }

    /// A column of these keys.
    pub(super) fn column(self, keys: Int32Array) -> ArrayRef {
        let texts: StringArray = self.texts.iter().map(|text| Some(text.as_ref())).collect();
        Arc::new(DictionaryArray::<Int32Type>::new(keys, Arc::new(texts)))
    }
}
