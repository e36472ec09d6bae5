//! Which column is what. What the user named and the columns there are go in; the columns that are taken come out.
//!
//! A column the user names must be there. Where none is named, the usual names are tried, in the order of [`PROBLEM`],
//! [`ANSWER`] and [`SUBJECT`]; no column is taken twice. What was taken is kept, so that no guess is silent.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where what is asked usually stands.
pub(super) const PROBLEM: &[&str] = &["problem", "question", "prompt", "instruction", "input", "query", "text"];
/// Where what is right usually stands.
pub(super) const ANSWER: &[&str] = &["answer", "target", "solution", "output", "response", "label"];
/// Where what it is about usually stands.
pub(super) const SUBJECT: &[&str] = &["subject", "category", "topic", "type"];

/// The columns the user named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ColumnNames {
    /// What is asked.
    pub(super) problem: Option<String>,
    /// What is right.
    pub(super) answer: Option<String>,
    /// What it is about.
    pub(super) subject: Option<String>,
    /// The most tokens the answer may have. Never guessed.
    pub(super) output_tokens: Option<String>,
}

/// A column that is taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Whether the user named it; then every row must have it.
    pub is_named: bool,
}

/// The columns that are taken. The rest is metadata.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Columns {
    /// What is asked.
    pub problem: Column,
    /// What is right, where there is such a column.
    pub answer: Option<Column>,
    /// What it is about, where there is such a column.
    pub subject: Option<Column>,
    /// The most tokens the answer may have, where the user named such a column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<Column>,
}

impl ColumnNames {
    /// Chooses among the columns there are, or says what is missing.
    pub(super) fn resolve(&self, there: &[String]) -> Result<Columns, String> {
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
            problem: problem.ok_or_else(|| missing("problem", "problem", there))?,
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

/// The columns that have another name than their role: `problem=question, answer=target`.
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

/// That a column is not there, and which are.
pub(super) fn missing(column: &str, role: &str, there: &[String]) -> String {
    let there =
        if there.is_empty() { String::from("there are none") } else { format!("the columns are {}", there.join(", ")) };
    let another =
        if role == column { format!("; `--dataset-param {role}=COLUMN` names another") } else { String::new() };
    format!("no column `{column}` for the {role}. hint: {there}{another}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn usual_names_are_taken_in_their_order_and_none_twice() {
        let columns = ColumnNames::default().resolve(&there(&["text", "label", "question", "type"])).unwrap();
        assert_eq!(columns.to_string(), "problem=question, answer=label, subject=type");
        let names = ColumnNames { problem: Some(String::from("answer")), ..ColumnNames::default() };
        let columns = names.resolve(&there(&["problem", "answer", "output"])).unwrap();
        assert_eq!(columns.to_string(), "problem=answer, answer=output");
        assert_eq!(Columns::default().to_string(), "");
    }

    #[test]
    fn what_is_named_must_be_there() {
        let names = ColumnNames { answer: Some(String::from("gold")), ..ColumnNames::default() };
        let error = names.resolve(&there(&["problem", "answer"])).unwrap_err();
        assert_eq!(error, "no column `gold` for the answer. hint: the columns are problem, answer");
        let error = ColumnNames::default().resolve(&there(&["a"])).unwrap_err();
        assert!(error.contains("`--dataset-param problem=COLUMN` names another"), "{error}");
    }
}
