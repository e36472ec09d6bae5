//! The meter of a run: one power curve per device and scope, built once from all known edges, and any window read off.

use ergometer_units::{Joules, Seconds, Timestamp, Watts, Window};

use super::curve::{Curve, SensorModel, seconds};
use super::estimate::{DeviceEnergy, EnergyError, Estimate, Method, Note, WindowEnergy};
use super::source::{Incident, Source};
use crate::{ChannelId, DeviceId, DeviceKind, Provenance, Scope, Timeline};

/// How far a modelled power may be off, as a share of it. The model knows a processor's class and its utilization,
/// not its clocks, its board or its neighbours in a virtual machine.
const MODEL_MARGIN: f64 = 0.5;

/// The share of a window a model must have seen to speak for the rest.
const LEAST_COVERED: f64 = 0.5;

/// The meter of a run.
///
/// It takes the edges of everything that is known to have run (requests, phases, the windows that will be asked for):
/// power is free to jump there and wanders slowly in between.
///
/// ```no_run
/// use ergometer_telemetry::{EnergyMeter, recording};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let windows: Vec<ergometer_units::Window> = Vec::new();
/// let timeline = recording::read_file("recording.json.gz")?;
/// let meter = EnergyMeter::new(&timeline, &windows);
/// for window in windows {
///     let energy = meter.energy(window).measured?;
///     println!("{:.2} J ({:.2} to {:.2})", energy.joules.get(), energy.low.get(), energy.high.get());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct EnergyMeter<'a> {
    timeline: &'a Timeline,
    sources: Vec<Metered>,
    /// The known edges of activity, in order.
    edges: Vec<Timestamp>,
}

#[derive(Debug)]
struct Metered {
    source: Source,
    summed: bool,
    curve: Option<Curve>,
    heard: Heard,
    incidents: Vec<Incident>,
    base: Timestamp,
}

/// Which sensors had anything to say: a counter that never moves is there, and says nothing.
#[derive(Debug, Clone, Copy, Default)]
struct Heard {
    counter: bool,
    power: bool,
}

impl<'a> EnergyMeter<'a> {
    /// Builds the curves of all devices of a timeline. `activity` is what is known to have run.
    #[must_use]
    pub fn new(timeline: &'a Timeline, activity: &[Window]) -> Self {
        let base = timeline.span().map_or(Timestamp::from_nanos_since_epoch(0), Window::start);
        let mut edges: Vec<Timestamp> = activity.iter().flat_map(|window| [window.start(), window.end()]).collect();
        edges.sort_unstable();
        edges.dedup();
        let cuts: Vec<f64> = edges.iter().map(|&edge| seconds(base, edge)).collect();
        let sources = Source::all(timeline);
        let summed: Vec<bool> = sources.iter().map(|source| is_summed(source, &sources)).collect();
        let build = |source: Source, summed: bool| {
            let (observations, incidents) = source.observations(timeline, base);
            let heard = Heard { counter: observations.counter.is_some(), power: observations.power.is_some() };
            let curve = source.is_measured().then(|| Curve::new(base, observations, &cuts)).flatten();
            Metered { source, summed, curve, heard, incidents, base }
        };
        // The curves have nothing to do with each other: one thread each.
        let sources = std::thread::scope(|scope| {
            let builders: Vec<_> = sources
                .iter()
                .zip(&summed)
                .map(|(&source, &summed)| (source, summed, scope.spawn(move || build(source, summed))))
                .collect();
            let lost = |source, summed| {
                let heard = Heard::default();
                Metered { source, summed, curve: None, heard, incidents: Vec::new(), base }
            };
            builders
                .into_iter()
                .map(|(source, summed, builder)| builder.join().unwrap_or_else(|_| lost(source, summed)))
                .collect()
        });
        Self { timeline, sources, edges }
    }

    /// The energy of a window, by device and in all.
    #[must_use]
    pub fn energy(&self, window: Window) -> WindowEnergy {
        let known = [window.start(), window.end()].map(|edge| self.edges.binary_search(&edge).is_ok());
        let devices: Vec<DeviceEnergy> =
            self.sources.iter().map(|metered| metered.energy(self.timeline, window, known)).collect();
        let modelled = devices.iter().filter(|device| device.provenance == Provenance::Modelled);
        let modelled = Estimate::sum(modelled.filter_map(|device| device.estimate.as_ref().ok()));
        let measured = || devices.iter().filter(|device| device.summed && device.provenance != Provenance::Modelled);
        let sum = match Estimate::sum(measured().filter_map(|device| device.estimate.as_ref().ok())) {
            Some(mut sum) => {
                let missing = measured().filter(|device| device.estimate.is_err());
                sum.notes.extend(missing.map(|device| Note::Incomplete(device.device)));
                Ok(sum)
            }
            None => Err(measured()
                .find_map(|device| device.estimate.as_ref().err().copied())
                .unwrap_or(EnergyError::NoSensor)),
        };
        WindowEnergy { window, measured: sum, modelled, devices }
    }

    /// How the sensors of a device were found to behave; `None` where there was nothing to fit.
    #[must_use]
    pub fn sensor_model(&self, device: DeviceId, scope: Scope) -> Option<SensorModel> {
        let metered =
            self.sources.iter().find(|metered| (metered.source.device, metered.source.scope) == (device, scope))?;
        metered.curve.as_ref().map(Curve::sensor_model)
    }
}

