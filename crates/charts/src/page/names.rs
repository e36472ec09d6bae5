//! Names of elements: whatever a section, chart or table is called, its name on the page is letters, digits, `-` and
//! `_`, and no two are the same.

use std::collections::HashSet;

/// The names given out so far.
#[derive(Debug, Default)]
pub(super) struct Names {
    taken: HashSet<String>,
}

impl Names {
    /// A name for something that would like to be called so.
    pub(super) fn give(&mut self, wish: &str) -> String {
        let plain: String =
            wish.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')).take(64).collect();
        let plain = if plain.is_empty() { String::from("unnamed") } else { plain };
        let mut name = plain.clone();
        let mut count = 1_u32;
        while !self.taken.insert(name.clone()) {
            count += 1;
            name = format!("{plain}-{count}");
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_differ() {
        let mut names = Names::default();
        assert_eq!(names.give("power"), "power");
        assert_eq!(names.give("power"), "power-2");
        assert_eq!(names.give("pow\"><er"), "power-3");
        assert_eq!(names.give("<>"), "unnamed");
        assert_eq!(names.give("power-2"), "power-2-2");
    }
}
