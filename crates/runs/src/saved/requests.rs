//! Reads the attempts of `requests.parquet` one at a time, so that the chunks of a long run are not in memory.

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ListArray, RecordBatch};
use ergometer_clients::Outcome;
use ergometer_columnar::{ParquetFile, Selection};
use ergometer_units::Timestamp;

use super::columns::Column;
use crate::column_names as names;
use crate::store::REQUESTS_FILE;
use crate::{ReadError, RequestTimes, regular_file};

/// One attempt at a request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Attempt {
    /// The number of the request.
    pub request: u64,
    /// The request id that the client sent; `None` if it sent none, or the user's own.
    pub request_id: Option<String>,
    /// The index of its query in the dataset.
    pub index: u64,
    /// The session of the run.
    pub session: u32,
    /// Which attempt at the query, from 1.
    pub attempt: u64,
    /// How it ended.
    pub outcome: AttemptOutcome,
    /// The kind of failure.
    pub failure: Option<String>,
    /// Whether another attempt followed.
    pub is_retried: bool,
    /// When it was due.
    pub scheduled: Option<Timestamp>,
    /// When it was sent.
    pub sent: Option<Timestamp>,
    /// When its first token arrived.
    pub first_token: Option<Timestamp>,
    /// When its last token arrived.
    pub last_token: Option<Timestamp>,
    /// When its stream ended.
    pub end: Option<Timestamp>,
    /// Tokens in its answer.
    pub output_tokens: Option<u64>,
    /// Tokens of its prompt that the server took from its cache.
    pub cached_tokens: Option<u64>,
    /// The time to connect; `None` if the connection was already open.
    pub connect_ms: Option<f64>,
}

/// How an attempt at a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AttemptOutcome {
    /// Its answer is complete.
    Completed,
    /// It failed.
    Failed,
    /// The run was stopped while it was in flight.
    Cancelled,
    /// The run was killed while it was in flight.
    Lost,
    /// The file has no outcome, or one of a later version. It is not counted as completed.
    #[default]
    Unknown,
}

impl AttemptOutcome {
    const NAMED: [(Self, &str); 4] = [
        (Self::Completed, "completed"),
        (Self::Failed, "failed"),
        (Self::Cancelled, "cancelled"),
        (Self::Lost, "lost"),
    ];

    /// Its name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMED.iter().find(|(outcome, _)| *outcome == self).map_or("unknown", |&(_, name)| name)
    }

    /// The outcome with this name in files.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        Self::NAMED.iter().find(|(_, known)| *known == name).map_or(Self::Unknown, |(outcome, _)| *outcome)
    }
}

impl From<&Outcome> for AttemptOutcome {
    fn from(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Completed => Self::Completed,
            Outcome::Failed { .. } => Self::Failed,
            Outcome::Cancelled => Self::Cancelled,
            Outcome::Lost => Self::Lost,
        }
    }
}

/// The times between consecutive token events of a choice of an attempt, in nanoseconds.
pub type Gaps<'a> = &'a [i64];

/// The times of the token events of an attempt since it was sent, in nanoseconds.
pub type Offsets<'a> = &'a [i64];

impl Attempt {
    /// Its times.
    #[must_use]
    pub const fn times(&self) -> RequestTimes {
        let Self { scheduled, sent, first_token, last_token, end, .. } = *self;
        RequestTimes { scheduled, sent, first_token, last_token, end }
    }

