//! Events of a plane into groups, and the account of each: one sort and one pass a line, in parallel.

use std::ops::Range;

use ergometer_units::Picos;
use rayon::prelude::*;

use super::account::{Account, Gathering};
use super::interval::Interval;
use super::sweep::{Order, Visitor, sweep};
use crate::table::Line;

/// Which events go into which group.
pub(super) struct Grouping<'a, G> {
    /// The lines, with their numbers on the plane.
    pub(super) lines: Vec<(usize, &'a Line)>,
    /// How many groups there may be.
    pub(super) count: usize,
    /// Of every kind whether its events are work: others are in no group, though they may hold and be held.
    pub(super) is_work: &'a [bool],
    /// The group of an event: the number of its line, the line, its number there.
    pub(super) group: G,
}

/// The accounts of groups that have events.
pub(super) struct Accounts {
    /// By the group's number, in order.
    pub(super) accounts: Vec<(usize, Account)>,
    /// The self time of all work, in a group or not.
    pub(super) all_self: Picos,
}

impl<G: Fn(usize, &Line, usize) -> Option<usize> + Sync> Grouping<'_, G> {
    pub(super) fn accounts(mut self) -> Accounts {
        // Threads of a host have no work at all, mostly.
        let is_work = self.is_work;
        self.lines.retain(|(_, line)| line.kind.iter().any(|kind| is_work[kind.index()]));
        self.on_lines_of_work()
    }

    fn on_lines_of_work(&self) -> Accounts {
        // A group on one line needs no list of its intervals.
        let on_lines: Vec<Vec<bool>> =
            self.lines.par_iter().map(|&(number, line)| self.groups_on(number, line)).collect();
        let line_counts: Vec<usize> =
            (0..self.count).map(|group| on_lines.iter().filter(|groups| groups[group]).count()).collect();
        let orders: Vec<(usize, &Line, Order)> =
            self.lines.par_iter().map(|&(number, line)| (number, line, Order::of(line))).collect();
        let parts: Vec<Part<'_>> = orders.par_iter().flat_map_iter(|order| self.parts(order)).collect();
        let gathered: Vec<(Vec<Gathering>, i64)> = parts
            .into_par_iter()
            .map(|part| {
                let new = |&lines: &usize| {
                    if lines > 1 { Gathering::on_several_lines() } else { Gathering::on_one_line() }
                };
                let mut gatherings: Vec<Gathering> = line_counts.iter().map(new).collect();
                let all_self_ps = self.gather(&part, &mut gatherings);
                (gatherings, all_self_ps)
            })
            .collect();
        let all_self_ps = gathered.iter().fold(0_i64, |sum, (_, self_ps)| sum.saturating_add(*self_ps));
        let mut by_group: Vec<Vec<Gathering>> = (0..self.count).map(|_| Vec::new()).collect();
        for (gatherings, _) in gathered {
            for (group, gathering) in gatherings.into_iter().enumerate() {
                if !gathering.is_empty() {
                    by_group[group].push(gathering);
                }
            }
        }
        let filled: Vec<(usize, Vec<Gathering>)> =
            by_group.into_iter().enumerate().filter(|(_, gatherings)| !gatherings.is_empty()).collect();
        let accounts =
            filled.into_par_iter().map(|(group, gatherings)| (group, Gathering::finish(gatherings))).collect();
        Accounts { accounts, all_self: Picos::new(all_self_ps) }
    }

    fn is_work(&self, line: &Line, event: usize) -> bool {
        self.is_work[line.kind[event].index()]
    }

    fn group(&self, number: usize, line: &Line, event: usize) -> Option<usize> {
        if self.is_work(line, event) { (self.group)(number, line, event) } else { None }
    }

    fn groups_on(&self, number: usize, line: &Line) -> Vec<bool> {
        let mut groups = vec![false; self.count];
        if self.lines.len() == 1 {
            return groups;
        }
        for event in 0..line.len() {
            if let Some(group) = self.group(number, line, event) {
                groups[group] = true;
            }
        }
        groups
    }

    /// A line in parts that can be passed over one beside the other.
    fn parts<'o>(&self, (number, line, order): &'o (usize, &'o Line, Order)) -> Vec<Part<'o>> {
        let about = if self.count > MANY_GROUPS { usize::MAX } else { PART };
        let ranges = order.cut(line, about);
        let part = |(place, range)| Part { number: *number, line, order, range, is_first: place == 0 };
        ranges.into_iter().enumerate().map(part).collect()
    }

    /// Fills the groups from a part of a line; returns the self time of all its work.
    fn gather(&self, part: &Part<'_>, gatherings: &mut [Gathering]) -> i64 {
        let &Part { number, line, .. } = part;
        let mut gatherer = Gatherer { grouping: self, number, line, gatherings, all_self_ps: 0 };
        sweep(line, part.order.range(part.range.clone()), &mut gatherer);
        let mut all_self_ps = gatherer.all_self_ps;
        for unplaced in line.unplaced.iter().filter(|_| part.is_first) {
            let event = unplaced.event as usize;
            if self.is_work(line, event) {
                all_self_ps = all_self_ps.saturating_add(line.duration_ps[event]);
            }
            if let Some(group) = self.group(number, line, event) {
                gatherings[group].count(line.duration_ps[event]);
            }
        }
        all_self_ps
    }
}

/// So many events are one part, and with more groups than that a line is one: each part has an account of each group.
const PART: usize = 1 << 15;
const MANY_GROUPS: usize = 1 << 12;

/// A part of a line, with nothing going on at its ends.
struct Part<'a> {
    number: usize,
    line: &'a Line,
    order: &'a Order,
    range: Range<usize>,
    /// The first also has what has no place in time.
    is_first: bool,
}

/// Takes the events of a line into their groups.
struct Gatherer<'a, G> {
    grouping: &'a Grouping<'a, G>,
    number: usize,
    line: &'a Line,
    gatherings: &'a mut [Gathering],
    all_self_ps: i64,
}

/// Where the self time of an event goes.
enum To {
    Group(usize),
    /// It is work of no group.
    Work,
    Nothing,
}

impl<G: Fn(usize, &Line, usize) -> Option<usize> + Sync> Visitor for Gatherer<'_, G> {
    type Note = To;

    fn open(&mut self, event: usize, interval: Interval) -> To {
        if !self.grouping.is_work(self.line, event) {
            return To::Nothing;
        }
        match (self.grouping.group)(self.number, self.line, event) {
            Some(group) => {
                self.gatherings[group].place(interval);
                To::Group(group)
            }
            None => To::Work,
        }
    }

    fn close(&mut self, to: To, self_ps: i64) {
        match to {
            To::Nothing => return,
            To::Work => {}
            To::Group(group) => self.gatherings[group].add_self(self_ps),
        }
        self.all_self_ps = self.all_self_ps.saturating_add(self_ps);
    }
}

/// A time as a part of another; `None` where that is nothing.
pub(super) fn share(part: Picos, whole: Picos) -> Option<f64> {
    (whole > Picos::ZERO).then(|| part.get() as f64 / whole.get() as f64)
}
