//! Converts conversations, as in `ShareGPT`, into rows with a problem and an answer.
//!
//! The turns are `conversations: [{from, value}]` or `messages: [{role, content}]`. The first user turn is the problem,
//! and the next assistant turn is the answer. If more turns are requested, each later user turn becomes another row,
//! with its think time (`think_s` in seconds, or `delay` in milliseconds). A conversation without a user turn is
//! skipped and counted.

use std::str::FromStr;

use ergometer_diagnostics::{Hint, Message};
use serde_json::{Map, Value};

use super::error::{changed, columns_hint};
use super::row::Row;
use super::table::Rows;
use super::{DatasetError, Turn};

/// The names of the columns with turns.
const TURNS: &[&str] = &["conversations", "conversation", "messages"];

/// The column that holds the think time of a row until it becomes a query.
const THINK: &str = "think_s";

/// Maximum think time: a day. A run would wait for a longer one without any sign.
const LONGEST_THINK_S: f64 = 86_400.0;

/// Checks a think time in seconds.
pub(super) fn check_think_time(think_s: f64) -> Result<f64, Message> {
    if think_s <= LONGEST_THINK_S {
        return Ok(think_s);
    }
    let hint = Hint::text("`think_s` is in seconds, `delay` in milliseconds");
    Err(Message::new(format!("the think time of {think_s:e} s is longer than a day")).with_hint(hint))
}

/// The user turns of conversations as rows with a problem and an answer.
pub(super) struct Conversations {
    rows: Box<dyn Rows>,
    /// The column with the turns.
    column: &'static str,
    columns: Vec<String>,
    turns: Turns,
    /// The source rows that have a user turn.
    kept: Vec<u64>,
    /// The index of the first turn of each conversation, and the end.
    firsts: Vec<u64>,
}

/// The number of turns to take from a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turns {
    /// The first turn only, as a single query.
    First,
    /// At most this many turns.
    UpTo(usize),
}

impl Turns {
    const fn most(self) -> usize {
        match self {
            Self::First => 1,
            Self::UpTo(most) => most,
        }
    }
}

impl FromStr for Turns {
    type Err = Message;

    fn from_str(text: &str) -> Result<Self, Message> {
        match (text.trim(), text.trim().parse()) {
            ("first", _) | (_, Ok(1)) => Ok(Self::First),
            ("all", _) => Ok(Self::UpTo(usize::MAX)),
            (_, Ok(most)) if most > 1 => Ok(Self::UpTo(most)),
            _ => Err(format!("`{text}` is neither first nor all nor a whole number above 0").into()),
        }
    }
}

impl Conversations {
    /// The column with turns, if there is one.
    pub(super) fn find_column(rows: &dyn Rows) -> Option<&'static str> {
        TURNS.iter().find(|name| rows.columns().iter().any(|column| column == *name)).copied()
    }

    pub(super) fn new(rows: Box<dyn Rows>, wanted: Turns) -> Result<Self, DatasetError> {
        let Some(column) = Self::find_column(&*rows) else {
            let what = Message::new(format!("no column {} with the turns", TURNS.join(" or ")));
            return Err(rows.wrong(0, what.with_hint(columns_hint(rows.columns()))));
        };
        let (mut kept, mut firsts, mut end) = (Vec::new(), vec![0], 0);
        for index in 0..rows.count() {
            let row = rows.row(index)?;
            let count = turns(&row, column).map_or(0, |turns| questions(turns).take(wanted.most()).count());
            if count > 0 {
                kept.push(index);
                end += count as u64;
                firsts.push(end);
            }
        }
        if kept.is_empty() {
            return Err(rows.wrong(0, format!("none of the {} rows has a user turn", rows.count()).into()));
        }
        // Other columns of a row stay, unless they have the name of a new one.
        let made = ["problem", "answer", "turns"].map(str::to_owned);
        let rest = rows.columns().iter().filter(|name| *name != column && !made.contains(name)).cloned();
        let columns = made.iter().cloned().chain(rest).collect();
        Ok(Self { rows, column, columns, turns: wanted, kept, firsts })
    }

    /// The conversation of a row, and the number of its turn.
    fn turn_of(&self, index: u64) -> (usize, u64) {
        let conversation = self.firsts.partition_point(|&first| first <= index).saturating_sub(1);
        (conversation, index - self.firsts.get(conversation).copied().unwrap_or(index))
    }

    fn place(&self, index: u64) -> u64 {
        self.kept.get(self.turn_of(index).0).copied().unwrap_or(u64::MAX)
    }
}

