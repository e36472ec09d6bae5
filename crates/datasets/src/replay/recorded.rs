//! Reads arrival time, prompt length, answer length and text from a row of a recording.
//!
//! Column names by recording:
//! - Mooncake: `timestamp` (ms), `input_length`, `output_length`, `hash_ids`;
//! - `BurstGPT`: `Timestamp` (s), `Request tokens`, `Response tokens`;
//! - any other: `timestamp_s`, `arrival_s`, `timestamp_ms` or `arrival_ms`, and lengths by any of the names below.
//!
//! Names are case-insensitive.

use ergometer_diagnostics::{Message, hint, option};
use serde_json::Value;

use super::super::conversations::{check_think_time, turn_text};
use super::super::error::columns_hint;
use super::super::row::Row;

/// Names of time columns that include their unit.
const TIMES: &[(&str, TimeUnit)] = &[
    ("timestamp_s", TimeUnit::Seconds),
    ("arrival_s", TimeUnit::Seconds),
    ("timestamp_ms", TimeUnit::Milliseconds),
    ("arrival_ms", TimeUnit::Milliseconds),
];
/// The time column whose unit depends on the recording.
const TIME: &str = "timestamp";
const INPUT: &[&str] = &["input_length", "request tokens", "input_tokens", "prompt_tokens"];
const OUTPUT: &[&str] = &["output_length", "response tokens", "output_tokens", "completion_tokens"];
const TEXT: &[&str] = &["text_input", "prompt", "text"];

/// The unit of a recording's times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeUnit {
    Seconds,
    Milliseconds,
}

impl TimeUnit {
    pub(super) fn seconds(self, time: f64) -> f64 {
        match self {
            Self::Seconds => time,
            Self::Milliseconds => time / 1000.0,
        }
    }
}

/// One request of a recording.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Recorded {
    /// Arrival time in seconds, from any origin; `None` for a later turn.
    pub(super) arrival_s: Option<f64>,
    /// Think time before it, if the recording has it.
    pub(super) think_s: Option<f64>,
    /// Prompt tokens; 0 if only its text is known.
    pub(super) input: u32,
    /// Tokens of the answer, if known.
    pub(super) output: Option<u32>,
    /// The ids of its prompt blocks.
    pub(super) blocks: Vec<u64>,
    /// The prompt, if the recording has it.
    pub(super) text: Option<String>,
}

impl Recorded {
    /// Whether the prompt or the answer is empty, as in requests that failed.
    pub(super) fn is_empty(&self) -> bool {
        self.output == Some(0) || (self.input == 0 && self.text.is_none())
    }
}

/// The requests of a row: a single one, or the turns of a session.
pub(super) fn requests_of(row: &Row, unit: Option<TimeUnit>) -> Result<Vec<Recorded>, Message> {
    let Some(Value::Array(turns)) = cell(row, "turns") else { return Ok(vec![request_of(row, unit, true)?]) };
    let mut requests = Vec::with_capacity(turns.len());
    for (number, turn) in turns.iter().enumerate() {
        let wrong = |what: Message| what.at(format!("turn {}", number + 1));
        let turn = turn.as_object().ok_or_else(|| wrong("not a JSON object".into()))?;
        // A session arrives with its first turn; the time is in the turn or in the row.
        let mut request = request_of(turn, unit, false).map_err(wrong)?;
        request.arrival_s = if number > 0 {
            None
        } else {
            Some(time_of(turn, unit).map_err(wrong)?.map_or_else(|| needed_time(row, unit), Ok)?)
        };
        requests.push(request);
    }
    Ok(requests)
}

fn request_of(row: &Row, unit: Option<TimeUnit>, is_timed: bool) -> Result<Recorded, Message> {
    let arrival_s = is_timed.then(|| needed_time(row, unit)).transpose()?;
    let text = text_of(row)?;
    let needed = |names: &[&str], what: &str| missing(row, names[0], what);
    let input = match count_of(row, INPUT)? {
        Some(count) => count,
        None if text.is_some() => 0,
        None => return Err(needed(INPUT, "length of the prompt")),
    };
    let output = count_of(row, OUTPUT)?;
    if output.is_none() && text.is_none() {
        return Err(needed(OUTPUT, "length of the answer"));
    }
    let think_s = match (cell(row, "think_s"), cell(row, "delay")) {
        (Some(value), _) => Some(number(value, "think_s")?),
        (None, Some(value)) => Some(TimeUnit::Milliseconds.seconds(number(value, "delay")?)),
        (None, None) => None,
    };
    let think_s = think_s.map(check_think_time).transpose()?;
    Ok(Recorded { arrival_s, think_s, input, output, blocks: blocks_of(row)?, text })
}

