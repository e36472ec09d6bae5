//! Builds the table of events: one row per event, with a column for each stat.

use arrow_array::{ArrayRef, Int32Array};
use ergometer_trace::accounting::{DeviceId, Filter};
use ergometer_trace::{Damage, Event, Kind, Text, Trace};
use pyo3::PyResult;

use super::dictionary::Dictionary;
use super::stats;
use crate::table::{Columns, Table};

/// Number of events read by one task.
const CHUNK_SIZE: usize = 8192;

/// Consecutive events of a line.
pub(super) struct Chunk {
    pub(super) plane: usize,
    pub(super) line: usize,
    /// The number of its first event on the line.
    pub(super) first: usize,
    /// For each event its row in the table; `None` if it is not selected.
    pub(super) rows: Vec<Option<usize>>,
}

impl Chunk {
    /// The numbers of the selected events on the line.
    fn selected(&self) -> impl Iterator<Item = usize> {
        (self.first..).zip(&self.rows).filter(|(_, row)| row.is_some()).map(|(number, _)| number)
    }

    fn count(&self) -> usize {
        self.rows.iter().flatten().count()
    }
}

/// Options of the table.
pub(super) struct EventOptions {
    /// Whether to add columns for stats.
    pub(super) stats: bool,
    /// Whether to leave out damaged stats instead of failing.
    pub(super) is_lenient: bool,
}

/// The events that pass the filter, in file order, and the first damage found in stats. The columns and their types do
/// not depend on the filter.
pub(super) fn events(trace: &Trace, filter: &Filter, options: &EventOptions) -> PyResult<(Table, Option<Damage>)> {
    let chunks = chunks(trace, filter);
    let line = |chunk: &Chunk| &trace.planes()[chunk.plane].lines[chunk.line];
    let rows: Vec<Event> =
        chunks.iter().flat_map(|chunk| chunk.selected().filter_map(move |event| line(chunk).event(event))).collect();
    let text = |text: Option<Text>| text.map(|text| trace.text(text));
    let chunk_column = |value: &dyn Fn(&Chunk) -> Option<Text>| -> ArrayRef {
        let mut dictionary = Dictionary::default();
        let keys: Vec<Option<i32>> =
            chunks.iter().map(|chunk| text(value(chunk)).map(|text| dictionary.key(text))).collect();
        let counts = chunks.iter().map(Chunk::count);
        let keys = keys.into_iter().zip(counts).flat_map(|(key, count)| std::iter::repeat_n(key, count));
        let keys = keys.collect::<Int32Array>();
        dictionary.column(keys)
    };
    let kind_column = |value: fn(&Kind) -> Option<Text>| -> ArrayRef {
        let mut dictionary = Dictionary::default();
        let keys: Vec<Option<i32>> =
            trace.kinds().iter().map(|kind| text(value(kind)).map(|text| dictionary.key(text))).collect();
        let keys = rows.iter().map(|event| keys[event.kind.index()]).collect::<Int32Array>();
        dictionary.column(keys)
    };
    let line_ids = chunks.iter().flat_map(|chunk| std::iter::repeat_n(line(chunk).id, chunk.count()));
    let mut columns = Columns::default()
        .array("plane", chunk_column(&|chunk| Some(trace.planes()[chunk.plane].name)))
        .array("host", chunk_column(&|chunk| trace.planes()[chunk.plane].host))
        .array("line", chunk_column(&|chunk| Some(line(chunk).name)))
        .integer("line_id", line_ids)
        .array("name", kind_column(|kind| Some(kind.name)))
        .integer("start_ps", rows.iter().map(|event| event.start.map(ergometer_units::Picos::get)))
        .integer("duration_ps", rows.iter().map(|event| event.duration.get()))
        .array("module", kind_column(|kind| kind.module))
        .program("program_id", rows.iter().map(|event| trace.kind(event.kind).program))
        .array("op", kind_column(|kind| kind.op));
    let mut damage = None;
    if options.stats {
        let stat_columns = stats::columns(trace, &chunks, rows.len());
        damage = stat_columns.damage;
        if let Some(damage) = damage.filter(|_| !options.is_lenient) {
            return Err(stats::damaged(&damage));
        }
        for (name, column) in stat_columns.columns {
            columns = columns.array(format!("stat_{name}"), column);
        }
    }
    columns.finish().map(|table| (table, damage))
}

fn chunks(trace: &Trace, filter: &Filter) -> Vec<Chunk> {
    let is_selected: Vec<bool> = trace.kinds().iter().map(|kind| filter.takes_kind(trace, kind)).collect();
    let (mut chunks, mut next) = (Vec::new(), 0);
    for (plane, trace_plane) in trace.planes().iter().enumerate() {
        let takes_plane = filter.takes_plane(trace, plane);
        let takes_ordinal = |ordinal: i64| filter.takes_device(trace, DeviceId { plane, ordinal: Some(ordinal) });
        let is_selected: Vec<bool> = trace
            .kinds()
            .iter()
            .zip(&is_selected)
            .map(|(kind, selected)| *selected && (takes_plane || kind.device_ordinal.is_some_and(takes_ordinal)))
            .collect();
        for (line, trace_line) in trace_plane.lines.iter().enumerate() {
            let is_in_table = |number: usize| {
                trace_line
                    .event(number)
                    .is_some_and(|event| event.duration >= filter.min_duration && is_selected[event.kind.index()])
            };
            for first in (0..trace_line.len()).step_by(CHUNK_SIZE) {
                let events = first..trace_line.len().min(first + CHUNK_SIZE);
                let rows = events.map(|event| is_in_table(event).then(|| (next, next += 1).0)).collect();
                chunks.push(Chunk { plane, line, first, rows });
            }
        }
    }
    chunks
}
