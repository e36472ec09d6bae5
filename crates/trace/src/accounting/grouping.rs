//! Groups the events of a device and computes the account of each group, with one sort and one pass per line, in
//! parallel.

use std::ops::Range;

use ergometer_units::Picos;
use foldhash::HashMap;
use rayon::prelude::*;

use super::account::{Account, AccountBuilder};
use super::device::Device;
use super::interval::Interval;
use super::sweep::{Order, Visitor, sweep};
use crate::table::{Line, UnplacedReason, number};

/// Assigns the events of a device to groups.
pub(super) struct Grouping<'a, G> {
    /// The device. Events that are not its work belong to no group, but may be parents and children.
    pub(super) device: &'a Device<'a>,
    /// The number of groups.
    pub(super) count: usize,
    /// The group of an event, from the index of its line, the line, and its index on the line.
    pub(super) group: G,
}

/// The accounts of groups with events.
pub(super) struct Accounts {
    /// The number of each group and its account, in order.
    pub(super) accounts: Vec<(usize, Account)>,
    /// The self time of all work, inside and outside groups.
    pub(super) all_self: Picos,
}

impl<G: Fn(usize, &Line, usize) -> Option<usize> + Sync> Grouping<'_, G> {
    pub(super) fn accounts(&self) -> Accounts {
        let lines = &self.device.lines;
        let orders: Vec<OrderedLine<'_>> = lines
            .par_iter()
            .map(|&(number, line)| OrderedLine { number, line, order: Order::by_start(line) })
            .collect();
        let parts: Vec<LinePart<'_>> = orders.par_iter().flat_map_iter(OrderedLine::parts).collect();
        let gathered: Vec<PartGroups> = parts.into_par_iter().map(|part| self.gather(&part)).collect();
        let all_self_ps = gathered.iter().fold(0_i64, |sum, part| sum.saturating_add(part.all_self_ps));
        let mut groups: Vec<(u32, AccountBuilder)> = gathered.into_iter().flat_map(|part| part.groups).collect();
        // A stable sort keeps the parts of a group in order.
        groups.sort_by_key(|(group, _)| *group);
        let mut by_group: Vec<(u32, Vec<AccountBuilder>)> = Vec::new();
        for (group, gathering) in groups {
            match by_group.last_mut() {
                Some((last, gatherings)) if *last == group => gatherings.push(gathering),
                _ => by_group.push((group, vec![gathering])),
            }
        }
        let finish =
            |(group, gatherings): (u32, Vec<AccountBuilder>)| (group as usize, AccountBuilder::finish(gatherings));
        Accounts { accounts: by_group.into_par_iter().map(finish).collect(), all_self: Picos::new(all_self_ps) }
    }

    fn is_work(&self, line: &Line, event: usize) -> bool {
        self.device.is_work[line.kind[event].index()]
    }

    /// Computes the groups in a part of a line.
    fn gather(&self, part: &LinePart<'_>) -> PartGroups {
        let LinePart { line: OrderedLine { number, line, order }, range, is_first } = part;
        let (number, line) = (*number, *line);
        let mut visitor = GroupVisitor {
            grouping: self,
            number,
            line,
            slots: Slots::new(self.count, range.len()),
            groups: Vec::new(),
            all_self_ps: 0,
        };
        sweep(line, order.range(range.clone()), &mut visitor);
        for unplaced in line.unplaced.iter().filter(|_| *is_first) {
            let event = unplaced.event as usize;
            // An aggregated event has a duration. The times of events out of range and damaged events are not reliable.
            let duration =
                if matches!(unplaced.why, UnplacedReason::Aggregated(_)) { line.duration_ps[event] } else { 0 };
            if self.is_work(line, event) {
                visitor.all_self_ps = visitor.all_self_ps.saturating_add(duration);
                if let Some(group) = (self.group)(number, line, event) {
                    visitor.slot(group).count(unplaced.why, duration);
                }
            }
        }
        PartGroups { groups: visitor.groups, all_self_ps: visitor.all_self_ps }
    }
}

/// The approximate number of events in a part.
const PART: usize = 1 << 15;

