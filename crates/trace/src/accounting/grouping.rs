//! Events of a plane into groups, and the account of each: one sort and one pass a line, in parallel.

use std::ops::Range;

use ergometer_units::Picos;
use foldhash::HashMap;
use rayon::prelude::*;

use super::account::{Account, Gathering};
use super::device::Device;
use super::interval::Interval;
use super::sweep::{Order, Visitor, sweep};
use crate::table::{Line, Why, number};

/// Which events go into which group.
pub(super) struct Grouping<'a, G> {
    /// The device: what is no work of it is in no group, though it may hold and be held.
    pub(super) device: &'a Device<'a>,
    /// How many groups there may be.
    pub(super) count: usize,
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
        let lines = &self.device.lines;
        let orders: Vec<Ordered<'_>> =
            lines.par_iter().map(|&(number, line)| Ordered { number, line, order: Order::of(line) }).collect();
        let parts: Vec<Part<'_>> = orders.par_iter().flat_map_iter(Ordered::parts).collect();
        let gathered: Vec<Gathered> = parts.into_par_iter().map(|part| self.gather(&part)).collect();
        let all_self_ps = gathered.iter().fold(0_i64, |sum, part| sum.saturating_add(part.all_self_ps));
        let mut groups: Vec<(u32, Gathering)> = gathered.into_iter().flat_map(|part| part.groups).collect();
        // Stable: the parts of a group stay in order.
        groups.sort_by_key(|(group, _)| *group);
        let mut by_group: Vec<(u32, Vec<Gathering>)> = Vec::new();
        for (group, gathering) in groups {
            match by_group.last_mut() {
                Some((last, gatherings)) if *last == group => gatherings.push(gathering),
                _ => by_group.push((group, vec![gathering])),
            }
        }
        let finish = |(group, gatherings): (u32, Vec<Gathering>)| (group as usize, Gathering::finish(gatherings));
        Accounts { accounts: by_group.into_par_iter().map(finish).collect(), all_self: Picos::new(all_self_ps) }
    }

    fn is_work(&self, line: &Line, event: usize) -> bool {
        self.device.is_work[line.kind[event].index()]
    }

    /// Fills the groups that a part of a line has.
    fn gather(&self, part: &Part<'_>) -> Gathered {
        let Part { of: Ordered { number, line, order }, range, is_first } = part;
        let (number, line) = (*number, *line);
        let mut gatherer = Gatherer {
            grouping: self,
            number,
            line,
            slots: Slots::new(self.count, range.len()),
            groups: Vec::new(),
            all_self_ps: 0,
        };
        sweep(line, order.range(range.clone()), &mut gatherer);
        for unplaced in line.unplaced.iter().filter(|_| *is_first) {
            let event = unplaced.event as usize;
            // What stands for several has its time; what is out of range or damaged has none that could be believed.
            let duration = if matches!(unplaced.why, Why::Aggregated(_)) { line.duration_ps[event] } else { 0 };
            if self.is_work(line, event) {
                gatherer.all_self_ps = gatherer.all_self_ps.saturating_add(duration);
                if let Some(group) = (self.group)(number, line, event) {
                    gatherer.slot(group).count(unplaced.why, duration);
                }
            }
        }
        Gathered { groups: gatherer.groups, all_self_ps: gatherer.all_self_ps }
    }
}

/// So many events are one part.
const PART: usize = 1 << 15;

/// A line and the order of a pass over it.
struct Ordered<'a> {
    number: usize,
    line: &'a Line,
    order: Order,
}

impl Ordered<'_> {
    /// The line in parts that can be passed over one beside the other.
    fn parts(&self) -> Vec<Part<'_>> {
        let ranges = self.order.cut(self.line, PART).into_iter();
        ranges.enumerate().map(|(place, range)| Part { of: self, range, is_first: place == 0 }).collect()
    }
}

/// A part of a line, with nothing going on at its ends.
struct Part<'a> {
    of: &'a Ordered<'a>,
    range: Range<usize>,
    /// The first also has what has no place in time.
    is_first: bool,
}

/// What a part of a line has.
struct Gathered {
    groups: Vec<(u32, Gathering)>,
    all_self_ps: i64,
}

/// Where the groups of a part are: there may be many groups, of which a part has few.
enum Slots {
    Table(Vec<u32>),
    Map(HashMap<u32, u32>),
}

const EMPTY: u32 = u32::MAX;

impl Slots {
    fn new(groups: usize, events: usize) -> Self {
        if groups <= 4 * events + 64 { Self::Table(vec![EMPTY; groups]) } else { Self::Map(HashMap::default()) }
    }

    /// The slot of a group, which is `next` where it had none.
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

/// Takes the events of a part into their groups.
struct Gatherer<'a, G> {
    grouping: &'a Grouping<'a, G>,
    number: usize,
    line: &'a Line,
    slots: Slots,
    groups: Vec<(u32, Gathering)>,
    all_self_ps: i64,
}

impl<G> Gatherer<'_, G> {
    fn slot(&mut self, group: usize) -> &mut Gathering {
        let slot = self.slot_number(group);
        &mut self.groups[slot].1
    }

    fn slot_number(&mut self, group: usize) -> usize {
        let next = number(self.groups.len());
        let slot = self.slots.get(group, next);
        if slot == next {
            // On one line the union is only measured; on several it is kept, to be merged.
            let is_one = self.grouping.device.lines.len() == 1;
            let gathering = if is_one { Gathering::on_one_line() } else { Gathering::on_several_lines() };
            self.groups.push((number(group), gathering));
        }
        slot as usize
    }
}

/// Where the self time of an event goes.
enum To {
    Slot(usize),
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
                let slot = self.slot_number(group);
                self.groups[slot].1.place(interval);
                To::Slot(slot)
            }
            None => To::Work,
        }
    }

    fn close(&mut self, to: To, self_ps: i64) {
        match to {
            To::Nothing => return,
            To::Work => {}
            To::Slot(slot) => self.groups[slot].1.add_self(self_ps),
        }
        self.all_self_ps = self.all_self_ps.saturating_add(self_ps);
    }
}

/// A time as a part of another; `None` where that is nothing.
pub(super) fn share(part: Picos, whole: Picos) -> Option<f64> {
    (whole > Picos::ZERO).then(|| part.get() as f64 / whole.get() as f64)
}
