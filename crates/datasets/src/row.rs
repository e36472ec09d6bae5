//! One row of a table goes in; its query comes out, or what is wrong with it.

use serde_json::{Map, Value};

use super::Query;
use super::columns::{Column, Columns, missing};

/// A row of any table, its columns in their order.
pub(super) type Row = Map<String, Value>;

/// The query of a row. Columns that are not taken are metadata.
pub(super) fn query_of(mut row: Row, index: u64, columns: &Columns) -> Result<Query, String> {
    let there: Vec<String> = row.keys().cloned().collect();
    let name = &columns.problem.name;
    let problem = take(&mut row, name).ok_or_else(|| missing(name, "problem", &there))?;
    if problem.is_empty() {
        return Err(format!("the problem (column `{name}`) is empty"));
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

/// A row of JSON text.
pub(super) fn row_of(json: &[u8]) -> Result<Row, String> {
    let text = std::str::from_utf8(json).map_err(|error| format!("not UTF-8: {error}"))?;
    match serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))? {
        Value::Object(row) => Ok(row),
        _ => Err(String::from("not a JSON object")),
    }
}

/// A column's value as text. A null is there and empty; an object or a list is its JSON.
fn take(row: &mut Row, column: &str) -> Option<String> {
    row.shift_remove(column).map(text)
}

/// A value as text, without quotes around a string.
pub(super) fn text(value: Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// How many tokens an answer may have; nothing where the cell is empty.
fn tokens(text: &str, column: &str) -> Result<Option<u64>, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    // Tables with holes have their counts as floats: 12.0.
    let digits = text.strip_suffix(".0").unwrap_or(text);
    match digits.parse() {
        Ok(0) | Err(_) => Err(format!("`{text}` in column `{column}` is no count of tokens of at least 1")),
        Ok(count) => Ok(Some(count)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::columns::ColumnNames;

    fn query(row: Value, names: &ColumnNames) -> Result<Query, String> {
        let Value::Object(row) = row else { unreachable!("tests give objects") };
        let there: Vec<String> = row.keys().cloned().collect();
        query_of(row, 0, &names.resolve(&there)?)
    }

    #[test]
    fn a_limit_of_tokens_is_read_where_it_is_mapped() {
        let names = ColumnNames { output_tokens: Some(String::from("n")), ..ColumnNames::default() };
        let of = |value: Value| query(json!({ "problem": "a", "n": value }), &names).map(|query| query.output_tokens);
        assert_eq!(of(json!(12)), Ok(Some(12)));
        assert_eq!(of(json!(12.0)), Ok(Some(12)));
        assert_eq!(of(json!(" 7 ")), Ok(Some(7)));
        assert_eq!(of(json!(null)), Ok(None));
        assert!(of(json!(0)).unwrap_err().contains("`0` in column `n`"));
        assert!(of(json!("many")).is_err());
        assert_eq!(query(json!({ "problem": "a", "n": 3 }), &ColumnNames::default()).unwrap().output_tokens, None);
    }

    #[test]
    fn values_that_are_no_text_are_their_json() {
        let query = query(json!({ "problem": ["a", 1], "answer": null, "rest": {} }), &ColumnNames::default()).unwrap();
        assert_eq!((query.problem.as_str(), query.answer.as_str()), ("[\"a\",1]", ""));
        assert_eq!(query.metadata["rest"], json!({}));
    }
}
