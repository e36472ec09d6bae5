//! Idle time: where a device had nothing to do between its first and its last work, and what stood around it.

use ergometer_units::Picos;
use rayon::prelude::*;

use super::account::Span;
use super::device::{Chosen, Device, DeviceId};
use super::filter::Filter;
use super::interval::{Interval, Union};
use crate::table::{KindId, Line, Trace};

/// A stretch of time in which a device had nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// Which device.
    pub device: DeviceId,
    /// From when to when.
    pub span: Span,
    /// What ended last before it.
    pub before: KindId,
    /// What starts after it.
    pub after: KindId,
}

/// A piece of work on a plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    interval: Interval,
    kind: KindId,
}

/// All work of a device in order of start.
fn pieces(device: &Device<'_>) -> Vec<Piece> {
    let piece = |(_, line, event): (usize, &Line, usize)| {
        let start = line.start_ps[event];
        Piece { interval: Interval { start, end: start + line.duration_ps[event] }, kind: line.kind[event] }
    };
    let mut pieces: Vec<Piece> = device.placed_work().map(piece).collect();
    // Stable: the lines are nearly sorted, and merging sorted runs is cheap.
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

/// Every gap, longest first. Of the filter, the shortest duration is that of a gap, and names are those of what stands on
/// either side.
#[must_use]
pub fn gaps(trace: &Trace, filter: &Filter) -> Vec<Gap> {
    let chosen = Chosen::new(trace, filter);
    let mut gaps: Vec<Gap> = Device::all(trace, filter)
        .par_iter()
        .flat_map_iter(|device| gaps_of(device.id, &pieces(device)))
        .filter(|gap| gap.span.length() >= filter.min_duration)
        .filter(|gap| chosen.has_kind(gap.before) || chosen.has_kind(gap.after))
        .collect();
    gaps.sort_by_key(|gap| (std::cmp::Reverse(gap.span.length()), gap.device, gap.span.start));
    gaps
}

fn gaps_of(device: DeviceId, pieces: &[Piece]) -> Vec<Gap> {
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
