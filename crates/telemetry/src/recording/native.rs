//! Reads the native format line by line: a header, readings and events in order of arrival, and an end line.
//!
//! A reading is `[channel, at_ns, early_ns, value]`: the index of the channel in the header, nanoseconds since the
//! epoch, how many nanoseconds earlier the value may have occurred, and the value in the unit of its signal. A
//! recording without its end line, `{"end":{"readings":N}}`, is truncated.

use serde_json::error::Category;

use super::error::json_reason;
use super::header::{FORMAT, Header, Note};
use super::lines::{Lines, Next};
use super::{Cut, Leniency, Recording, RecordingError, VERSION};
use crate::Timeline;

/// Reads from the header (the current line) to the end.
pub(super) fn read(lines: &mut Lines<'_>, leniency: Leniency) -> Result<Recording, RecordingError> {
    let mut timeline = from_header(lines.text())?;
    let mut readings = 0;
    let cut = loop {
        match lines.advance()? {
            Next::Whole => {}
            Next::Cut(cut) => break cut,
            Next::End => break Cut::NoEndLine,
        }
        if lines.text().starts_with(b"[") {
            take_reading(&mut timeline, lines)?;
            readings += 1;
            continue;
        }
        let note: Note<'_> = parse(lines)?;
        if let Some(event) = note.event {
            timeline.note(event.into_owned());
        }
        if let Some(end) = note.end {
            if end.readings != readings {
                return Err(RecordingError::WrongCount { expected: end.readings, found: readings });
            }
            match read_past_end(lines)? {
                None => {
                    timeline.sort();
                    return Ok(Recording { timeline, truncation: None });
                }
                Some(cut) => break cut,
            }
        }
    };
    timeline.sort();
    let truncation = lines.truncation(cut, readings);
    match leniency {
        Leniency::Strict => Err(RecordingError::Truncated(truncation)),
        Leniency::KeepWhole => Ok(Recording { timeline, truncation: Some(truncation) }),
    }
}

/// Reads past the end line: only the checksum of a compressed stream may follow, and it must be complete and valid.
fn read_past_end(lines: &mut Lines<'_>) -> Result<Option<Cut>, RecordingError> {
    match lines.advance()? {
        Next::End => Ok(None),
        Next::Cut(cut @ Cut::MidStream) if lines.text().is_empty() => Ok(Some(cut)),
        Next::Whole | Next::Cut(_) => {
            let reason = String::from("there is text after the end line");
            Err(RecordingError::Malformed { line: lines.number(), reason })
        }
    }
}

fn from_header(text: &[u8]) -> Result<Timeline, RecordingError> {
    // Check the version first: other versions may have a different header.
    let any: serde_json::Value = serde_json::from_slice(text).map_err(|error| malformed(1, &error))?;
    match any.get("format").map(serde_json::Value::as_str) {
        Some(Some(FORMAT)) => {}
        other => {
            let found = match other {
                Some(Some(other)) => format!("the field `format` is \"{other}\""),
                Some(None) => String::from("the field `format` is not a string"),
                None => String::from("the field `format` is missing"),
            };
            return Err(RecordingError::UnknownFormat { reason: format!("{found} (expected \"{FORMAT}\")") });
        }
    }
    match any.get("version").and_then(serde_json::Value::as_u64) {
        Some(VERSION) => {}
        Some(found) => return Err(RecordingError::WrongVersion { found }),
        None => return Err(RecordingError::Malformed { line: 1, reason: String::from("the header has no version") }),
    }
    let header: Header = serde_json::from_value(any).map_err(|error| malformed(1, &error))?;
    let mut timeline = Timeline::default();
    for sensor in &header.sensors {
        let info = sensor.info().map_err(|reason| RecordingError::Malformed { line: 1, reason })?;
        timeline.add_sensor(&info, &sensor.channels);
    }
    Ok(timeline)
}

fn take_reading(timeline: &mut Timeline, lines: &Lines<'_>) -> Result<(), RecordingError> {
    let line = lines.number();
    let (channel, at_ns, early_ns, value): (u64, i64, u32, Option<f64>) = parse(lines)?;
    let value = value.filter(|value| value.is_finite()).ok_or(RecordingError::NotFinite { line })?;
    let channels = timeline.channels().len();
    let column = usize::try_from(channel).ok().and_then(|index| timeline.column_mut(index));
    column.ok_or(RecordingError::UnknownChannel { line, channel, channels })?.push_unsorted(at_ns, early_ns, value);
    Ok(())
}

fn parse<'a, T: serde::Deserialize<'a>>(lines: &'a Lines<'_>) -> Result<T, RecordingError> {
    let line = lines.number();
    serde_json::from_slice(lines.text()).map_err(|error| {
        // JSON has neither NaN nor infinity, but some programs write them.
        let text = String::from_utf8_lossy(lines.text());
        let no_number = error.classify() != Category::Data
            && (text.contains("NaN") || text.contains("Infinity") || error.to_string().contains("out of range"));
        if text.starts_with('[') && no_number { RecordingError::NotFinite { line } } else { malformed(line, &error) }
    })
}

fn malformed(line: u64, error: &serde_json::Error) -> RecordingError {
    RecordingError::Malformed { line, reason: format!("column {}: {}", error.column(), json_reason(error)) }
}
