//! Gives each section, chart and table a unique element id of letters, digits, `-` and `_`.

use std::collections::HashSet;

/// The names used so far.
#[derive(Debug, Default)]
pub(super) struct Names {
    taken: HashSet<String>,
}

impl Names {
    /// A unique name close to the preferred one.
    pub(super) fn unique(&mut self, preferred: &str) -> String {
        let plain: String =
            preferred.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')).take(64).collect();
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
    fn names_are_plain_and_unique() {
        let mut names = Names::default();
        assert_eq!(names.unique("power"), "power");
        assert_eq!(names.unique("power"), "power-2");
        assert_eq!(names.unique("pow\"><er"), "power-3");
        assert_eq!(names.unique("<>"), "unnamed");
        assert_eq!(names.unique("power-2"), "power-2-2");
    }
}
