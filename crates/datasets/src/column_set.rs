//! The columns of a table, in the order in which they first appear.

use std::collections::HashSet;

use ergometer_diagnostics::{Hint, Message};

/// The most columns of a table. A dataset whose keys are ids has a column for each.
const MOST: usize = 100_000;

/// Columns without repetition.
#[derive(Debug, Default)]
pub(super) struct ColumnSet {
    names: Vec<String>,
    known: HashSet<String>,
}

impl ColumnSet {
    /// Adds a column, and returns whether it is new.
    pub(super) fn insert(&mut self, name: &str) -> Result<bool, Message> {
        if self.known.contains(name) {
            return Ok(false);
        }
        if self.names.len() == MOST {
            let hint = Hint::text("store rarely used fields in one column, as a JSON object");
            return Err(Message::new(format!("there are more than {MOST} different columns")).with_hint(hint));
        }
        self.known.insert(name.to_owned());
        self.names.push(name.to_owned());
        Ok(true)
    }

    /// Adds the columns of a row.
    pub(super) fn add<'a>(&mut self, mut names: impl Iterator<Item = &'a String>) -> Result<(), Message> {
        names.try_for_each(|name| self.insert(name).map(drop))
    }

    /// The names.
    pub(super) fn into_names(self) -> Vec<String> {
        self.names
    }
}

#[cfg(test)]
mod tests {
    use ergometer_diagnostics::{CommandLine, Diagnostic as _};

    use super::*;

    /// It takes minutes if each name is compared with all others.
    #[test]
    fn many_columns_are_kept_in_order_up_to_the_limit() {
        let names: Vec<String> = (0..MOST).map(|number| format!("column {number}")).collect();
        let mut columns = ColumnSet::default();
        for _ in 0..3 {
            columns.add(names.iter()).unwrap();
        }
        let error = columns.insert("one more").unwrap_err().one_line(&CommandLine);
        assert!(error.starts_with("there are more than 100000 different columns. hint: store rarely"), "{error}");
        assert_eq!(columns.into_names(), names);
    }
}
