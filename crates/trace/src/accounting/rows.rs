//! Accounts of events that share a name: ops, kernels, classes, or anything else that a kind of event decides.

use rayon::prelude::*;
use rustc_hash::FxHashMap;

use super::account::Account;
use super::class::Class;
use super::filter::Filter;
use super::grouping::{Accounts, Grouping, share};
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
        let label = by.label(trace, kind);
        // A name is one row, whatever the classes of its events.
        let key = if by == By::Class { label } else { Label { class: Class::Compute, ..label } };
        let place = *places.entry(key).or_insert_with(|| {
            labels.push(label);
            (labels.len() - 1) as u32
        });
        let class = &mut labels[place as usize].class;
        *class = class.with(label.class);
        groups.push(place);
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
            let takes_line = |line: &Line| by == By::Name || Role::of(trace, plane, line) == Role::Work;
            let lines = plane.lines.iter().enumerate().filter(|(_, line)| takes_line(line)).collect();
            let grouping = Grouping {
                lines,
                count: labels.len(),
                is_work: &is_work,
                group: |_, line: &Line, event: usize| {
                    let kind = line.kind[event].index();
                    let is_taken = taken[kind] && line.duration_ps[event] >= filter.min_duration.get();
                    is_taken.then(|| groups[kind] as usize)
                },
            };
            let Accounts { accounts, all_self } = grouping.accounts();
            let labels = &labels;
            accounts.into_iter().map(move |(group, account)| Row {
                plane: number,
                label: labels[group],
                share: share(account.self_time, all_self),
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
