//! Builds one power curve per device and scope, and integrates it over windows.

use ergometer_units::{Joules, Seconds, Timestamp, Watts, Window};

use super::curve::{Curve, SensorModel, seconds};
use super::estimate::{DeviceEnergy, EnergyError, EnergyEstimate, Method, Note, WindowEnergy};
use super::metered_scope::is_summed;
use super::source::{Incident, Source};
use crate::{ChannelId, DeviceId, Provenance, Scope, Timeline};

/// The relative error of a modelled power. The model uses the class and the utilization of a processor; it ignores its
/// clocks, its board and other virtual machines on the host.
const MODEL_MARGIN: f64 = 0.5;

/// How far a window may extend beyond the readings of a modelled power: two readings.
const MODEL_SLACK: Seconds = Seconds::new(0.2);

/// Estimates the energy of windows of a timeline.
///
/// It needs the windows of all known activity (requests, phases, the windows to be measured): power may jump at their
/// edges and changes slowly in between.
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
    pub(super) timeline: &'a Timeline,
    pub(super) sources: Vec<ScopeMeter>,
    /// The known edges of activity, in order.
    edges: Vec<Timestamp>,
}

#[derive(Debug)]
pub(super) struct ScopeMeter {
    pub(super) source: Source,
    pub(super) summed: bool,
    pub(super) curve: Option<Curve>,
    data_sources: DataSources,
    incidents: Vec<Incident>,
    pub(super) base: Timestamp,
}

/// Which sensors provide data. A counter that never changes provides none.
#[derive(Debug, Clone, Copy, Default)]
struct DataSources {
    counter: bool,
    power: bool,
}

impl<'a> EnergyMeter<'a> {
    /// Builds the curves of all devices of a timeline. `activity` are the windows of all known activity.
    #[must_use]
    pub fn new(timeline: &'a Timeline, activity: &[Window]) -> Self {
        Self::counting(timeline, activity, &|_| true)
    }

    /// Like [`new`](Self::new), but only the devices for which `counts` is true are summed. A power-supply meter is the
    /// sum if it is the only such device.
    #[must_use]
    pub fn counting(timeline: &'a Timeline, activity: &[Window], counts: &dyn Fn(DeviceId) -> bool) -> Self {
        let base = timeline.span().map_or(Timestamp::from_nanos_since_epoch(0), Window::start);
        let mut edges: Vec<Timestamp> = activity.iter().flat_map(|window| [window.start(), window.end()]).collect();
        edges.sort_unstable();
        edges.dedup();
        let cuts: Vec<f64> = edges.iter().map(|&edge| seconds(base, edge)).collect();
        let sources = Source::all(timeline);
        let counted: Vec<Source> = sources.iter().filter(|source| counts(source.device)).copied().collect();
        let summed: Vec<bool> =
            sources.iter().map(|source| counts(source.device) && is_summed(source, &counted)).collect();
        let build = |source: Source, summed: bool| {
            let (observations, incidents) = source.observations(timeline, base);
            let data_sources =
                DataSources { counter: observations.counter.is_some(), power: observations.power.is_some() };
            let curve = source.is_measured().then(|| Curve::new(base, observations, &cuts)).flatten();
            ScopeMeter { source, summed, curve, data_sources, incidents, base }
        };
        // The curves are independent: build one per processor at a time.
        let width = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let pending: Vec<(Source, bool)> = sources.into_iter().zip(summed).collect();
        let mut sources = Vec::with_capacity(pending.len());
        for several in pending.chunks(width) {
            std::thread::scope(|scope| {
                let start = |&(source, summed): &(Source, bool)| {
                    let builder = std::thread::Builder::new().name(String::from("ergo-energy"));
                    builder.spawn_scoped(scope, move || build(source, summed))
                };
                let builders: Vec<_> = several.iter().map(start).collect();
                for (builder, &(source, summed)) in builders.into_iter().zip(several) {
                    let lost = || ScopeMeter {
                        source,
                        summed,
                        curve: None,
                        data_sources: DataSources::default(),
                        incidents: Vec::new(),
                        base,
                    };
                    // Without a thread of its own, the curve is built here.
                    let built = builder.map_or_else(|_| Ok(build(source, summed)), std::thread::ScopedJoinHandle::join);
                    sources.push(built.unwrap_or_else(|_| lost()));
                }
            });
        }
        Self { timeline, sources, edges }
    }