impl Metered {
    fn energy(&self, timeline: &Timeline, window: Window, known: [bool; 2]) -> DeviceEnergy {
        let (estimate, provenance) = match (&self.curve, self.source.modelled) {
            (Some(curve), _) => (self.read(curve, timeline, window, known), self.provenance()),
            (None, Some(channel)) => (modelled(timeline, channel, window), Provenance::Modelled),
            (None, None) => (Err(EnergyError::TooFewReadings), self.provenance()),
        };
        DeviceEnergy { device: self.source.device, scope: self.source.scope, provenance, summed: self.summed, estimate }
    }

    fn provenance(&self) -> Provenance {
        if self.heard.counter { Provenance::Counter } else { Provenance::SampledPower }
    }

    fn read(
        &self,
        curve: &Curve,
        timeline: &Timeline,
        window: Window,
        known: [bool; 2],
    ) -> Result<Estimate, EnergyError> {
        let (from, to) = (seconds(self.base, window.start()), seconds(self.base, window.end()));
        let (first, last) = curve.span();
        // The edges of the data are as sharp as a sensor's period.
        let slack = 2.0 * curve.resolution().get();
        if from < first - slack || to > last + slack {
            let at = |offset: f64| self.base + Seconds::new(offset);
            return Err(EnergyError::Outside { window, first: at(first), last: at(last) });
        }
        let read = curve.energy(window, known);
        let method = match self.heard {
            Heard { counter: true, power: true } if known == [true; 2] => Method::ActivityAware,
            Heard { counter: true, power: true } => Method::CounterAndPower,
            Heard { counter: true, power: false } => Method::Counter,
            Heard { counter: false, .. } => Method::Power,
        };
        let mut estimate = Estimate::new(read.joules, read.margin, method);
        if window.length() < curve.resolution() {
            estimate.notes.push(Note::TooShort { resolution: curve.resolution() });
        }
        let inside = |at: f64| (from..to).contains(&at);
        for incident in &self.incidents {
            match *incident {
                Incident::Reset(at) if inside(at) => estimate.notes.push(Note::CounterReset),
                Incident::Impossible(at) if inside(at) => estimate.notes.push(Note::ImpossibleStep),
                Incident::Reset(_) | Incident::Impossible(_) => {}
            }
        }
        let silent = self.silence(timeline, window);
        if silent > Seconds::ZERO {
            estimate.notes.push(Note::Gap(silent));
        }
        Ok(estimate)
    }

    /// How long all sensors of this source were silent: a gap of one is bridged by the other.
    fn silence(&self, timeline: &Timeline, window: Window) -> Seconds {
        let channels = [self.source.power, self.source.counter];
        let gaps = channels.into_iter().flatten().map(|id| {
            timeline.gaps(id, window).iter().map(|gap| gap.length()).fold(Seconds::ZERO, |sum, length| sum + length)
        });
        gaps.reduce(Seconds::min).unwrap_or(Seconds::ZERO)
    }
}

/// The integral of a modelled power. A value is the mean from the reading before to its own; what of a window lies
/// beyond the readings at its ends is taken at the window's mean.
fn modelled(timeline: &Timeline, channel: ChannelId, window: Window) -> Result<Estimate, EnergyError> {
    let column = timeline.column(channel);
    let (mut joules, mut covered) = (Joules::ZERO, Seconds::ZERO);
    let first = column.range(window).start;
    // Where a reading does not say since when it holds, it is since the one before.
    let since = |place: usize| {
        let point = column.get(place)?;
        let before = place.checked_sub(1).and_then(|place| column.get(place));
        Some((if point.after < point.at { point.after } else { before.map_or(point.at, |before| before.at) }, point))
    };
    for (since, point) in (first..).map_while(since).take_while(|(since, _)| *since < window.end()) {
        let overlap = (point.at.min(window.end()) - since.max(window.start())).max(Seconds::ZERO);
        joules += Watts::new(point.value) * overlap;
        covered += overlap;
    }
    let outside = || match (column.get(0), column.last()) {
        (Some(first), Some(last)) => EnergyError::Outside { window, first: first.after, last: last.at },
        _ => EnergyError::NoSensor,
    };
    if covered <= window.length() * LEAST_COVERED {
        return Err(outside());
    }
    let joules = joules * (window.length() / covered);
    Ok(Estimate::new(joules, joules * MODEL_MARGIN, Method::Modelled))
}

/// Whether a source is part of the sum: none that another one contains. A GPU contains its memory; psys contains the
/// packages; a package contains its cores and what else is on it, but not the DRAM beside it.
fn is_summed(source: &Source, all: &[Source]) -> bool {
    if !source.is_measured() {
        return false;
    }
    let measured = |kind: DeviceKind, scope: Scope| {
        all.iter().any(|other| other.device.kind == kind && other.scope == scope && other.is_measured())
    };
    match source.scope {
        Scope::Device | Scope::Package | Scope::Dram => true,
        Scope::Memory => false,
        Scope::Core | Scope::Uncore | Scope::Psys => !measured(DeviceKind::Cpu, Scope::Package),
    }
}
