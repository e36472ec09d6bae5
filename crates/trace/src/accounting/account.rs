//! Adds up the times of a set of events.

use ergometer_units::Picos;

use super::interval::{Interval, Union};
use crate::table::UnplacedReason;
use ergometer_statistics::percentiles;

/// The times of a set of events.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Account {
    /// The number of events.
    pub events: u64,
    /// The sum of their durations.
    pub total: Picos,
    /// The sum of their durations without the time of their children on the same line.
    pub self_time: Picos,
    /// The time during which at least one of them ran (the length of their union).
    pub busy: Picos,
    /// From the first start to the last end; `None` if no event has a start time.
    pub span: Option<Span>,
    /// The shortest duration.
    pub min: Picos,
    /// The median duration in picoseconds.
    pub median_ps: f64,
    /// The 90th percentile of durations in picoseconds.
    pub p90_ps: f64,
    /// The longest duration.
    pub max: Picos,
}

/// An interval, from the zero of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// The start.
    pub start: Picos,
    /// The end.
    pub end: Picos,
}

impl Span {
    /// The length of the interval.
    #[must_use]
    pub fn length(self) -> Picos {
        self.end - self.start
    }
}

impl From<Interval> for Span {
    fn from(interval: Interval) -> Self {
        Self { start: Picos::new(interval.start), end: Picos::new(interval.end) }
    }
}

/// Adds up events to an [`Account`].
#[derive(Debug, Clone, Default)]
pub(crate) struct AccountBuilder {
    total_ps: i64,
    self_ps: i64,
    first: Option<Interval>,
    durations: Vec<i64>,
    /// The number of events without times.
    timeless: u64,
    /// The union so far: its last interval is `open`; the others are in `busy_ps` or `kept`.
    busy_ps: i64,
    open: Option<Interval>,
    kept: Option<Vec<Interval>>,
}

impl AccountBuilder {
    /// For events of one line, whose union is only measured.
    pub(crate) fn on_one_line() -> Self {
        Self::default()
    }

    /// For events of several lines, whose unions are kept to be merged.
    pub(crate) fn on_several_lines() -> Self {
        Self { kept: Some(Vec::new()), ..Self::default() }
    }

    /// Adds an event. The events of a line must come in order of start.
    pub(crate) fn place(&mut self, interval: Interval) {
        self.durations.push(interval.length());
        self.total_ps = self.total_ps.saturating_add(interval.length());
        match &mut self.open {
            Some(open) if interval.start <= open.end => open.end = open.end.max(interval.end),
            open => {
                if let Some(closed) = open.replace(interval) {
                    self.keep(closed);
                }
            }
        }
        let hull = self.first.get_or_insert(interval);
        hull.start = hull.start.min(interval.start);
        hull.end = hull.end.max(interval.end);
    }

    /// Adds an event without a start time. Only the duration of an aggregated event is used.
    pub(crate) fn count(&mut self, why: UnplacedReason, duration_ps: i64) {
        if matches!(why, UnplacedReason::Aggregated(_)) {
            self.durations.push(duration_ps);
            self.total_ps = self.total_ps.saturating_add(duration_ps);
            self.self_ps = self.self_ps.saturating_add(duration_ps);
        } else {
            self.timeless += 1;
        }
    }

    pub(crate) fn add_self(&mut self, self_ps: i64) {
        self.self_ps = self.self_ps.saturating_add(self_ps);
    }

    fn keep(&mut self, closed: Interval) {
        match &mut self.kept {
            Some(kept) => kept.push(closed),
            None => self.busy_ps += closed.length(),
        }
    }

    /// The account of the events of several lines, or of several parts of lines that do not touch.
    pub(crate) fn finish(lines: Vec<Self>) -> Account {
        let mut all = Self::default();
        let mut unions = Vec::new();
        for mut line in lines {
            if let Some(open) = line.open.take() {
                line.keep(open);
            }
            all.total_ps = all.total_ps.saturating_add(line.total_ps);
            all.self_ps = all.self_ps.saturating_add(line.self_ps);
            all.busy_ps += line.busy_ps;
            all.timeless += line.timeless;
            if let Some(hull) = line.first {
                let first = all.first.get_or_insert(hull);
                first.start = first.start.min(hull.start);
                first.end = first.end.max(hull.end);
            }
            if all.durations.is_empty() {
                all.durations = line.durations;
            } else {
                all.durations.extend_from_slice(&line.durations);
            }
            unions.extend(line.kept.map(Union::from_intervals));
        }
        all.busy_ps += Union::merged(unions).length();
        let [median_ps, p90_ps] = percentiles(&mut all.durations, [50.0, 90.0]).unwrap_or_default();
        Account {
            events: all.durations.len() as u64 + all.timeless,
            total: Picos::new(all.total_ps),
            self_time: Picos::new(all.self_ps),
            busy: Picos::new(all.busy_ps),
            span: all.first.map(Span::from),
            min: Picos::new(all.durations.iter().copied().min().unwrap_or(0)),
            median_ps,
            p90_ps,
            max: Picos::new(all.durations.iter().copied().max().unwrap_or(0)),
        }
    }
}
