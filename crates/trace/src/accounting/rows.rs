//! Accounts of events that share a name: ops, kernels, classes, or anything else that a kind of event decides.

use ergometer_units::Picos;
use rayon::prelude::*;
use rustc_hash::FxHashMap;

use super::account::{Account, Gathering};
use super::class::Class;
use super::filter::Filter;
use super::sweep::{Order, sweep};
use super::work::{self, Role};
use crate::table::{Kind, Line, Plane, ProgramId, Text, Trace};

/// What makes events one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The op, of a module.
    Op,
    /// The kernel: the event's own name.
    Kernel,
    /// The name of any event, work or not, as it stands on host threads too.
    Name,
    /// What it does.
    Class,
}

/// The events of a plane that share a label.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Which plane of the trace.
    pub plane: usize,
    /// What they share.
    pub label: Label,
    /// Their times.
    pub account: Account,
    /// Their self time as a part of all work on the plane (of all events for [`By::Name`]), from 0 to 1, before any
    /// filter; `None` where there is none.
    pub share: Option<f64>,
}

/// What the events of a row share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Label {
    /// The op, kernel or event; `None` of a class.
    pub name: Option<Text>,
    /// The module, where it is part of the label.
    pub module: Option<Text>,
    /// Its compilation.
    pub program: Option<ProgramId>,
    /// What they do.
    pub class: Class,
}

impl By {
    fn label(self, trace: &Trace, kind: &Kind) -> Label {
        let class = Class::of(trace, kind);
        let name = match self {
            Self::Op => Some(work::op(trace, kind)),
            Self::Kernel | Self::Name => Some(kind.name),
            Self::Class => None,
        };
        match self {
            Self::Op => Label { name, module: kind.module, program: kind.program, class },
            // A kernel is one code, whichever op launches it.
            Self::Kernel | Self::Name | Self::Class => Label { name, module: None, program: None, class },
        }
    }
}

/// One row a label and plane, longest self time first.
#[must_use]
pub fn rows(trace: &Trace, by: By, filter: &Filter) -> Vec<Row> {
    let mut places: FxHashMap<Label, u32> = FxHashMap::default();
    let mut labels = Vec::new();
    let mut groups = Vec::with_capacity(trace.kinds().len());
    for kind in trace.kinds() {
        let mut label = by.label(trace, kind);
        // Names are one row whatever class the op beneath them has; the first decides.
        if by != By::Class {
            let anything = Label { class: Class::Compute, ..label };
            label = places.get(&anything).map_or(label, |&place| labels[place as usize]);
        }
        let key = if by == By::Class { label } else { Label { class: Class::Compute, ..label } };
        groups.push(*places.entry(key).or_insert_with(|| {
            labels.push(label);
            (labels.len() - 1) as u32
        }));
    }
    let taken = filter.kinds(trace);
    let planes: Vec<(usize, &Plane)> =
        trace.planes().iter().enumerate().filter(|(_, plane)| filter.takes_plane(trace, plane)).collect();
    let mut rows: Vec<Row> = planes
        .into_par_iter()
        .flat_map_iter(|(number, plane)| {
            let is_work = match by {
                By::Name => vec![true; trace.kinds().len()],
                _ => work::kinds_of_work(trace, plane),
            };
            let selection = Selection { groups: &groups, count: labels.len(), is_work, taken: &taken, filter, by };
            let labels = &labels;
            let (accounts, all_self_ps) = selection.accounts(trace, plane);
            accounts.into_iter().map(move |(group, account)| Row {
                plane: number,
                label: labels[group],
                share: (all_self_ps > 0).then(|| account.self_time.get() as f64 / all_self_ps as f64),
                account,
            })
        })
        .collect();
    rows.sort_by(|left, right| {
        let longest = right.account.self_time.cmp(&left.account.self_time);
        longest.then(left.plane.cmp(&right.plane)).then_with(|| {
            let name = |row: &Row| row.label.name.map_or("", |name| trace.text(name)).to_owned();
            name(left).cmp(&name(right))
        })
    });
    rows
}

/// Which events of a plane go into which row.
struct Selection<'a> {
    /// Of every kind its row.
    groups: &'a [u32],
    count: usize,
    is_work: Vec<bool>,
    taken: &'a [bool],
    filter: &'a Filter,
    by: By,
}

impl Selection<'_> {
    fn group(&self, line: &Line, event: usize) -> Option<usize> {
        let kind = line.kind[event].index();
        let taken = self.is_work[kind] && self.taken[kind] && line.duration_ps[event] >= self.filter.min_duration.get();
        taken.then(|| self.groups[kind] as usize)
    }

    /// The accounts that have events, by the number of their row, and the self time of all work on the plane.
    fn accounts(&self, trace: &Trace, plane: &Plane) -> (Vec<(usize, Account)>, i64) {
        let lines: Vec<&Line> = plane
            .lines
            .iter()
            .filter(|line| self.by == By::Name || Role::of(trace, plane, line) == Role::Work)
            .filter(|line| !line.is_empty())
            .collect();
        // A row on one line needs no list of its intervals.
        let on_lines: Vec<Vec<bool>> = lines.par_iter().map(|line| self.groups_on(line)).collect();
        let line_counts: Vec<usize> =
            (0..self.count).map(|group| on_lines.iter().filter(|groups| groups[group]).count()).collect();
        let gathered: Vec<(Vec<Gathering>, i64)> = lines
            .par_iter()
            .map(|line| {
                let new = |&lines: &usize| {
                    if lines > 1 { Gathering::on_several_lines() } else { Gathering::on_one_line() }
                };
                let mut gatherings: Vec<Gathering> = line_counts.iter().map(new).collect();
                let all_self_ps = self.gather(line, &mut gatherings);
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
        (accounts, all_self_ps)
    }

    fn groups_on(&self, line: &Line) -> Vec<bool> {
        let mut groups = vec![false; self.count];
        for kind in &line.kind {
            if self.is_work[kind.index()] {
                groups[self.groups[kind.index()] as usize] = true;
            }
        }
        groups
    }

    /// Fills the rows from a line; returns the self time of all its work.
    fn gather(&self, line: &Line, gatherings: &mut [Gathering]) -> i64 {
        let order = Order::of(line);
        for event in order.iter() {
            if let Some(group) = self.group(line, event) {
                let start = line.start_ps[event];
                gatherings[group].place(super::interval::Interval { start, end: start + line.duration_ps[event] });
            }
        }
        let mut all_self_ps = 0_i64;
        sweep(line, &order, |event, _, self_ps| {
            if self.is_work[line.kind[event].index()] {
                all_self_ps = all_self_ps.saturating_add(self_ps);
            }
            if let Some(group) = self.group(line, event) {
                gatherings[group].add_self(self_ps);
            }
        });
        for unplaced in &line.unplaced {
            let event = unplaced.event as usize;
            if self.is_work[line.kind[event].index()] {
                all_self_ps = all_self_ps.saturating_add(line.duration_ps[event]);
            }
            if let Some(group) = self.group(line, event) {
                gatherings[group].count(line.duration_ps[event]);
            }
        }
        all_self_ps
    }
}

/// A sum of times.
pub(crate) fn sum(times: impl Iterator<Item = Picos>) -> Picos {
    times.fold(Picos::ZERO, |sum, time| Picos::new(sum.get().saturating_add(time.get())))
}
