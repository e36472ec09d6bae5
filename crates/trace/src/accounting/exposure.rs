//! How much of the communication and the copies of a device its computing hides.

use ergometer_units::Picos;
use serde::Serialize;

use super::class::Class;
use super::device::Device;
use super::interval::{Interval, Union};

/// The time of a class of work on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Exposure {
    /// The class.
    pub class: Class,
    /// How many events.
    pub events: u64,
    /// How long at least one of them went on.
    #[serde(serialize_with = "super::as_ps", rename = "busy_ps")]
    pub busy: Picos,
    /// Of that, how long nothing was computed at the same time. Of computing itself it is all.
    #[serde(serialize_with = "super::as_ps", rename = "exposed_ps")]
    pub exposed: Picos,
}

/// The classes of a device's work that have events; `classes` has that of every kind.
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
    let unions = intervals.map(Union::of);
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