impl Rows for Conversations {
    fn count(&self) -> u64 {
        self.firsts.last().copied().unwrap_or(0)
    }

    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn row(&self, index: u64) -> Result<Row, DatasetError> {
        let mut row = self.rows.row(self.place(index))?;
        let number = usize::try_from(self.turn_of(index).1).unwrap_or(usize::MAX);
        let made = turns(&row, self.column).and_then(|turns| Some((exchange(turns, number)?, turns.len())));
        let Some((Exchange { problem, answer, think_s }, count)) = made else {
            return Err(self.wrong(index, changed("no user turn")));
        };
        row.shift_remove(self.column);
        let mut made = Map::new();
        made.insert(String::from("problem"), problem.into());
        made.insert(String::from("answer"), answer.into());
        made.insert(String::from("turns"), count.into());
        for (name, value) in row {
            made.entry(name).or_insert(value);
        }
        if let (Turns::UpTo(_), Some(think_s)) = (self.turns, think_s) {
            let think_s = check_think_time(think_s).map_err(|what| self.wrong(index, what))?;
            made.insert(String::from(THINK), think_s.into());
        }
        Ok(made)
    }

    fn wrong(&self, index: u64, what: Message) -> DatasetError {
        self.rows.wrong(self.place(index), what)
    }

    fn skipped(&self) -> u64 {
        self.rows.count() - self.kept.len() as u64
    }

    fn turn(&self, index: u64, row: &mut Row) -> Option<Turn> {
        if self.turns == Turns::First {
            return None;
        }
        let think_s = row.shift_remove(THINK).and_then(|value| value.as_f64());
        let (conversation, number) = self.turn_of(index);
        Some(Turn { conversation: conversation as u64, number: u32::try_from(number).unwrap_or(u32::MAX), think_s })
    }

    fn turns(&self, index: u64) -> u64 {
        let (conversation, number) = self.turn_of(index);
        let first = |place: usize| self.firsts.get(place).copied().unwrap_or(0);
        first(conversation + 1).saturating_sub(first(conversation)).saturating_sub(number).max(1)
    }
}

fn turns<'a>(row: &'a Row, column: &str) -> Option<&'a Vec<Value>> {
    row.get(column)?.as_array()
}

/// A user turn and its answer.
#[derive(Debug, PartialEq)]
struct Exchange {
    problem: String,
    answer: String,
    think_s: Option<f64>,
}

/// The positions of the user turns that are not empty.
fn questions(turns: &[Value]) -> impl Iterator<Item = usize> {
    let asks = |turn: &Value| has_role(turn, &["human", "user"]) && !turn_text(turn).is_empty();
    turns.iter().enumerate().filter(move |(_, turn)| asks(turn)).map(|(place, _)| place)
}

/// A user turn by its number from 0, and the assistant turn that follows before the next user turn.
fn exchange(turns: &[Value], number: usize) -> Option<Exchange> {
    let place = questions(turns).nth(number)?;
    let next = turns[place + 1..].iter().find(|turn| has_role(turn, &["human", "user", "gpt", "assistant", "chatgpt"]));
    let answer = next.filter(|turn| !has_role(turn, &["human", "user"])).map(turn_text);
    let turn = &turns[place];
    let number = |name: &str| turn.get(name).and_then(Value::as_f64).filter(|number| *number >= 0.0);
    let think_s = number("think_s").or_else(|| number("delay").map(|milliseconds| milliseconds / 1000.0));
    Some(Exchange { problem: turn_text(turn), answer: answer.unwrap_or_default(), think_s })
}

