//! Computes the accounts of ops, kernels, names or classes.

use foldhash::HashMap;
use rayon::prelude::*;

use super::account::Account;
use super::class::Class;
use super::device::{Device, DeviceId, EventSelection};
use super::filter::Filter;
use super::grouping::{Accounts, Grouping, share};
use super::work;
use crate::table::{Kind, Line, ProgramId, Text, Trace, number};

/// The grouping of events into rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// By op and module.
    Op,
    /// By kernel: the name of the event.
    Kernel,
    /// By the name of any event, including events on host threads that are not work.
    Name,
    /// By class.
    Class,
}

/// The events of a device that share a label.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The device; for [`By::Name`] a whole plane.
    pub device: DeviceId,
    /// Their label.
    pub label: Label,
    /// Their class, or the class with the most time if they have several. `None` for events that are not work.
    pub class: Option<Class>,
    /// Their times.
    pub account: Account,
    /// Their self time as a share (0 to 1) of all work on the device, or of all events for [`By::Name`], before
    /// filtering; `None` if that is zero.
    pub share: Option<f64>,
}

/// The label of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Label {
    /// The name of the op, kernel or event; `None` for a class.
    pub name: Option<Text>,
    /// The module, if it is part of the label.
    pub module: Option<Text>,
    /// Its compilation.
    pub program: Option<ProgramId>,
    /// The class, for [`By::Class`].
    pub class: Option<Class>,
}

impl By {
    fn label(self, trace: &Trace, kind: &Kind, class: Class) -> Label {
        let nothing = Label { name: None, module: None, program: None, class: None };
        match self {
            Self::Op => {
                Label { name: Some(work::op(trace, kind)), module: kind.module, program: kind.program, ..nothing }
            }
            // A kernel is the same code, whichever op launches it.
            Self::Kernel | Self::Name => Label { name: Some(kind.name), ..nothing },
            Self::Class => Label { class: Some(class), ..nothing },
        }
    }
}

/// One row per label and device, the longest self time first.
#[must_use]
pub fn rows(trace: &Trace, by: By, filter: &Filter) -> Vec<Row> {
    let labels = KindLabels::new(trace, by);
    let selection = EventSelection::new(trace, filter);
    let planes = trace.planes().iter().enumerate();
    let devices: Vec<Device<'_>> = match by {
        By::Name => planes
            .filter(|(number, _)| filter.takes_plane(trace, *number))
            .map(|(number, plane)| Device::everything(trace, plane, number))
            .collect(),
        By::Op | By::Kernel | By::Class => Device::all(trace, filter),
    };
    let mut rows: Vec<Row> =
        devices.par_iter().flat_map_iter(|device| labels.rows(trace, device, &selection)).collect();
    rows.sort_by(|left, right| {
        let longest = right.account.self_time.cmp(&left.account.self_time);
        let name = |text: Option<Text>| text.map(|text| trace.text(text));
        let key = |row: &Row| (row.device, row.label.class.map(Class::name), row.label.program);
        longest
            .then_with(|| name(left.label.name).cmp(&name(right.label.name)))
            .then_with(|| name(left.label.module).cmp(&name(right.label.module)))
            .then_with(|| key(left).cmp(&key(right)))
    });
    rows
}

/// All labels, and the label of each kind.
struct KindLabels {
    labels: Vec<Label>,
    /// The label of each kind.
    groups: Vec<u32>,
    classes: Vec<Class>,
    /// Whether kinds of several classes share a label.
    is_mixed: bool,
    by: By,
}

impl KindLabels {
    fn new(trace: &Trace, by: By) -> Self {
        let classes: Vec<Class> = trace.kinds().iter().map(|kind| Class::from_kind(trace, kind)).collect();
        let mut places: HashMap<Label, u32> = HashMap::default();
        let (mut labels, mut firsts, mut is_mixed) = (Vec::new(), Vec::new(), false);
        let groups: Vec<u32> = trace
            .kinds()
            .iter()
            .zip(&classes)
            .map(|(kind, &class)| {
                let label = by.label(trace, kind, class);
                let group = *places.entry(label).or_insert_with(|| {
                    labels.push(label);
                    firsts.push(class);
                    number(labels.len() - 1)
                });
                is_mixed |= firsts[group as usize] != class;
                group
            })
            .collect();
        Self { labels, groups, classes, is_mixed, by }
    }

    fn rows(&self, trace: &Trace, device: &Device<'_>, selection: &EventSelection) -> Vec<Row> {
        let group = |_: usize, line: &Line, event: usize| {
            selection.has(line, event).then(|| self.groups[line.kind[event].index()] as usize)
        };
        let Accounts { accounts, all_self } = Grouping { device, count: self.labels.len(), group }.accounts();
        let classes = self.classes_of_groups(trace, device, selection);
        let row = |(group, account): (usize, Account)| Row {
            device: device.id,
            label: self.labels[group],
            class: classes[group],
            share: share(account.self_time, all_self),
            account,
        };
        accounts.into_iter().map(row).collect()
    }

    /// The class of each label: the one with the most time.
    fn classes_of_groups(&self, trace: &Trace, device: &Device<'_>, selection: &EventSelection) -> Vec<Option<Class>> {
        let is_work = match self.by {
            By::Name => work::kinds_of_work(trace, device.plane),
            By::Op | By::Kernel | By::Class => device.is_work.clone(),
        };
        let mut classes = vec![None; self.labels.len()];
        for (kind, _) in is_work.iter().enumerate().filter(|&(_, &is_work)| is_work) {
            classes[self.groups[kind] as usize].get_or_insert(self.classes[kind]);
        }
        if !self.is_mixed {
            return classes;
        }
        let mut times = vec![[0_i64; Class::ALL.len()]; self.labels.len()];
        for (_, line, event) in device.work().filter(|(_, line, event)| selection.has(line, *event)) {
            let kind = line.kind[event].index();
            if is_work[kind] {
                let time = &mut times[self.groups[kind] as usize][self.classes[kind] as usize];
                *time = time.saturating_add(line.duration_ps[event]);
            }
        }
        for (class, times) in classes.iter_mut().zip(times).filter(|(class, _)| class.is_some()) {
            let longest = Class::ALL.into_iter().max_by_key(|&class| times[class as usize]);
            *class = longest.filter(|&class| times[class as usize] > 0).or(*class);
        }
        classes
    }
}
