//! Summarizes a trace: its planes and lines, their busy times, and the classes of work.

use ergometer_units::Picos;
use rayon::prelude::*;

use super::account::Span;
use super::class::Class;
use super::device::{Device, DeviceId};
use super::exposure::{Exposure, exposure};
use super::filter::Filter;
use super::gaps::work_union;
use super::interval::{Interval, Union};
use super::sweep::{Order, Visitor, crossings, sweep};
use crate::table::{Line, Plane, Text, Trace, UnplacedReason};

/// The times of all events of a plane.
#[derive(Debug, Clone, PartialEq)]
pub struct PlaneSummary {
    /// The index of the plane.
    pub plane: usize,
    /// The number of events.
    pub events: u64,
    /// From the first start to the last end; `None` if no event has a start time.
    pub span: Option<Span>,
    /// The time during which at least one event ran.
    pub busy: Picos,
    /// The sum of durations.
    pub total: Picos,
    /// The sum of self times.
    pub self_time: Picos,
    /// The number of events that begin inside another event of their line and end outside it.
    pub partial_overlaps: u64,
    /// Its lines.
    pub lines: Vec<LineSummary>,
    /// The work of each of its devices that has work with start times.
    pub work: Vec<WorkSummary>,
}

/// The times of all events of a line.
#[derive(Debug, Clone, PartialEq)]
pub struct LineSummary {
    /// Its name.
    pub name: Text,
    /// Its number.
    pub id: i64,
    /// The number of events.
    pub events: u64,
    /// From the first start to the last end.
    pub span: Option<Span>,
    /// The time during which at least one event ran.
    pub busy: Picos,
    /// The sum of durations.
    pub total: Picos,
    /// The sum of self times.
    pub self_time: Picos,
    /// The number of events that begin inside another event and end outside it.
    pub partial_overlaps: u64,
}

/// The work of a device: the ops on a host; elsewhere all events, except on lines that summarize other lines.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkSummary {
    /// The device.
    pub device: DeviceId,
    /// The number of events.
    pub events: u64,
    /// From the first start to the last end.
    pub span: Span,
    /// The time with work.
    pub busy: Picos,
    /// The time without work, between the first and the last event.
    pub idle: Picos,
    /// The number of gaps.
    pub gaps: u64,
    /// The longest gap.
    pub longest_gap: Picos,
    /// The times by class of work.
    pub classes: Vec<Exposure>,
    /// The busy share (0 to 1) of each of the equal parts of its span.
    pub timeline: Vec<f64>,
}

/// The summaries of all planes with events. The timeline of each device has `timeline_parts` parts.
#[must_use]
pub fn summary(trace: &Trace, timeline_parts: usize) -> Vec<PlaneSummary> {
    let planes: Vec<(usize, &Plane)> = trace.planes().iter().enumerate().collect();
    let summaries = planes.into_par_iter().map(|(number, plane)| plane_summary(number, plane));
    let mut summaries: Vec<PlaneSummary> = summaries.filter(|summary| summary.events > 0).collect();
    let devices = Device::all(trace, &Filter::default());
    let classes: Vec<Class> = trace.kinds().iter().map(|kind| Class::from_kind(trace, kind)).collect();
    let works: Vec<Option<WorkSummary>> =
        devices.par_iter().map(|device| work_summary(&classes, device, timeline_parts)).collect();
    for work in works.into_iter().flatten() {
        if let Some(summary) = summaries.iter_mut().find(|summary| summary.plane == work.device.plane) {
            summary.work.push(work);
        }
    }
    summaries
}

fn plane_summary(number: usize, plane: &Plane) -> PlaneSummary {
    let (lines, unions): (Vec<LineSummary>, Vec<Union>) = plane.lines.par_iter().map(line_summary).unzip();
    let union = Union::merged(unions);
    let add = |time: fn(&LineSummary) -> Picos| {
        Picos::new(lines.iter().fold(0, |sum: i64, line| sum.saturating_add(time(line).get())))
    };
    PlaneSummary {
        plane: number,
        events: lines.iter().map(|line| line.events).sum(),
        span: union.hull().map(Span::from),
        busy: Picos::new(union.length()),
        total: add(|line| line.total),
        self_time: add(|line| line.self_time),
        partial_overlaps: lines.iter().map(|line| line.partial_overlaps).sum(),
        lines,
        work: Vec::new(),
    }
}

/// Adds up the times of a line.
#[derive(Default)]
struct LineTotals {
    union: Union,
    total: i64,
    self_time: i64,
}

impl Visitor for LineTotals {
    type Note = ();

    fn open(&mut self, _: usize, interval: Interval) {
        self.total = self.total.saturating_add(interval.length());
        self.union.push(interval);
    }

    fn close(&mut self, (): (), self_ps: i64) {
        self.self_time = self.self_time.saturating_add(self_ps);
    }
}

fn line_summary(line: &Line) -> (LineSummary, Union) {
    let mut totals = LineTotals::default();
    let order = Order::by_start(line);
    let is_crossed = sweep(line, order.all(), &mut totals);
    let partial_overlaps = if is_crossed { crossings(line, &order) } else { 0 };
    let LineTotals { union, mut total, mut self_time } = totals;
    for unplaced in line.unplaced.iter().filter(|unplaced| matches!(unplaced.why, UnplacedReason::Aggregated(_))) {
        let duration = line.duration_ps[unplaced.event as usize];
        total = total.saturating_add(duration);
        self_time = self_time.saturating_add(duration);
    }
    let summary = LineSummary {
        name: line.display_name.unwrap_or(line.name),
        id: line.id,
        events: line.len() as u64,
        span: union.hull().map(Span::from),
        busy: Picos::new(union.length()),
        total: Picos::new(total),
        self_time: Picos::new(self_time),
        partial_overlaps,
    };
    (summary, union)
}

fn work_summary(classes: &[Class], device: &Device<'_>, timeline_parts: usize) -> Option<WorkSummary> {
    let union = work_union(device);
    let hull = union.hull()?;
    Some(WorkSummary {
        device: device.id,
        events: device.work().count() as u64,
        span: hull.into(),
        busy: Picos::new(union.length()),
        idle: Picos::new(hull.length() - union.length()),
        gaps: union.gaps().count() as u64,
        longest_gap: Picos::new(union.gaps().map(Interval::length).max().unwrap_or(0)),
        classes: exposure(classes, device),
        timeline: timeline(&union, hull, timeline_parts),
    })
}

/// The share of each of `parts` equal parts that is covered.
fn timeline(union: &Union, hull: Interval, parts: usize) -> Vec<f64> {
    let length = i128::from(hull.length());
    // A part is at least a picosecond long.
    let parts = parts.min(usize::try_from(length).unwrap_or(usize::MAX));
    if parts == 0 {
        return Vec::new();
    }
    let edge = |part: usize| hull.start + i64::try_from(length * part as i128 / parts as i128).unwrap_or(i64::MAX);
    let mut covered = vec![0_i64; parts];
    for interval in union.parts() {
        let first = i128::from(interval.start - hull.start) * parts as i128 / length;
        let mut part = usize::try_from(first).unwrap_or(0).min(parts - 1);
        // Edges are rounded down, so an interval may begin one part earlier.
        while part > 0 && edge(part) > interval.start {
            part -= 1;
        }
        while part < parts && edge(part) < interval.end {
            covered[part] += (edge(part + 1).min(interval.end) - edge(part).max(interval.start)).max(0);
            part += 1;
        }
    }
    (0..parts).map(|part| covered[part] as f64 / (edge(part + 1) - edge(part)).max(1) as f64).collect()
}