    /// The energy of a window, by device and in total.
    #[must_use]
    pub fn energy(&self, window: Window) -> WindowEnergy {
        let known = [window.start(), window.end()].map(|edge| self.edges.binary_search(&edge).is_ok());
        let devices: Vec<DeviceEnergy> =
            self.sources.iter().map(|metered| metered.energy(self.timeline, window, known)).collect();
        let modelled = devices.iter().filter(|device| device.provenance == Provenance::Modelled);
        let modelled = EnergyEstimate::sum(modelled.filter_map(|device| device.estimate.as_ref().ok()));
        let measured = || devices.iter().filter(|device| device.summed && device.provenance != Provenance::Modelled);
        let sum = match EnergyEstimate::sum(measured().filter_map(|device| device.estimate.as_ref().ok())) {
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

    /// The fitted behaviour of a device's sensors; `None` if there was nothing to fit.
    #[must_use]
    pub fn sensor_model(&self, device: DeviceId, scope: Scope) -> Option<SensorModel> {
        let metered =
            self.sources.iter().find(|metered| (metered.source.device, metered.source.scope) == (device, scope))?;
        metered.curve.as_ref().map(Curve::sensor_model)
    }
}

impl ScopeMeter {
    fn energy(&self, timeline: &Timeline, window: Window, known: [bool; 2]) -> DeviceEnergy {
        let estimate = match (&self.curve, self.source.modelled) {
            (Some(curve), _) => self.read(curve, timeline, window, known),
            (None, Some(channel)) => modelled(timeline, channel, window),
            (None, None) => Err(EnergyError::TooFewReadings),
        };
        let provenance = self.energy_provenance(timeline);
        let summed = self.summed && provenance != Provenance::Modelled;
        DeviceEnergy { device: self.source.device, scope: self.source.scope, provenance, summed, estimate }
    }

    /// The provenance of the best channel with data, or else of the best channel.
    fn provenance(&self, timeline: &Timeline) -> Provenance {
        let counter = self.source.counter.filter(|_| self.data_sources.counter || !self.data_sources.power);
        counter.or(self.source.power).map_or(self.source.fallback, |id| timeline.channel(id).provenance)
    }

    fn read(
        &self,
        curve: &Curve,
        timeline: &Timeline,
        window: Window,
        known: [bool; 2],
    ) -> Result<EnergyEstimate, EnergyError> {
        let (from, to) = self.within(curve, window)?;
        let read = curve.energy(window, known);
        let method = match self.data_sources {
            DataSources { counter: true, power: true } if known == [true; 2] => Method::ActivityAware,
            DataSources { counter: true, power: true } => Method::CounterAndPower,
            DataSources { counter: true, power: false } => Method::Counter,
            DataSources { counter: false, .. } => Method::Power,
        };
        let mut estimate = EnergyEstimate::new(read.joules, read.margin, method);
        if let Some(bound) = curve.upper_bound(window) {
            estimate.high = estimate.high.min(bound.max(estimate.joules));
        }
        if window.length() < curve.resolution() {
            estimate.notes.push(Note::TooShort { resolution: curve.resolution() });
        }
        let inside = |at: f64| (from..to).contains(&at);
        for incident in &self.incidents {
            let (at, note) = match *incident {
                Incident::Reset(at) => (at, Note::CounterReset),
                Incident::Impossible(at) => (at, Note::ImpossibleStep),
            };
            if inside(at) && !estimate.notes.contains(&note) {
                estimate.notes.push(note);
            }
        }
        let gaps: Seconds = self.gaps(timeline, window).into_iter().map(Window::length).sum();
        if gaps > Seconds::ZERO {
            estimate.notes.push(Note::Gap(gaps));
        }
        Ok(estimate)
    }

    /// The window in seconds from the base, or an error if it extends beyond the data.
    pub(super) fn within(&self, curve: &Curve, window: Window) -> Result<(f64, f64), EnergyError> {
        let (from, to) = (seconds(self.base, window.start()), seconds(self.base, window.end()));
        let (first, last) = curve.span();
        let slack = curve.slack().get();
        if from < first - slack || to > last + slack {
            let at = |offset: f64| self.base + Seconds::new(offset);
            return Err(EnergyError::Outside { window, first: at(first), last: at(last) });
        }
        Ok((from, to))
    }

    /// The windows without readings of any sensor of this source, sorted: one sensor bridges the gaps of the other.
    pub(super) fn gaps(&self, timeline: &Timeline, window: Window) -> Vec<Window> {
        let channels = match self.curve {
            Some(_) => [self.source.power, self.source.counter],
            None => [self.source.modelled, None],
        };
        let gaps = channels.into_iter().flatten().map(|id| timeline.gaps(id, window)).reduce(|one, other| {
            let both = one.iter().flat_map(|gap| other.iter().map(move |beside| (gap, beside)));
            both.filter_map(|(gap, beside)| {
                let (start, end) = (gap.start().max(beside.start()), gap.end().min(beside.end()));
                Window::new(start, end).ok()
            })
            .collect()
        });
        gaps.unwrap_or_default()
    }

    /// The provenance of [`energy`](Self::energy): modelled if there is no measured curve.
    pub(super) fn energy_provenance(&self, timeline: &Timeline) -> Provenance {
        match (&self.curve, self.source.modelled) {
            (None, Some(_)) => Provenance::Modelled,
            _ => self.provenance(timeline),
        }
    }
}

/// Integrates a modelled power. A value is the mean since the previous reading. Parts of the window beyond the readings
/// get the mean power of the window.
pub(super) fn modelled(timeline: &Timeline, channel: ChannelId, window: Window) -> Result<EnergyEstimate, EnergyError> {
    let column = timeline.column(channel);
    let (mut joules, mut covered) = (Joules::ZERO, Seconds::ZERO);
    let first = column.range(window).start;
    // A reading without a start time holds since the previous one.
    let since = |index: usize| {
        let point = column.get(index)?;
        let before = index.checked_sub(1).and_then(|index| column.get(index));
        Some((if point.after < point.at { point.after } else { before.map_or(point.at, |before| before.at) }, point))
    };
    for (since, point) in (first..).map_while(since).take_while(|(since, _)| *since < window.end()) {
        let overlap = (point.at.min(window.end()) - since.max(window.start())).max(Seconds::ZERO);
        joules += Watts::new(point.value) * overlap;
        covered += overlap;
    }
    let (Some(first), Some(last)) = (column.get(0), column.last()) else { return Err(EnergyError::TooFewReadings) };
    let (first, last) = (first.after, last.at);
    if window.start() < first - MODEL_SLACK || window.end() > last + MODEL_SLACK || covered <= Seconds::ZERO {
        return Err(EnergyError::Outside { window, first, last });
    }
    let joules = joules * (window.length() / covered);
    let mut estimate = EnergyEstimate::new(joules, joules * MODEL_MARGIN, Method::Modelled);
    let gap = window.length() - covered;
    if gap > MODEL_SLACK {
        estimate.notes.push(Note::Gap(gap));
    }
    Ok(estimate)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Batch, Channel, SensorInfo, Signal};

    /// Each gap adds edges with short cells around them: without a limit, there were millions of cells.
    #[test]
    fn many_gaps_do_not_make_many_cells() {
        let device = DeviceId::gpu(0);
        let info = SensorInfo { id: "m".to_owned(), name: "m".to_owned(), device, interval: Duration::from_millis(20) };
        let channel = Channel {
            device,
            scope: Scope::Device,
            signal: Signal::PowerRing,
            provenance: Provenance::SampledPower,
            update_period: Some(Seconds::new(0.02)),
        };
        let mut timeline = Timeline::default();
        let key = timeline.add_sensor(&info, &[channel]);
        let mut batch = Batch::default();
        for burst in 0..2000 {
            for reading in 0..3 {
                let at = Timestamp::from_nanos_since_epoch(burst * 8_000_000_000 + reading * 20_000_000);
                batch.push(0, at, if burst % 2 == 0 { 100.0 } else { 300.0 });
            }
        }
        timeline.append(key, &batch);
        let meter = EnergyMeter::new(&timeline, &[]);
        let cells = meter.sources[0].curve.as_ref().unwrap().cell_count();
        assert!(cells < 300_000, "{cells} cells");
    }
}