fn needed_time(row: &Row, unit: Option<TimeUnit>) -> Result<f64, Message> {
    time_of(row, unit)?.ok_or_else(|| missing(row, TIME, "time of arrival"))
}

/// The arrival time of a row in seconds.
fn time_of(row: &Row, wanted: Option<TimeUnit>) -> Result<Option<f64>, Message> {
    for (name, unit) in TIMES {
        if let Some(value) = cell(row, name) {
            return Ok(Some(wanted.unwrap_or(*unit).seconds(number(value, name)?)));
        }
    }
    let Some(value) = cell(row, TIME) else { return Ok(None) };
    let has = |name: &str| cell(row, name).is_some();
    let unit = match wanted {
        Some(unit) => unit,
        None if has("request tokens") || has("response tokens") => TimeUnit::Seconds,
        None if has("input_length") || has("output_length") || has("hash_ids") || has("turns") => {
            TimeUnit::Milliseconds
        }
        None => {
            let hint = hint!(
                "name the unit with ",
                option("dataset-param").value("time_unit=s"),
                " or ",
                option("dataset-param").value("time_unit=ms")
            );
            return Err(Message::new("cannot tell whether `timestamp` is in seconds or milliseconds").with_hint(hint));
        }
    };
    Ok(Some(unit.seconds(number(value, TIME)?)))
}

/// The text of a request: its prompt, or its messages separated by empty lines.
fn text_of(row: &Row) -> Result<Option<String>, Message> {
    for name in TEXT {
        match cell(row, name) {
            Some(Value::String(text)) if !text.is_empty() => return Ok(Some(text.clone())),
            Some(Value::String(_)) | None => {}
            Some(_) => return Err(format!("`{name}` is not text").into()),
        }
    }
    let Some(messages) = cell(row, "messages") else { return Ok(None) };
    let parsed;
    let messages = match messages {
        // A CSV file has them as JSON text.
        Value::String(text) if text.is_empty() => return Ok(None),
        Value::String(text) => {
            parsed = serde_json::from_str::<Value>(text).map_err(|error| format!("`messages` is not JSON: {error}"))?;
            &parsed
        }
        other => other,
    };
    let messages = messages.as_array().ok_or("`messages` is not a list of messages")?;
    let all: Vec<String> = messages.iter().map(turn_text).filter(|text| !text.is_empty()).collect();
    Ok((!all.is_empty()).then(|| all.join("\n\n")))
}

fn blocks_of(row: &Row) -> Result<Vec<u64>, Message> {
    let wrong = || Message::new("`hash_ids` is not a list of whole numbers");
    match cell(row, "hash_ids") {
        None => Ok(Vec::new()),
        Some(Value::String(text)) if text.trim().is_empty() => Ok(Vec::new()),
        Some(Value::String(text)) => serde_json::from_str(text).map_err(|_| wrong()),
        Some(Value::Array(ids)) => {
            ids.iter().map(|id| id.as_u64().or_else(|| id.as_i64().map(i64::cast_unsigned)).ok_or_else(wrong)).collect()
        }
        Some(_) => Err(wrong()),
    }
}

/// A cell by its name; `None` for null.
fn cell<'a>(row: &'a Row, name: &str) -> Option<&'a Value> {
    let found =
        row.get(name).or_else(|| row.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value));
    found.filter(|value| !value.is_null())
}

