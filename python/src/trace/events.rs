//! Every event as a row, with everything the trace says of it in columns of its own.

use arrow_array::{ArrayRef, Int32Array};
use ergometer_trace::accounting::{DeviceId, Filter};
use ergometer_trace::{Damage, Event, Kind, Text, Trace};
use pyo3::PyResult;

use super::dictionary::Dictionary;
use super::stats;
use crate::table::{Columns, Table};

/// So many events are read by one task.
const PIECE: usize = 8192;

/// Consecutive events of a line.
pub(super) struct Piece {
    pub(super) plane: usize,
    pub(super) line: usize,
    /// The number of the first on the line.
    pub(super) first: usize,
    /// Of each its row in the table; `None` of one that is not asked for.
    pub(super) rows: Vec<Option<usize>>,
}

impl Piece {
    /// The events that are asked for, by their numbers on the line.
    fn taken(&self) -> impl Iterator<Item = usize> {
        (self.first..).zip(&self.rows).filter(|(_, row)| row.is_some()).map(|(number, _)| number)
    }

    fn count(&self) -> usize {
        self.rows.iter().flatten().count()
    }
}

/// What to put into the table.
pub(super) struct Wanted {
    /// Whether stats have columns.
    pub(super) stats: bool,
    /// Whether what is damaged is left out.
    pub(super) is_lenient: bool,
}

/// The events that pass the filter, in the order of the files, and the first damage where stats are not whole. Which
/// columns there are, and of which types, does not depend on the filter.
pub(super) fn events(trace: &Trace, filter: &Filter, wanted: &Wanted) -> PyResult<(Table, Option<Damage>)> {
    let pieces = pieces(trace, filter);
    let line = |piece: &Piece| &trace.planes()[piece.plane].lines[piece.line];
    let rows: Vec<Event> =
        pieces.iter().flat_map(|piece| piece.taken().filter_map(move |event| line(piece).event(event))).collect();
    let text = |text: Option<Text>| text.map(|text| trace.text(text));
    let of_piece = |of: &dyn Fn(&Piece) -> Option<Text>| -> ArrayRef {
        let mut dictionary = Dictionary::default();
        let keys: Vec<Option<i32>> =
            pieces.iter().map(|piece| text(of(piece)).map(|text| dictionary.key(text))).collect();
        let counts = pieces.iter().map(Piece::count);
        let keys = keys.into_iter().zip(counts).flat_map(|(key, count)| std::iter::repeat_n(key, count));
        let keys = keys.collect::<Int32Array>();
        dictionary.column(keys)
    };
    let of_kind = |of: fn(&Kind) -> Option<Text>| -> ArrayRef {
        let mut dictionary = Dictionary::default();
        let keys: Vec<Option<i32>> =
            trace.kinds().iter().map(|kind| text(of(kind)).map(|text| dictionary.key(text))).collect();
        let keys = rows.iter().map(|event| keys[event.kind.index()]).collect::<Int32Array>();
        dictionary.column(keys)
    };
    let line_ids = pieces.iter().flat_map(|piece| std::iter::repeat_n(line(piece).id, piece.count()));
    let mut columns = Columns::default()
        .array("plane", of_piece(&|piece| Some(trace.planes()[piece.plane].name)))
        .array("host", of_piece(&|piece| trace.planes()[piece.plane].host))
        .array("line", of_piece(&|piece| Some(line(piece).name)))
        .integer("line_id", line_ids)
        .array("name", of_kind(|kind| Some(kind.name)))
        .integer("start_ps", rows.iter().map(|event| event.start.map(ergometer_units::Picos::get)))
        .integer("duration_ps", rows.iter().map(|event| event.duration.get()))
        .array("module", of_kind(|kind| kind.module))
        .program("program_id", rows.iter().map(|event| trace.kind(event.kind).program))
        .array("op", of_kind(|kind| kind.op));
    let mut damage = None;
    if wanted.stats {
        let found = stats::columns(trace, &pieces, rows.len());
        damage = found.damage;
        if let Some(damage) = damage.filter(|_| !wanted.is_lenient) {
            return Err(stats::damaged(&damage));
        }
        for (name, column) in found.columns {
            columns = columns.array(format!("stat_{name}"), column);
        }
    }
    columns.finish().map(|table| (table, damage))
}

fn pieces(trace: &Trace, filter: &Filter) -> Vec<Piece> {
    let is_taken: Vec<bool> = trace.kinds().iter().map(|kind| filter.takes_kind(trace, kind)).collect();
    let (mut pieces, mut next) = (Vec::new(), 0);
    for (plane, found) in trace.planes().iter().enumerate() {
        let takes_plane = filter.takes_plane(trace, plane);
        let of_device = |ordinal: i64| filter.takes_device(trace, DeviceId { plane, ordinal: Some(ordinal) });
        let is_taken: Vec<bool> = trace
            .kinds()
            .iter()
            .zip(&is_taken)
            .map(|(kind, taken)| *taken && (takes_plane || kind.device_ordinal.is_some_and(of_device)))
            .collect();
        for (line, found) in found.lines.iter().enumerate() {
            let is_asked = |number: usize| {
                found
                    .event(number)
                    .is_some_and(|event| event.duration >= filter.min_duration && is_taken[event.kind.index()])
            };
            for first in (0..found.len()).step_by(PIECE) {
                let events = first..found.len().min(first + PIECE);
                let rows = events.map(|event| is_asked(event).then(|| (next, next += 1).0)).collect();
                pieces.push(Piece { plane, line, first, rows });
            }
        }
    }
    pieces
}
