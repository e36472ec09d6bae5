//! Conversations, as `ShareGPT` has them: rows with a list of turns go in; a problem and an answer come out.
//!
//! The turns are `conversations: [{from, value}]` or `messages: [{role, content}]`. The first turn of the human is the
//! problem, the next one of the assistant the answer. A row without a turn of the human is left out and counted.

use serde_json::{Map, Value};

use super::DatasetError;
use super::row::Row;
use super::table::Rows;

/// The names of the columns with turns.
const TURNS: &[&str] = &["conversations", "conversation", "messages"];

/// Rows of conversations, each as one with a problem and an answer.
pub(super) struct Conversations {
    rows: Box<dyn Rows>,
    /// Which column has the turns.
    column: &'static str,
    columns: Vec<String>,
    /// The rows that have a turn of the human.
    kept: Vec<u64>,
}

impl Conversations {
    /// The column with turns, where there is one.
    pub(super) fn column_of(rows: &dyn Rows) -> Option<&'static str> {
        TURNS.iter().find(|name| rows.columns().iter().any(|column| column == *name)).copied()
    }

    pub(super) fn new(rows: Box<dyn Rows>) -> Result<Self, DatasetError> {
        let Some(column) = Self::column_of(&*rows) else {
            let there = rows.columns().join(", ");
            let what = format!("no column {} with the turns. hint: the columns are {there}", TURNS.join(" or "));
            return Err(rows.wrong(0, what));
        };
        let mut kept = Vec::new();
        for index in 0..rows.count() {
            let row = rows.row(index)?;
            if turns(&row, column).is_some_and(|turns| exchange(turns).is_some()) {
                kept.push(index);
            }
        }
        if kept.is_empty() {
            return Err(rows.wrong(0, format!("no row of all {} has a turn of a human", rows.count())));
        }
        // What a row says beside its turns stays, unless it takes the place of what is made of them.
        let made = ["problem", "answer", "turns"].map(str::to_owned);
        let rest = rows.columns().iter().filter(|name| *name != column && !made.contains(name)).cloned();
        let columns = made.iter().cloned().chain(rest).collect();
        Ok(Self { rows, column, columns, kept })
    }

    fn place(&self, index: u64) -> u64 {
        usize::try_from(index).ok().and_then(|index| self.kept.get(index).copied()).unwrap_or(u64::MAX)
    }
}

impl Rows for Conversations {
    fn count(&self) -> u64 {
        self.kept.len() as u64
    }

    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn row(&self, index: u64) -> Result<Row, DatasetError> {
        let mut row = self.rows.row(self.place(index))?;
        let made = turns(&row, self.column).and_then(|turns| Some((exchange(turns)?, turns.len())));
        let Some(((problem, answer), count)) = made else {
            return Err(self.wrong(index, String::from("no turn of a human. hint: was the file changed?")));
        };
        row.shift_remove(self.column);
        let mut made = Map::new();
        made.insert(String::from("problem"), problem.into());
        made.insert(String::from("answer"), answer.into());
        made.insert(String::from("turns"), count.into());
        for (name, value) in row {
            made.entry(name).or_insert(value);
        }
        Ok(made)
    }

    fn wrong(&self, index: u64, what: String) -> DatasetError {
        self.rows.wrong(self.place(index), what)
    }

    fn skipped(&self) -> u64 {
        self.rows.count() - self.count()
    }
}

fn turns<'a>(row: &'a Row, column: &str) -> Option<&'a Vec<Value>> {
    row.get(column)?.as_array()
}

/// The first turn of the human, and the next one of the assistant before the human's turn again.
fn exchange(turns: &[Value]) -> Option<(String, String)> {
    let first = turns.iter().position(|turn| is_of(turn, &["human", "user"]) && !said(turn).is_empty())?;
    let next = turns[first + 1..].iter().find(|turn| is_of(turn, &["human", "user", "gpt", "assistant", "chatgpt"]));
    let answer = next.filter(|turn| !is_of(turn, &["human", "user"])).map(said);
    Some((said(&turns[first]), answer.unwrap_or_default()))
}

fn is_of(turn: &Value, speakers: &[&str]) -> bool {
    let speaker = turn.get("from").or_else(|| turn.get("role")).and_then(Value::as_str);
    speaker.is_some_and(|speaker| speakers.iter().any(|known| speaker.eq_ignore_ascii_case(known)))
}

/// What is said in a turn: text, or the texts among its parts.
fn said(turn: &Value) -> String {
    match turn.get("value").or_else(|| turn.get("content")) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(turns: &Value) -> Option<(String, String)> {
        exchange(turns.as_array().unwrap())
    }

    #[test]
    fn the_first_exchange_is_taken() {
        let pair = |problem: &str, answer: &str| Some((problem.to_owned(), answer.to_owned()));
        let sharegpt = json!([
            {"from": "system", "value": "be kind"}, {"from": "gpt", "value": "hello"}, {"from": "human", "value": "a?"},
            {"from": "gpt", "value": "b"}, {"from": "human", "value": "c?"}, {"from": "gpt", "value": "d"}
        ]);
        assert_eq!(of(&sharegpt), pair("a?", "b"));
        let messages = json!([
            {"role": "User", "content": [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]},
            {"role": "assistant", "content": "c"}
        ]);
        assert_eq!(of(&messages), pair("a\nb", "c"));
        assert_eq!(of(&json!([{"from": "human", "value": "a"}, {"from": "human", "value": "b"}])), pair("a", ""));
        assert_eq!(of(&json!([{"from": "gpt", "value": "a"}])), None);
        assert_eq!(of(&json!([{"from": "human", "value": ""}, {"from": 3}, 4, null])), None);
    }
}
