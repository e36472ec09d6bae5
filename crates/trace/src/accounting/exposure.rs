//! Measures how much communication and copying overlaps with computation.

use ergometer_units::Picos;
use serde::Serialize;

use super::class::Class;
use super::device::Device;
use super::interval::{Interval, Union};

/// The time of one class of work on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Exposure {
    /// The class.
    pub class: Class,
    /// The number of events.
    pub events: u64,
    /// The time during which at least one of them ran.
    #[serde(serialize_with = "super::as_ps", rename = "busy_ps")]
    pub busy: Picos,
    /// The part of that time without concurrent computation. For computation itself, all of it.
    #[serde(serialize_with = "super::as_ps", rename = "exposed_ps")]
    pub exposed: Picos,
}

/// The classes of a device's work that have events; `classes` has the class of each kind.
pub(crate) fn exposure(classes: &[Class], device: &Device<'_>) -> Vec<Exposure> {
    let mut intervals = [const { Vec::new() }; Class::ALL.len()];
    let mut events = [0; Class::ALL.len()];
    for (_, line, event) in device.work() {
        let class = classes[line.kind[event].index()] as usize;
        events[class] += 1;
        if line.why_unplaced(event).is_none() {
            let start = line.start_ps[event];
            intervals[class].push(Interval { start, end: start + line.duration_ps[event] });
        }
    }
    let unions = intervals.map(Union::from_intervals);
    let compute = &unions[Class::Compute as usize];
    Class::ALL
        .into_iter()
        .filter(|&class| events[class as usize] > 0)
        .map(|class| {
            let union = &unions[class as usize];
            let exposed = if class == Class::Compute { union.length() } else { union.length_outside(compute) };
            let (busy, exposed) = (Picos::new(union.length()), Picos::new(exposed));
            Exposure { class, events: events[class as usize], busy, exposed }
        })
        .collect()
}
