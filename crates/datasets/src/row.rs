//! Converts a row of a table into a query.

use ergometer_diagnostics::Message;
use serde_json::{Map, Value};

use super::Query;
use super::columns::{Column, Columns, missing};

/// A row of a table, with its columns in order.
pub(super) type Row = Map<String, Value>;

/// The query of a row. Columns without a role become metadata.
pub(super) fn query_of(mut row: Row, index: u64, columns: &Columns) -> Result<Query, Message> {
    let there: Vec<String> = row.keys().cloned().collect();
    let name = &columns.problem.name;
    let problem = take(&mut row, name).ok_or_else(|| missing(name, "problem", &there))?;
    if problem.is_empty() {
        return Err(format!("the prompt (column `{name}`) is empty").into());
    }
    let mut optional = |column: Option<&Column>, role: &str| match column {
        None => Ok(String::new()),
        Some(column) => match take(&mut row, &column.name) {
            Some(text) => Ok(text),
            None if !column.is_named => Ok(String::new()),
            None => Err(missing(&column.name, role, &there)),
        },
    };
    let answer = optional(columns.answer.as_ref(), "answer")?;
    let subject = optional(columns.subject.as_ref(), "subject")?;
    let output_tokens = match &columns.output_tokens {
        None => None,
        Some(column) => tokens(&optional(Some(column), "output_tokens")?, &column.name)?,
    };
    Ok(Query { index, problem, answer, subject, output_tokens, metadata: row, ..Query::default() })
}

/// Parses a row of JSON text.
pub(super) fn row_of(json: &[u8]) -> Result<Row, Message> {
    let text = std::str::from_utf8(json).map_err(|error| format!("not UTF-8: {error}"))?;
    let wrong = |error: serde_json::Error| format!("{} (column {})", not_json(&error), error.column());
    match serde_json::from_str(text).map_err(wrong)? {
        Value::Object(row) => Ok(row),
        _ => Err(Message::new("not a JSON object")),
    }
}

/// The error without its line, which is relative to the parsed part of the file.
pub(super) fn not_json(error: &serde_json::Error) -> String {
    let text = error.to_string();
    format!("not JSON: {}", text.rsplit_once(" at line ").map_or(text.as_str(), |(cause, _)| cause))
}

/// Removes a column and returns its value as text. Null is empty text; an object or a list is its JSON.
fn take(row: &mut Row, column: &str) -> Option<String> {
    row.shift_remove(column).map(text)
}

/// A value as text; a string without its quotes.
pub(super) fn text(value: Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// The maximum tokens of an answer; `None` for an empty cell.
fn tokens(text: &str, column: &str) -> Result<Option<u64>, Message> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    // Tables with missing values store counts as floats: 12.0.
    let digits = text.strip_suffix(".0").unwrap_or(text);
    match digits.parse() {
        Ok(0) | Err(_) => Err(format!("`{text}` in column `{column}` is not a token count of at least 1").into()),
        Ok(count) => Ok(Some(count)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::columns::ColumnNames;

    fn query(row: Value, names: &ColumnNames) -> Result<Query, Message> {
        let Value::Object(row) = row else { unreachable!("tests give objects") };
        let there: Vec<String> = row.keys().cloned().collect();
        query_of(row, 0, &names.resolve(&there)?)
    }

    #[test]
    fn the_token_limit_is_read_from_its_column() {
        let names = ColumnNames { output_tokens: Some(String::from("n")), ..ColumnNames::default() };
        let limit =
            |value: Value| query(json!({ "problem": "a", "n": value }), &names).map(|query| query.output_tokens);
        assert_eq!(limit(json!(12)), Ok(Some(12)));
        assert_eq!(limit(json!(12.0)), Ok(Some(12)));
        assert_eq!(limit(json!(" 7 ")), Ok(Some(7)));
        assert_eq!(limit(json!(null)), Ok(None));
        assert!(limit(json!(0)).unwrap_err().text.contains("`0` in column `n`"));
        assert!(limit(json!("many")).is_err());
        assert_eq!(query(json!({ "problem": "a", "n": 3 }), &ColumnNames::default()).unwrap().output_tokens, None);
    }

    #[test]
    fn other_values_become_json_text() {
        let query = query(json!({ "problem": ["a", 1], "answer": null, "rest": {} }), &ColumnNames::default()).unwrap();
        assert_eq!((query.problem.as_str(), query.answer.as_str()), ("[\"a\",1]", ""));
        assert_eq!(query.metadata["rest"], json!({}));
    }
}