/// Whether a turn has one of these roles.
fn has_role(turn: &Value, roles: &[&str]) -> bool {
    let role = turn.get("from").or_else(|| turn.get("role")).and_then(Value::as_str);
    role.is_some_and(|role| roles.iter().any(|known| role.eq_ignore_ascii_case(known)))
}

/// The text of a turn, or the joined texts of its parts.
pub(super) fn turn_text(turn: &Value) -> String {
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
    use crate::{Dataset, DatasetSpec, Query, open};

    fn first_exchange(turns: &Value) -> Option<(String, String)> {
        exchange(turns.as_array().unwrap(), 0).map(|exchange| (exchange.problem, exchange.answer))
    }

    #[test]
    fn the_first_exchange_becomes_the_query() {
        let pair = |problem: &str, answer: &str| Some((problem.to_owned(), answer.to_owned()));
        let sharegpt = json!([
            {"from": "system", "value": "be kind"}, {"from": "gpt", "value": "hello"}, {"from": "human", "value": "a?"},
            {"from": "gpt", "value": "b"}, {"from": "human", "value": "c?"}, {"from": "gpt", "value": "d"}
        ]);
        assert_eq!(first_exchange(&sharegpt), pair("a?", "b"));
        let messages = json!([
            {"role": "User", "content": [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]},
            {"role": "assistant", "content": "c"}
        ]);
        assert_eq!(first_exchange(&messages), pair("a\nb", "c"));
        assert_eq!(
            first_exchange(&json!([{"from": "human", "value": "a"}, {"from": "human", "value": "b"}])),
            pair("a", "")
        );
        assert_eq!(first_exchange(&json!([{"from": "gpt", "value": "a"}])), None);
        assert_eq!(first_exchange(&json!([{"from": "human", "value": ""}, {"from": 3}, 4, null])), None);
    }

    fn opened(parameters: &[(&str, &str)]) -> Result<Box<dyn Dataset>, String> {
        let rows = [
            json!({"id": "a", "conversations": [
                {"from": "human", "value": "a1"}, {"from": "gpt", "value": "b1"},
                {"from": "human", "value": "a2", "delay": 1500}, {"from": "gpt", "value": "b2"},
                {"from": "human", "value": "a3", "think_s": 2.5},
            ]}),
            json!({"id": "none", "conversations": [{"from": "gpt", "value": "x"}]}),
            json!({"id": "c", "conversations": [{"from": "human", "value": "c1"}, {"from": "gpt", "value": "d1"}]}),
            json!({"id": "e", "conversations": [
                {"from": "human", "value": "e1"}, {"from": "gpt", "value": "f1"}, {"from": "human", "value": "e2"},
            ]}),
        ];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("talk.jsonl");
        std::fs::write(&path, rows.map(|row| row.to_string()).join("\n")).unwrap();
        let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        open(&DatasetSpec { id: path.to_string_lossy().into_owned(), parameters }).map_err(|error| error.to_string())
    }

    /// The problems of all queries, and the number of turns of each conversation.
    fn asked(parameters: &[(&str, &str)]) -> (Vec<String>, Vec<u64>) {
        let dataset = opened(parameters).unwrap();
        let queries: Vec<Query> = (0..dataset.size().unwrap()).map(|index| dataset.get(index).unwrap()).collect();
        let firsts = queries.iter().filter(|query| query.turn.is_none_or(|turn| turn.number == 0));
        let turns = firsts.map(|query| dataset.turns(query.index)).collect();
        (queries.into_iter().map(|query| query.problem).collect(), turns)
    }

    #[test]
    fn every_user_turn_can_become_a_query() {
        let dataset = opened(&[("turns", "all")]).unwrap();
        assert_eq!((dataset.size(), dataset.skipped()), (Some(6), 1));
        let query = |index| dataset.get(index).unwrap();
        assert_eq!((query(1).problem.as_str(), query(1).answer.as_str()), ("a2", "b2"));
        assert_eq!(query(1).turn, Some(Turn { conversation: 0, number: 1, think_s: Some(1.5) }));
        assert_eq!(query(2).turn.and_then(|turn| turn.think_s), Some(2.5));
        assert_eq!(query(5).turn, Some(Turn { conversation: 2, number: 1, think_s: None }));
        assert!(!query(1).metadata.contains_key("think_s"), "{:?}", query(1).metadata);
        assert_eq!(asked(&[("turns", "all")]).1, [3, 1, 2]);
        assert_eq!(asked(&[("turns", "2")]).0, ["a1", "a2", "c1", "e1", "e2"]);
        let first = opened(&[]).unwrap();
        assert_eq!(asked(&[]), (vec!["a1".into(), "c1".into(), "e1".into()], vec![1, 1, 1]));
        assert_eq!((first.get(0).unwrap().turn, first.skipped()), (None, 1));
        assert_eq!(opened(&[("turns", "1")]).unwrap().fingerprint(), first.fingerprint());
        assert_ne!(dataset.fingerprint(), first.fingerprint());
        assert!(opened(&[("turns", "0")]).err().unwrap().contains("neither first nor all"));
    }

    #[test]
    fn a_think_time_is_at_most_a_day() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("talk.jsonl");
        let error = |turn: Value, turns: &str| {
            let rows = [json!({"from": "human", "value": "a"}), turn].map(
                |turn| json!({"conversations": [{"from": "human", "value": "x"}, {"from": "gpt", "value": "y"}, turn]}),
            );
            std::fs::write(&path, rows.map(|row| row.to_string()).join("\n")).unwrap();
            let parameters = [(String::from("turns"), turns.to_owned())].into();
            let opened = open(&DatasetSpec { id: path.to_string_lossy().into_owned(), parameters });
            opened.err().map(|error| error.to_string())
        };
        for (name, value) in [("delay", json!(1e300)), ("delay", json!(86_400_001)), ("think_s", json!(86_401))] {
            let turn = json!({"from": "human", "value": "b", name: value});
            let text = error(turn.clone(), "all").unwrap();
            assert!(text.contains("talk.jsonl, line 2: the think time of ") && text.ends_with("than a day"), "{text}");
            // A dataset that is used without its later turns has no think times.
            assert_eq!(error(turn, "first"), None);
        }
        assert_eq!(error(json!({"from": "human", "value": "b", "think_s": 86_400}), "all"), None);
    }

    #[test]
    fn selections_keep_conversations_together() {
        let (all, none) = (("turns", "all"), Vec::<u64>::new());
        assert_eq!(asked(&[all, ("where", "id=e")]), (vec!["e1".into(), "e2".into()], vec![2]));
        // The skip ends in the middle of the first conversation, so the selection starts with the second.
        assert_eq!(asked(&[all, ("skip", "1")]), (vec!["c1".into(), "e1".into(), "e2".into()], vec![1, 2]));
        assert_eq!(asked(&[all, ("limit", "2")]), (vec!["a1".into(), "a2".into()], vec![2]));
        assert!(opened(&[all, ("skip", "5")]).err().unwrap().contains("skipping 5 of 6 queries leaves none"));
        let mut orders = std::collections::BTreeSet::new();
        for seed in 0..20 {
            let (order, turns) = asked(&[all, ("shuffle", &seed.to_string())]);
            assert_ne!(turns, none);
            let place = |name: &str| order.iter().position(|asked| asked == name).unwrap();
            assert_eq!((place("a2"), place("a3"), place("e2")), (place("a1") + 1, place("a1") + 2, place("e1") + 1));
            orders.insert(order);
        }
        assert_eq!(orders.len(), 6, "three conversations in every order");
    }
}