    /// Calls `take` for every attempt of a run, with its gaps, in the order of the file. A run without the file has
    /// none.
    pub fn each(folder: &Path, mut take: impl FnMut(Self, Gaps<'_>)) -> Result<(), ReadError> {
        Self::read(folder, |attempt, offsets, choices| take(attempt, &gaps(offsets, choices)))
    }

    /// The same, with the offsets of all token events.
    pub fn each_with_offsets(folder: &Path, mut take: impl FnMut(Self, Offsets<'_>)) -> Result<(), ReadError> {
        Self::read(folder, |attempt, offsets, _| take(attempt, offsets))
    }

    fn read(folder: &Path, mut take: impl FnMut(Self, Offsets<'_>, &[i64])) -> Result<(), ReadError> {
        let path = folder.join(REQUESTS_FILE);
        let file = match regular_file::open(&path) {
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            file => file.map_err(ReadError::io("read", &path))?,
        };
        let damaged = ReadError::of_file(&path);
        let file = ParquetFile::open(file).map_err(&damaged)?;
        let selection = Selection { group: None, columns: None, batch_rows: 1 << 12 };
        for batch in file.batches(selection).map_err(&damaged)? {
            Self::rows(&batch.map_err(&damaged)?, &mut take);
        }
        Ok(())
    }

    fn rows(batch: &RecordBatch, take: &mut impl FnMut(Self, Offsets<'_>, &[i64])) {
        let column = |name: &str| Column::find(batch, &[name]);
        let [request, index, session, attempt, output, cached] = [
            names::REQUEST,
            names::QUERY_INDEX,
            names::SESSION,
            names::ATTEMPT,
            names::OUTPUT_TOKENS,
            names::CACHED_TOKENS,
        ]
        .map(column);
        let [outcome, failure, is_retried, connect] =
            [names::OUTCOME, names::FAILURE, names::IS_RETRIED, names::CONNECT_MS].map(column);
        let request_id = column(names::REQUEST_ID);
        let [scheduled, sent, first, last, end] =
            [names::SCHEDULED_NS, names::SENT_NS, names::FIRST_TOKEN_NS, names::LAST_TOKEN_NS, names::END_NS]
                .map(column);
        let list = |name: &str| -> Option<&ListArray> { batch.column_by_name(name)?.as_list_opt::<i32>() };
        let (chunks, choices) = (list(names::CHUNK_OFFSETS_NS), list(names::CHUNK_CHOICES));
        let numbers = |list: Option<&ListArray>, row: usize| -> Vec<i64> {
            let values = list.filter(|list| list.is_valid(row)).map(|list| list.value(row));
            let numbers = values.as_ref().and_then(|values| values.as_primitive_opt::<Int64Type>());
            numbers.map_or_else(Vec::new, |numbers| numbers.values().to_vec())
        };
        for row in 0..batch.num_rows() {
            let at = |column: &Column| column.integer(row).map(Timestamp::from_nanos_since_epoch);
            let attempt = Self {
                request: request.count(row).unwrap_or(0),
                request_id: request_id.text(row).map(ToOwned::to_owned),
                index: index.count(row).unwrap_or(0),
                session: session.count(row).and_then(|session| u32::try_from(session).ok()).unwrap_or(0),
                attempt: attempt.count(row).unwrap_or(1),
                outcome: AttemptOutcome::from_name(outcome.text(row).unwrap_or_default()),
                failure: failure.text(row).map(ToOwned::to_owned),
                is_retried: is_retried.boolean(row).unwrap_or(false),
                scheduled: at(&scheduled),
                sent: at(&sent),
                first_token: at(&first),
                last_token: at(&last),
                end: at(&end),
                output_tokens: output.count(row),
                cached_tokens: cached.count(row),
                connect_ms: connect.number(row),
            };
            take(attempt, &numbers(chunks, row), &numbers(choices, row));
        }
    }
}

/// The gaps between the events of each choice, in the order of the events. Without choices there is one.
fn gaps(offsets: &[i64], choices: &[i64]) -> Vec<i64> {
    let mut last: Vec<(i64, i64)> = Vec::new();
    let mut gaps = Vec::with_capacity(offsets.len());
    for (place, &offset) in offsets.iter().enumerate() {
        let choice = choices.get(place).copied().unwrap_or(0);
        match last.iter_mut().find(|(known, _)| *known == choice) {
            Some((_, before)) => gaps.push(offset.saturating_sub(std::mem::replace(before, offset))),
            None => last.push((choice, offset)),
        }
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_outcome_is_not_completed() {
        let outcomes = ["completed", "lost", "", "timed_out"].map(AttemptOutcome::from_name);
        let unknown = AttemptOutcome::Unknown;
        assert_eq!(outcomes, [AttemptOutcome::Completed, AttemptOutcome::Lost, unknown, unknown]);
        for (outcome, name) in AttemptOutcome::NAMED {
            assert_eq!((outcome.name(), AttemptOutcome::from_name(name)), (name, outcome));
        }
    }
}
