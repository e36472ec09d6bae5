//! Events of a plane into groups, and the account of each: one sort and two passes a line, lines in parallel.

use ergometer_units::Picos;
use rayon::prelude::*;

use super::account::{Account, Gathering};
use super::interval::Interval;
use super::sweep::{Order, sweep};
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
    pub(super) fn accounts(&self) -> Accounts {
        // A group on one line needs no list of its intervals.
        let on_lines: Vec<Vec<bool>> =
            self.lines.par_iter().map(|&(number, line)| self.groups_on(number, line)).collect();
        let line_counts: Vec<usize> =
            (0..self.count).map(|group| on_lines.iter().filter(|groups| groups[group]).count()).collect();
        let gathered: Vec<(Vec<Gathering>, i64)> = self
            .lines
            .par_iter()
            .map(|&(number, line)| {
                let new = |&lines: &usize| {
                    if lines > 1 { Gathering::on_several_lines() } else { Gathering::on_one_line() }
                };
                let mut gatherings: Vec<Gathering> = line_counts.iter().map(new).collect();
                let all_self_ps = self.gather(number, line, &mut gatherings);
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

    /// Fills the groups from a line; returns the self time of all its work.
    fn gather(&self, number: usize, line: &Line, gatherings: &mut [Gathering]) -> i64 {
        let order = Order::of(line);
        for event in order.iter() {
            if let Some(group) = self.group(number, line, event) {
                let start = line.start_ps[event];
                gatherings[group].place(Interval { start, end: start + line.duration_ps[event] });
            }
        }
        let mut all_self_ps = 0_i64;
        sweep(line, &order, |event, _, self_ps| {
            if self.is_work(line, event) {
                all_self_ps = all_self_ps.saturating_add(self_ps);
            }
            if let Some(group) = self.group(number, line, event) {
                gatherings[group].add_self(self_ps);
            }
        });
        for unplaced in &line.unplaced {
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

/// A time as a part of another; `None` where that is nothing.
pub(super) fn share(part: Picos, whole: Picos) -> Option<f64> {
    (whole > Picos::ZERO).then(|| part.get() as f64 / whole.get() as f64)
}
