//! Finds the devices of a trace and the work of each. A plane is one device, except that the plane of a host may have
//! several, which its ops distinguish by `device_ordinal`.

use std::collections::BTreeSet;

use ergometer_units::Picos;

use super::filter::Filter;
use super::work::{self, Role};
use crate::table::{Line, Plane, Platform, Trace, is_modules};

/// A device of a trace: its plane and, if the plane has several devices, its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId {
    /// The index of the plane.
    pub plane: usize,
    /// The number of the device, on a plane with several devices.
    pub ordinal: Option<i64>,
}

impl DeviceId {
    /// The name of its plane, followed by `#` and its number if the plane has several devices.
    #[must_use]
    pub fn name(self, trace: &Trace) -> String {
        let plane = trace.planes().get(self.plane).map_or("", |plane| trace.text(plane.name));
        self.ordinal.map_or_else(|| plane.to_owned(), |ordinal| format!("{plane}#{ordinal}"))
    }

    /// Its name, preceded by its host if the trace has several hosts.
    #[must_use]
    pub fn label(self, trace: &Trace) -> String {
        let Some(found) = trace.planes().get(self.plane) else { return String::new() };
        let host = found.host.filter(|_| trace.planes().iter().any(|other| other.host != found.host));
        format!("{}{}", host.map_or("", |host| trace.text(host)), self.name(trace))
    }
}

/// A device and its work.
pub(crate) struct Device<'a> {
    pub(crate) id: DeviceId,
    pub(crate) plane: &'a Plane,
    /// The lines with its work, and their indices on the plane.
    pub(crate) lines: Vec<(usize, &'a Line)>,
    /// For each kind, whether its events are work of this device.
    pub(crate) is_work: Vec<bool>,
}

impl<'a> Device<'a> {
    /// The devices with work that a filter selects.
    pub(crate) fn all(trace: &'a Trace, filter: &Filter) -> Vec<Self> {
        let mut devices = Vec::new();
        for (number, plane) in trace.planes().iter().enumerate() {
            for ordinal in ordinals(trace, plane) {
                let id = DeviceId { plane: number, ordinal };
                if filter.takes_device(trace, id) {
                    devices.push(Self::new(trace, plane, id));
                }
            }
        }
        let has_runs =
            |device: &Self| device.plane.lines.iter().any(|line| is_modules(trace.strings(), device.plane, line));
        devices.retain(|device| !device.lines.is_empty() || has_runs(device));
        devices
    }

    fn new(trace: &Trace, plane: &'a Plane, id: DeviceId) -> Self {
        let mut is_work = work::kinds_of_work(trace, plane);
        if id.ordinal.is_some() {
            for (is_work, kind) in is_work.iter_mut().zip(trace.kinds()) {
                *is_work &= kind.device_ordinal == id.ordinal;
            }
        }
        let has_work = |line: &Line| line.kind.iter().any(|kind| is_work[kind.index()]);
        let lines = plane.lines.iter().enumerate();
        let lines =
            lines.filter(|(_, line)| Role::from_line(trace, plane, line) == Role::Work && has_work(line)).collect();
        Self { id, plane, lines, is_work }
    }

    /// A device with all events of a plane, as if all of them were work.
    pub(crate) fn everything(trace: &Trace, plane: &'a Plane, number: usize) -> Self {
        let lines = plane.lines.iter().enumerate().filter(|(_, line)| !line.is_empty()).collect();
        let id = DeviceId { plane: number, ordinal: None };
        Self { id, plane, lines, is_work: vec![true; trace.kinds().len()] }
    }

    /// All its work, with and without start times: index of the line, line, index of the event.
    pub(crate) fn work(&self) -> impl Iterator<Item = (usize, &'a Line, usize)> {
        let events = |&(number, line): &(usize, &'a Line)| (0..line.len()).map(move |event| (number, line, event));
        self.lines.iter().flat_map(events).filter(|&(_, line, event)| self.is_work[line.kind[event].index()])
    }

    /// Its work with start times.
    pub(crate) fn placed_work(&self) -> impl Iterator<Item = (usize, &'a Line, usize)> {
        self.work().filter(|(_, line, event)| line.why_unplaced(*event).is_none())
    }
}

/// The device numbers of a plane: a single `None`, unless its ops name several devices.
fn ordinals(trace: &Trace, plane: &Plane) -> Vec<Option<i64>> {
    if plane.platform != Platform::Host {
        return vec![None];
    }
    let kinds = trace.kinds().iter().filter(|kind| kind.op.is_some() && plane.parts.contains(&kind.description.plane));
    let ordinals: BTreeSet<i64> = kinds.filter_map(|kind| kind.device_ordinal).collect();
    if ordinals.len() > 1 { ordinals.into_iter().map(Some).collect() } else { vec![None] }
}

/// The events that a filter selects by name and duration.
pub(crate) struct EventSelection {
    kinds: Vec<bool>,
    min_duration: Picos,
}

impl EventSelection {
    pub(crate) fn new(trace: &Trace, filter: &Filter) -> Self {
        let kinds = trace.kinds().iter().map(|kind| filter.takes_kind(trace, kind)).collect();
        Self { kinds, min_duration: filter.min_duration }
    }

    pub(crate) fn has(&self, line: &Line, event: usize) -> bool {
        self.kinds[line.kind[event].index()] && line.duration_ps[event] >= self.min_duration.get()
    }

    /// Whether all events are selected.
    pub(crate) fn is_all(&self) -> bool {
        self.min_duration <= Picos::ZERO && self.kinds.iter().all(|&selection| selection)
    }

    /// Whether the name of a kind is selected.
    pub(crate) fn has_kind(&self, kind: crate::table::KindId) -> bool {
        self.kinds[kind.index()]
    }
}
