//! Finds the gaps in the work of a device, and the events before and after each.

use ergometer_units::Picos;
use rayon::prelude::*;

use super::account::Span;
use super::device::{Device, DeviceId, EventSelection};
use super::filter::Filter;
use super::interval::{Interval, Union};
use crate::table::{KindId, Line, Trace};

/// An interval in which a device was idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The device.
    pub device: DeviceId,
    /// The start and the end of the gap.
    pub span: Span,
    /// The kind of the event that ended last before it.
    pub before: KindId,
    /// The kind of the event that starts after it.
    pub after: KindId,
}

/// An event of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    interval: Interval,
    kind: KindId,
}

/// All work of a device, by start.
fn pieces(device: &Device<'_>) -> Vec<Piece> {
    let piece = |(_, line, event): (usize, &Line, usize)| {
        let start = line.start_ps[event];
        Piece { interval: Interval { start, end: start + line.duration_ps[event] }, kind: line.kind[event] }
    };
    // A list that grows would need twice the memory.
    let mut pieces = Vec::with_capacity(device.lines.iter().map(|(_, line)| line.len()).sum());
    pieces.extend(device.placed_work().map(piece));
    // A stable sort, because the lines are nearly sorted and merging sorted runs is cheap.
    pieces.sort_by_key(|piece| piece.interval.start);
    pieces
}

/// The union of all work of a device.
pub(crate) fn work_union(device: &Device<'_>) -> Union {
    let mut union = Union::default();
    for piece in pieces(device) {
        union.push(piece.interval);
    }
    union
}

/// All gaps, the longest first. The filter's shortest duration applies to the gap, and its names to the events before
/// and after the gap.
#[must_use]
pub fn gaps(trace: &Trace, filter: &Filter) -> Vec<Gap> {
    let selection = EventSelection::new(trace, filter);
    let mut gaps: Vec<Gap> = Device::all(trace, filter)
        .par_iter()
        .flat_map_iter(|device| device_gaps(device.id, &pieces(device)))
        .filter(|gap| gap.span.length() >= filter.min_duration)
        .filter(|gap| selection.has_kind(gap.before) || selection.has_kind(gap.after))
        .collect();
    gaps.sort_by_key(|gap| (std::cmp::Reverse(gap.span.length()), gap.device, gap.span.start));
    gaps
}

fn device_gaps(device: DeviceId, pieces: &[Piece]) -> Vec<Gap> {
    let mut gaps = Vec::new();
    let mut last: Option<Piece> = None;
    for piece in pieces {
        if let Some(last) = last.filter(|last| piece.interval.start > last.interval.end) {
            let span = Span { start: Picos::new(last.interval.end), end: Picos::new(piece.interval.start) };
            gaps.push(Gap { device, span, before: last.kind, after: piece.kind });
        }
        if last.is_none_or(|last| piece.interval.end >= last.interval.end) {
            last = Some(*piece);
        }
    }
    gaps
}