/// A line and its events by start.
struct OrderedLine<'a> {
    number: usize,
    line: &'a Line,
    order: Order,
}

impl OrderedLine<'_> {
    /// Cuts the line into parts that can be processed in parallel.
    fn parts(&self) -> Vec<LinePart<'_>> {
        let ranges = self.order.cut(self.line, PART).into_iter();
        ranges.enumerate().map(|(place, range)| LinePart { line: self, range, is_first: place == 0 }).collect()
    }
}

/// A part of a line; no event crosses its ends.
struct LinePart<'a> {
    line: &'a OrderedLine<'a>,
    range: Range<usize>,
    /// Whether it is the first part, which also has the events without start times.
    is_first: bool,
}

/// The groups in a part of a line.
struct PartGroups {
    groups: Vec<(u32, AccountBuilder)>,
    all_self_ps: i64,
}

/// Maps groups to their index in a part. There may be many groups, of which a part has few.
enum Slots {
    Table(Vec<u32>),
    Map(HashMap<u32, u32>),
}

const EMPTY: u32 = u32::MAX;

impl Slots {
    fn new(groups: usize, events: usize) -> Self {
        if groups <= 4 * events + 64 { Self::Table(vec![EMPTY; groups]) } else { Self::Map(HashMap::default()) }
    }

    /// The slot of a group, which becomes `next` if it has none.
    fn get(&mut self, group: usize, next: u32) -> u32 {
        match self {
            Self::Table(slots) => {
                if slots[group] == EMPTY {
                    slots[group] = next;
                }
                slots[group]
            }
            Self::Map(slots) => *slots.entry(number(group)).or_insert(next),
        }
    }
}

/// Adds the events of a part to their groups.
struct GroupVisitor<'a, G> {
    grouping: &'a Grouping<'a, G>,
    number: usize,
    line: &'a Line,
    slots: Slots,
    groups: Vec<(u32, AccountBuilder)>,
    all_self_ps: i64,
}

impl<G> GroupVisitor<'_, G> {
    fn slot(&mut self, group: usize) -> &mut AccountBuilder {
        let slot = self.slot_number(group);
        &mut self.groups[slot].1
    }

    fn slot_number(&mut self, group: usize) -> usize {
        let next = number(self.groups.len());
        let slot = self.slots.get(group, next);
        if slot == next {
            // The union of one line is only measured; the unions of several lines are kept to be merged.
            let is_one = self.grouping.device.lines.len() == 1;
            let gathering = if is_one { AccountBuilder::on_one_line() } else { AccountBuilder::on_several_lines() };
            self.groups.push((number(group), gathering));
        }
        slot as usize
    }
}

/// The target of the self time of an event.
enum SelfTimeTarget {
    Slot(usize),
    /// Work outside groups.
    Work,
    Nothing,
}

impl<G: Fn(usize, &Line, usize) -> Option<usize> + Sync> Visitor for GroupVisitor<'_, G> {
    type Note = SelfTimeTarget;

    fn open(&mut self, event: usize, interval: Interval) -> SelfTimeTarget {
        if !self.grouping.is_work(self.line, event) {
            return SelfTimeTarget::Nothing;
        }
        match (self.grouping.group)(self.number, self.line, event) {
            Some(group) => {
                let slot = self.slot_number(group);
                self.groups[slot].1.place(interval);
                SelfTimeTarget::Slot(slot)
            }
            None => SelfTimeTarget::Work,
        }
    }

    fn close(&mut self, to: SelfTimeTarget, self_ps: i64) {
        match to {
            SelfTimeTarget::Nothing => return,
            SelfTimeTarget::Work => {}
            SelfTimeTarget::Slot(slot) => self.groups[slot].1.add_self(self_ps),
        }
        self.all_self_ps = self.all_self_ps.saturating_add(self_ps);
    }
}

/// A time as a share of another; `None` if that is zero.
pub(super) fn share(part: Picos, whole: Picos) -> Option<f64> {
    (whole > Picos::ZERO).then(|| part.get() as f64 / whole.get() as f64)
}
