//! The devices of a trace and the work of each. A plane is one device; a host's plane may have several, which its ops name
//! (`device_ordinal`).

use std::collections::BTreeSet;

use ergometer_units::Picos;

use super::filter::Filter;
use super::work::{self, Role};
use crate::table::{Line, Plane, Platform, Trace, is_modules};

/// A device of a trace, by its plane and, where the plane has several, its number on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId {
    /// Which plane of the trace.
    pub plane: usize,
    /// Which device of a plane that has several.
    pub ordinal: Option<i64>,
}

impl DeviceId {
    /// The name of its plane, and of one of several `#` and its number.
    #[must_use]
    pub fn name(self, trace: &Trace) -> String {
        let plane = trace.planes().get(self.plane).map_or("", |plane| trace.text(plane.name));
        self.ordinal.map_or_else(|| plane.to_owned(), |ordinal| format!("{plane}#{ordinal}"))
    }

    /// Its name, with its host where the trace has several.
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
    /// The lines that have work of it, with their numbers on the plane.
    pub(crate) lines: Vec<(usize, &'a Line)>,
    /// Of every kind whether its events are work of it.
    pub(crate) is_work: Vec<bool>,
}

impl<'a> Device<'a> {
    /// The devices that have work and that a filter asks for.
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
        let lines = lines.filter(|(_, line)| Role::of(trace, plane, line) == Role::Work && has_work(line)).collect();
        Self { id, plane, lines, is_work }
    }

    /// Everything on a plane, as if all of it were work.
    pub(crate) fn everything(trace: &Trace, plane: &'a Plane, number: usize) -> Self {
        let lines = plane.lines.iter().enumerate().filter(|(_, line)| !line.is_empty()).collect();
        let id = DeviceId { plane: number, ordinal: None };
        Self { id, plane, lines, is_work: vec![true; trace.kinds().len()] }
    }

    /// Its work, with a place in time or without: line, event.
    pub(crate) fn work(&self) -> impl Iterator<Item = (usize, &'a Line, usize)> {
        let events = |&(number, line): &(usize, &'a Line)| (0..line.len()).map(move |event| (number, line, event));
        self.lines.iter().flat_map(events).filter(|&(_, line, event)| self.is_work[line.kind[event].index()])
    }

    /// Its work that has a place in time.
    pub(crate) fn placed_work(&self) -> impl Iterator<Item = (usize, &'a Line, usize)> {
        self.work().filter(|(_, line, event)| line.why_unplaced(*event).is_none())
    }
}

/// The devices of a plane: one, unless its ops name several.
fn ordinals(trace: &Trace, plane: &Plane) -> Vec<Option<i64>> {
    if plane.platform != Platform::Host {
        return vec![None];
    }
    let kinds = trace.kinds().iter().filter(|kind| kind.op.is_some() && plane.parts.contains(&kind.description.plane));
    let ordinals: BTreeSet<i64> = kinds.filter_map(|kind| kind.device_ordinal).collect();
    if ordinals.len() > 1 { ordinals.into_iter().map(Some).collect() } else { vec![None] }
}

/// The events that a filter chooses, by name and length.
pub(crate) struct Chosen {
    kinds: Vec<bool>,
    min_duration: Picos,
}

impl Chosen {
    pub(crate) fn new(trace: &Trace, filter: &Filter) -> Self {
        let kinds = trace.kinds().iter().map(|kind| filter.takes_kind(trace, kind)).collect();
        Self { kinds, min_duration: filter.min_duration }
    }

    pub(crate) fn has(&self, line: &Line, event: usize) -> bool {
        self.kinds[line.kind[event].index()] && line.duration_ps[event] >= self.min_duration.get()
    }

    /// Whether nothing is left out.
    pub(crate) fn is_all(&self) -> bool {
        self.min_duration <= Picos::ZERO && self.kinds.iter().all(|&chosen| chosen)
    }

    /// By name alone.
    pub(crate) fn has_kind(&self, kind: crate::table::KindId) -> bool {
        self.kinds[kind.index()]
    }
}
