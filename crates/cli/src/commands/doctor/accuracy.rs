//! What accuracy to expect: the estimator's own intervals for queries of three lengths, from what was just read.

use ergometer_telemetry::{EnergyMeter, Provenance, Timeline};
use ergometer_units::{Seconds, Timestamp, Window};
use serde::Serialize;

/// The lengths a person thinks in: a short query, a usual one, a long one.
const LENGTHS_MS: [f64; 3] = [20.0, 100.0, 1000.0];

/// Power that moved by less than this share shows nothing of a sensor's lag.
const MOVED: f64 = 0.2;

#[derive(Debug, Serialize)]
pub(super) struct Accuracy {
    device: String,
    provenance: Provenance,
    queries: Vec<Query>,
    /// The time constant or window of the power sensor; absent where power hardly moved.
    memory_ms: Option<f64>,
    /// How late it is; absent where power hardly moved.
    lag_ms: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Query {
    length_ms: f64,
    /// Half the 95 % interval, in percent of the energy.
    margin_pct: f64,
}

/// For every device that counts, from a timeline of a few seconds.
pub(super) fn expected(timeline: &Timeline) -> Vec<Accuracy> {
    let Some(windows) = windows(timeline) else { return Vec::new() };
    let meter = EnergyMeter::new(timeline, &windows);
    let energies: Vec<_> = windows.iter().map(|&window| meter.energy(window)).collect();
    let places = energies.first().map_or(&[][..], |energy| &energy.devices[..]);
    let counted =
        places.iter().enumerate().filter(|(_, place)| place.summed || place.provenance == Provenance::Modelled);
    counted
        .map(|(index, place)| {
            let queries = energies.iter().filter_map(|energy| {
                let estimate = energy.devices[index].estimate.as_ref().ok()?;
                let margin_pct = 100.0 * estimate.relative_margin();
                margin_pct.is_finite().then(|| Query { length_ms: energy.window.length().as_millis(), margin_pct })
            });
            let model = meter.sensor_model(place.device, place.scope).filter(|_| has_moved(timeline));
            Accuracy {
                device: place.device.to_string(),
                provenance: place.provenance,
                queries: queries.collect(),
                memory_ms: model.map(|model| model.memory.as_millis()),
                lag_ms: model.map(|model| model.power_lag.as_millis()),
            }
        })
        .collect()
}

/// Three windows apart from each other in the last part of the data, `None` where it is too short.
fn windows(timeline: &Timeline) -> Option<[Window; 3]> {
    let energies = timeline.channels().filter(|(_, channel)| channel.provenance != Provenance::Gauge);
    let last = energies.filter_map(|(id, _)| timeline.column(id).last()).map(|point| point.at).min()?;
    let mut end: Timestamp = last - Seconds::new(0.2);
    let windows = LENGTHS_MS.map(|length_ms| {
        let start = end - Seconds::from_millis(length_ms);
        let window = Window::new(start, end);
        end = start - Seconds::new(0.2);
        window
    });
    let [short, usual, long] = windows;
    Some([short.ok()?, usual.ok()?, long.ok()?])
}

fn has_moved(timeline: &Timeline) -> bool {
    let powers = timeline.channels().filter(|(_, channel)| channel.provenance == Provenance::SampledPower);
    powers.map(|(id, _)| timeline.column(id).readings().values).any(|watts| {
        let highest = watts.iter().copied().fold(0.0, f64::max);
        let lowest = watts.iter().copied().fold(highest, f64::min);
        highest - lowest > MOVED * highest
    })
}

impl Accuracy {
    /// For people: `gpu:0: a query of 20 ms is measured to about ±10 %, 100 ms ±3 %, 1 s ±1 %`.
    pub(super) fn sentence(&self) -> String {
        let verb = if self.provenance == Provenance::Modelled { "modelled (not measured)" } else { "measured" };
        if self.queries.is_empty() {
            return format!("{}: too few readings to say how well a query is {verb}", self.device);
        }
        let length = |ms: f64| if ms >= 999.5 { format!("{:.0} s", ms / 1e3) } else { format!("{ms:.0} ms") };
        let margin =
            |percent: f64| if percent < 9.95 { format!("±{percent:.1} %") } else { format!("±{percent:.0} %") };
        let queries: Vec<String> = self
            .queries
            .iter()
            .map(|query| format!("{} {}", length(query.length_ms), margin(query.margin_pct)))
            .collect();
        let lag = match (self.memory_ms, self.lag_ms) {
            (Some(memory), Some(lag)) => format!("; its power sensor remembers {memory:.0} ms and is {lag:.0} ms late"),
            _ if self.provenance == Provenance::Modelled => String::new(),
            _ => String::from("; its lag shows only under a load that comes and goes"),
        };
        format!("{}: a query of {} is {verb} to about {}{lag}", self.device, length(self.queries[0].length_ms), {
            let mut parts = queries;
            if let Some(first) = parts.first_mut() {
                *first = margin(self.queries[0].margin_pct);
            }
            parts.join(", ")
        })
    }
}
