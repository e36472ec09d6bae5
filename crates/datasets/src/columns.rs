//! Chooses the columns for problem, answer and subject.
//!
//! A column that the user names must exist. Otherwise the usual names of [`PROBLEM`], [`ANSWER`] and [`SUBJECT`] are
//! tried in order, and no column is used twice. The choice is kept with the run, so that no guess is silent.

use std::fmt;

use ergometer_diagnostics::{Hint, Message, hint, option};
use serde::{Deserialize, Serialize};

use super::error::columns_hint;

/// Usual names of the column with the prompt.
pub(super) const PROBLEM: &[&str] = &["problem", "question", "prompt", "instruction", "input", "query", "text"];
/// Usual names of the column with the reference answer.
pub(super) const ANSWER: &[&str] = &["answer", "target", "solution", "output", "response", "label"];
/// Usual names of the column with the subject.
pub(super) const SUBJECT: &[&str] = &["subject", "category", "topic", "type"];

/// The columns that the user named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ColumnNames {
    /// The column with the prompt.
    pub(super) problem: Option<String>,
    /// The column with the reference answer.
    pub(super) answer: Option<String>,
    /// The column with the subject.
    pub(super) subject: Option<String>,
    /// The column with the maximum tokens of the answer, which is never guessed.
    pub(super) output_tokens: Option<String>,
}

/// A chosen column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Whether the user named it, so that every row must have it.
    pub is_named: bool,
}

/// The chosen columns. All others become metadata.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Columns {
    /// The column with the prompt.
    pub problem: Column,
    /// The column with the reference answer.
    pub answer: Option<Column>,
    /// The column with the subject.
    pub subject: Option<Column>,
    /// The column with the maximum tokens of the answer, if the user named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<Column>,
}

impl ColumnNames {
    /// Chooses columns of a table, or returns which one is missing.
    pub(super) fn resolve(&self, there: &[String]) -> Result<Columns, Message> {
        let named = [&self.problem, &self.answer, &self.subject, &self.output_tokens];
        let mut taken: Vec<&str> = named.into_iter().flatten().map(String::as_str).collect();
        let mut choose = |role: &str, named: Option<&String>, usual: &'static [&'static str]| {
            if let Some(name) = named {
                let is_there = there.contains(name);
                return if is_there {
                    Ok(Some(Column { name: name.clone(), is_named: true }))
                } else {
                    Err(missing(name, role, there))
                };
            }
            let found = usual.iter().find(|name| there.iter().any(|column| column == *name) && !taken.contains(name));
            taken.extend(found);
            Ok(found.map(|name| Column { name: (*name).to_owned(), is_named: false }))
        };
        let problem = choose("problem", self.problem.as_ref(), PROBLEM)?;
        Ok(Columns {
            problem: problem.ok_or_else(|| {
                let text = format!("no column with the prompt (tried {})", PROBLEM.join(", "));
                Message::new(text).with_hint(choice_hint("problem", there))
            })?,
            answer: choose("answer", self.answer.as_ref(), ANSWER)?,
            subject: choose("subject", self.subject.as_ref(), SUBJECT)?,
            output_tokens: choose("output_tokens", self.output_tokens.as_ref(), &[])?,
        })
    }
}

impl Default for Columns {
    fn default() -> Self {
        let column = |name: &str| Column { name: name.to_owned(), is_named: false };
        Self {
            problem: column("problem"),
            answer: Some(column("answer")),
            subject: Some(column("subject")),
            output_tokens: None,
        }
    }
}

/// The columns whose name differs from their role: `problem=question, answer=target`.
impl fmt::Display for Columns {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let optional = [("answer", &self.answer), ("subject", &self.subject), ("output_tokens", &self.output_tokens)];
        let all = std::iter::once(("problem", Some(&self.problem)))
            .chain(optional.into_iter().map(|(role, column)| (role, column.as_ref())));
        let mapped: Vec<String> = all
            .filter_map(|(role, column)| column.filter(|column| column.name != role).map(|column| (role, column)))
            .map(|(role, column)| format!("{role}={}", column.name))
            .collect();
        formatter.write_str(&mapped.join(", "))
    }
}

/// The error for a missing column, with the columns that exist.
pub(super) fn missing(column: &str, role: &str, there: &[String]) -> Message {
    if role == column {
        return Message::new(format!("no column `{column}`")).with_hint(choice_hint(role, there));
    }
    let role = if role == "problem" { "prompt" } else { role };
    Message::new(format!("no column `{column}` for the {role}")).with_hint(columns_hint(there))
}

/// The columns that exist, and the option that chooses one.
fn choice_hint(role: &str, there: &[String]) -> Hint {
    columns_hint(there).and(hint!("choose one with ", option("dataset-param").value(format!("{role}=COLUMN"))))
}

#[cfg(test)]
mod tests {
    use ergometer_diagnostics::{CommandLine, Diagnostic as _};

    use super::*;

    fn there(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn usual_names_are_tried_in_order_and_used_once() {
        let columns = ColumnNames::default().resolve(&there(&["text", "label", "question", "type"])).unwrap();
        assert_eq!(columns.to_string(), "problem=question, answer=label, subject=type");
        let names = ColumnNames { problem: Some(String::from("answer")), ..ColumnNames::default() };
        let columns = names.resolve(&there(&["problem", "answer", "output"])).unwrap();
        assert_eq!(columns.to_string(), "problem=answer, answer=output");
        assert_eq!(Columns::default().to_string(), "");
    }

    #[test]
    fn named_columns_must_exist() {
        let names = ColumnNames { answer: Some(String::from("gold")), ..ColumnNames::default() };
        let error = names.resolve(&there(&["problem", "answer"])).unwrap_err().one_line(&CommandLine);
        assert_eq!(error, "no column `gold` for the answer. hint: the columns are problem, answer");
        let error = ColumnNames::default().resolve(&there(&["a"])).unwrap_err().one_line(&CommandLine);
        assert!(error.contains("choose one with --dataset-param problem=COLUMN"), "{error}");
    }
}
