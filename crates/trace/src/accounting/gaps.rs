//! Idle time: where a device had nothing to do between its first and its last work, and what stood around it.

use ergometer_units::Picos;
use rayon::prelude::*;

use super::account::Span;
use super::filter::Filter;
use super::interval::{Interval, Union};
use super::work::{self, Role};
use crate::table::{KindId, Plane, Trace};

/// A stretch of time in which a device had nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// Which plane of the trace.
    pub plane: usize,
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

/// All work of a plane in order of start.
fn pieces(trace: &Trace, plane: &Plane) -> Vec<Piece> {
    let is_work = work::kinds_of_work(trace, plane);
    let mut pieces = Vec::new();
    for line in plane.lines.iter().filter(|line| Role::of(trace, plane, line) == Role::Work) {
        for event in (0..line.len()).filter(|&event| is_work[line.kind[event].index()]) {
            if line.why_unplaced(event).is_none() {
                let start = line.start_ps[event];
                let interval = Interval { start, end: start + line.duration_ps[event] };
                pieces.push(Piece { interval, kind: line.kind[event] });
            }
        }
    }
    // Stable: the lines are nearly sorted, and merging sorted runs is cheap.
    pieces.sort_by_key(|piece| piece.interval.start);
    pieces
}

/// The union of all work of a plane.
pub(crate) fn work_union(trace: &Trace, plane: &Plane) -> Union {
    let mut union = Union::default();
    for piece in pieces(trace, plane) {
        union.push(piece.interval);
    }
    union
}

/// Every gap, longest first. Of the filter, the shortest duration is that of a gap, and names are those of what stands on
/// either side.
#[must_use]
pub fn gaps(trace: &Trace, filter: &Filter) -> Vec<Gap> {
    let taken = filter.kinds(trace);
    let mut gaps: Vec<Gap> = trace
        .planes()
        .par_iter()
        .enumerate()
        .filter(|(_, plane)| filter.takes_plane(trace, plane))
        .flat_map_iter(|(number, plane)| gaps_of(number, &pieces(trace, plane)))
        .filter(|gap| gap.span.length() >= filter.min_duration)
        .filter(|gap| taken[gap.before.index()] || taken[gap.after.index()])
        .collect();
    gaps.sort_by_key(|gap| (std::cmp::Reverse(gap.span.length()), gap.plane, gap.span.start));
    gaps
}

fn gaps_of(plane: usize, pieces: &[Piece]) -> Vec<Gap> {
    let mut gaps = Vec::new();
    let mut last: Option<Piece> = None;
    for piece in pieces {
        if let Some(last) = last.filter(|last| piece.interval.start > last.interval.end) {
            let span = Span { start: Picos::new(last.interval.end), end: Picos::new(piece.interval.start) };
            gaps.push(Gap { plane, span, before: last.kind, after: piece.kind });
        }
        if last.is_none_or(|last| piece.interval.end >= last.interval.end) {
            last = Some(*piece);
        }
    }
    gaps
}