fn count_of(row: &Row, names: &[&str]) -> Result<Option<u32>, Message> {
    let Some((name, value)) = names.iter().find_map(|name| Some((*name, cell(row, name)?))) else { return Ok(None) };
    // Tables with missing values store counts as floats: 12.0.
    let count = number(value, name)?;
    if count.fract() != 0.0 || count > f64::from(u32::MAX) {
        return Err(format!("`{name}` is {count}, not a token count").into());
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number within the range")]
    Ok(Some(count as u32))
}

/// A number of at least 0.
fn number(value: &Value, name: &str) -> Result<f64, Message> {
    let number = match value {
        Value::String(text) => text.trim().parse().ok(),
        other => other.as_f64(),
    };
    match number.filter(|number: &f64| number.is_finite()) {
        Some(number) if number >= 0.0 => Ok(number),
        Some(number) => Err(format!("`{name}` is {number}, below 0").into()),
        None => Err(format!("`{name}` is {value}, not a number").into()),
    }
}

fn missing(row: &Row, name: &str, what: &str) -> Message {
    Message::new(format!("no column `{name}` for the {what}")).with_hint(columns_hint(row.keys()))
}

#[cfg(test)]
mod tests {
    use ergometer_diagnostics::{CommandLine, Diagnostic as _};
    use serde_json::json;

    use super::*;

    fn first(row: Value, unit: Option<TimeUnit>) -> Result<Recorded, Message> {
        let Value::Object(row) = row else { unreachable!("tests give objects") };
        requests_of(&row, unit).map(|mut requests| requests.remove(0))
    }

    #[test]
    fn each_recording_has_its_unit_and_column_names() {
        let numbers = |row, unit| first(row, unit).map(|request| (request.arrival_s, request.input, request.output));
        let mooncake = json!({"timestamp": 1500, "input_length": 7, "output_length": 3, "hash_ids": [4, 5]});
        assert_eq!(numbers(mooncake.clone(), None), Ok((Some(1.5), 7, Some(3))));
        assert_eq!(numbers(mooncake.clone(), Some(TimeUnit::Seconds)), Ok((Some(1500.0), 7, Some(3))));
        assert_eq!(first(mooncake, None).unwrap().blocks, [4, 5]);
        let burst = json!({"Timestamp": "5", "Model": "m", "Request tokens": "472", "Response tokens": "18.0"});
        assert_eq!(numbers(burst, None), Ok((Some(5.0), 472, Some(18))));
        let plain = json!({"arrival_s": 0.25, "prompt_tokens": 2, "completion_tokens": 0});
        assert_eq!(numbers(plain.clone(), None), Ok((Some(0.25), 2, Some(0))));
        assert!(first(plain, None).unwrap().is_empty());
        let text = first(json!({"timestamp_ms": 1, "messages": [{"role": "user", "content": "a"}]}), None).unwrap();
        assert_eq!((text.text.as_deref(), text.output, text.is_empty()), (Some("a"), None, false));
    }

    #[test]
    fn a_session_arrives_once_and_its_turns_follow() {
        let session = json!({"session_id": "s", "timestamp": 2000, "turns": [
            {"input_length": 5, "output_length": 2}, {"text": "and?", "output_length": 3, "delay": 750},
        ]});
        let turns = requests_of(session.as_object().unwrap(), None).unwrap();
        assert_eq!((turns[0].arrival_s, turns[0].think_s, turns[0].input), (Some(2.0), None, 5));
        assert_eq!((turns[1].arrival_s, turns[1].think_s, turns[1].text.as_deref()), (None, Some(0.75), Some("and?")));
    }

    #[test]
    fn invalid_rows_are_errors() {
        let error = |row| first(row, None).unwrap_err().one_line(&CommandLine);
        let lengths = |time: Value| json!({"timestamp": time, "input_length": 1, "output_length": 1});
        assert!(error(lengths(json!(-1))).contains("`timestamp` is -1, below 0"));
        assert!(error(lengths(json!("soon"))).contains("`timestamp` is \"soon\", not a number"));
        assert!(error(json!({"input_length": 1})).contains("no column `timestamp` for the time of arrival"));
        assert!(error(json!({"timestamp_s": 1, "x": 2})).contains("no column `input_length`"));
        assert!(error(json!({"timestamp_s": 1, "input_length": 2})).contains("no column `output_length`"));
        assert!(error(json!({"timestamp": 1, "input_tokens": 2})).contains("--dataset-param time_unit=ms"));
        assert!(error(json!({"timestamp_s": 1, "input_tokens": 1.5})).contains("not a token count"));
        assert!(error(json!({"timestamp": 1, "turns": [{"input_length": 2}]})).contains("turn 1: no column"));
        let slow = json!({"timestamp": 1, "turns": [{"text": "a"}, {"text": "b", "delay": 1e300}]});
        assert!(error(slow).contains("turn 2: the think time of 1e297 s is longer than a day"));
    }
}
