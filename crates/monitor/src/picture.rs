//! All data that the screen shows at one moment. Drawing reads only the picture and the state of the UI.

use std::collections::BTreeMap;
use std::time::Duration;

use ergometer_sensors::processes::ProcessTable;
use ergometer_telemetry::{DeviceId, DeviceKind, Event, MeteredScope, Scope, Signal, Timeline};
use ergometer_units::Watts;

use crate::history::{GraphRange, History};
use crate::latest::{self, Now, Power};
use crate::ledger::Ledger;
use crate::source::Playback;
use crate::tick::{DeviceTick, MachineTick, Tick};
use crate::watcher::Shares;

/// The machine at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Picture {
    pub(crate) host: String,
    pub(crate) now: Now,
    pub(crate) elapsed: Duration,
    /// How the recording is played, if one is.
    pub(crate) playback: Option<Playback>,
    /// How long energy has been counted since the user reset it.
    pub(crate) counted: Option<Duration>,
    /// The time range of the graphs.
    pub(crate) span: Duration,
    pub(crate) total: MachineTick,
    pub(crate) devices: Vec<DeviceView>,
    /// `None` if processes are not listed, as for a recording.
    pub(crate) processes: Option<ProcessTable>,
    /// The energy share of each process, where energy is split.
    pub(crate) split: Option<Shares>,
    pub(crate) events: Vec<Event>,
}

/// One device.
#[derive(Debug, Clone)]
pub(crate) struct DeviceView {
    pub(crate) id: DeviceId,
    pub(crate) now: DeviceTick,
    /// The power limit of the device.
    pub(crate) power_limit: Option<Watts>,
    /// The power of parts of the device.
    pub(crate) parts: Vec<(Scope, Power)>,
    pub(crate) graph: Graph,
}

/// The graph of a device: its power or, without power, its utilization.
#[derive(Debug, Clone)]
pub(crate) enum Graph {
    Power(History),
    Busy(History),
    Nothing,
}

/// The inputs of a picture besides the timeline.
#[derive(Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) host: &'a str,
    pub(crate) now: Now,
    pub(crate) elapsed: Duration,
    pub(crate) span: Duration,
    /// The number of cells of a history: as fine as the widest graph.
    pub(crate) cells: usize,
    pub(crate) power_limits: &'a BTreeMap<DeviceId, Watts>,
    pub(crate) ledger: &'a Ledger,
}

impl Picture {
    /// A picture without processes, which come from a separate thread.
    pub(crate) fn new(timeline: &Timeline, facts: &Facts<'_>) -> Self {
        let tick = Tick::new(timeline, facts.now, facts.elapsed, facts.ledger);
        // An inference server has no power, and is not shown.
        let ids = timeline.devices().into_iter().zip(tick.devices);
        let devices = ids.filter(|(id, _)| id.kind != DeviceKind::Server);
        let parts = MeteredScope::all(timeline);
        Self {
            host: facts.host.to_owned(),
            now: facts.now,
            elapsed: facts.elapsed,
            playback: None,
            counted: None,
            span: facts.span,
            total: tick.total,
            devices: devices.map(|(id, now)| DeviceView::new(timeline, facts, &parts, (id, now))).collect(),
            processes: None,
            split: None,
            events: timeline.events().to_vec(),
        }
    }

    /// Whether there is a GPU, or a process that uses one.
    pub(crate) fn has_gpus(&self) -> bool {
        let mut processes = self.processes.iter().flat_map(|table| &table.processes);
        self.devices.iter().any(|device| device.id.kind == DeviceKind::Gpu)
            || processes.any(|process| !process.gpus.is_empty())
    }

    /// Recomputes the graphs for another time range at the same moment.
    pub(crate) fn set_span(&mut self, timeline: &Timeline, span: Duration, cells: usize) {
        self.span = span;
        for device in &mut self.devices {
            let patience = latest::patience(timeline, device.id);
            let range = GraphRange { now: self.now.at, span, cells, patience };
            device.graph = Graph::new(timeline, (device.id, self.now), range);
        }
    }
}

impl DeviceView {
    fn new(timeline: &Timeline, facts: &Facts<'_>, parts: &[MeteredScope], (id, now): (DeviceId, DeviceTick)) -> Self {
        let patience = latest::patience(timeline, id);
        let range = GraphRange { now: facts.now.at, span: facts.span, cells: facts.cells, patience };
        let main = latest::main_power(timeline, id, facts.now);
        let others = parts.iter().filter(|part| part.device == id && main.is_none_or(|(scope, _)| scope != part.scope));
        Self {
            id,
            now,
            power_limit: facts.power_limits.get(&id).copied(),
            parts: others
                .filter_map(|part| Some((part.scope, latest::power(timeline, id, part.scope, facts.now)?)))
                .filter(|&(_, power)| facts.now.silence(timeline, id, power).is_none())
                .collect(),
            graph: Graph::new(timeline, (id, facts.now), range),
        }
    }

    /// Whether its power is measured.
    pub(crate) fn is_measured(&self) -> bool {
        self.now.power_source.is_some_and(|signal| signal != Signal::PowerModelled)
    }

    /// Why its clocks are throttled; empty if they are not.
    pub(crate) fn throttled(&self) -> String {
        self.now.throttle_reasons.as_deref().unwrap_or_default().join(", ")
    }

    /// `~` before modelled values.
    pub(crate) fn modelled_mark(&self) -> &'static str {
        self.now.modelled_mark()
    }
}

impl Graph {
    fn new(timeline: &Timeline, (device, now): (DeviceId, Now), range: GraphRange) -> Self {
        if let Some((_, power)) = latest::main_power(timeline, device, now) {
            return Self::Power(History::new(timeline, power.channel, range));
        }
        match latest::find(timeline, device, Signal::Utilization) {
            Some(channel) => Self::Busy(History::new(timeline, channel, range)),
            None => Self::Nothing,
        }
    }

    pub(crate) fn history(&self) -> Option<&History> {
        match self {
            Self::Power(history) | Self::Busy(history) => Some(history),
            Self::Nothing => None,
        }
    }

    pub(crate) fn unit(&self) -> &'static str {
        if matches!(self, Self::Busy(_)) { "%" } else { "W" }
    }
}
