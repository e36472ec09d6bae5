//! Estimates the accuracy of energy for queries of three lengths, from the readings of `ergo doctor`.

use std::fmt::Write as _;

use ergometer_telemetry::{EnergyMeter, Provenance, Timeline};
use ergometer_units::{Seconds, Timestamp, Window};
use serde::Serialize;

/// A short, a typical and a long query.
const LENGTHS_MS: [f64; 3] = [20.0, 100.0, 1000.0];

#[derive(Debug, Serialize)]
pub(super) struct Accuracy {
    device: String,
    provenance: Provenance,
    queries: Vec<Query>,
}

#[derive(Debug, Serialize)]
struct Query {
    length_ms: f64,
    /// Half the 95 % interval, in percent of the energy.
    margin_pct: f64,
}

/// The accuracy of each device in the sum or modelled, from a timeline of a few seconds.
pub(super) fn expected(timeline: &Timeline) -> Vec<Accuracy> {
    let Some(windows) = windows(timeline) else { return Vec::new() };
    let meter = EnergyMeter::new(timeline, &windows);
    let energies: Vec<_> = windows.iter().map(|&window| meter.energy(window)).collect();
    let scopes = energies.first().map_or(&[][..], |energy| &energy.devices[..]);
    let counted =
        scopes.iter().enumerate().filter(|(_, scope)| scope.summed || scope.provenance == Provenance::Modelled);
    counted
        .map(|(index, scope)| {
            // Assumes that a query draws the power of the longest window.
            let power = energies.last().and_then(|energy| {
                let estimate = energy.devices[index].estimate.as_ref().ok()?;
                Some(estimate.joules / energy.window.length())
            });
            let queries = energies.iter().filter_map(|energy| {
                let estimate = energy.devices[index].estimate.as_ref().ok()?;
                let length = energy.window.length();
                let margin_pct = 100.0 * ((estimate.high - estimate.joules) / (power? * length));
                margin_pct.is_finite().then(|| Query { length_ms: length.as_millis(), margin_pct })
            });
            Accuracy { device: scope.device.to_string(), provenance: scope.provenance, queries: queries.collect() }
        })
        .collect()
}

/// Three separate windows at the end of the readings; `None` if there are too few.
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

impl Accuracy {
    /// `gpu:0, measured: expected error ±10 % for a query of 20 ms, ±3.0 % for 100 ms, ±1.0 % for 1 s`.
    pub(super) fn sentence(&self) -> String {
        let source = if self.provenance == Provenance::Modelled { "modelled, not measured" } else { "measured" };
        if self.queries.is_empty() {
            return format!("{}, {source}: too few readings to estimate the error of a query", self.device);
        }
        let length = |ms: f64| if ms >= 999.5 { format!("{:.0} s", ms / 1e3) } else { format!("{ms:.0} ms") };
        let margin =
            |percent: f64| if percent < 9.95 { format!("±{percent:.1} %") } else { format!("±{percent:.0} %") };
        let [first, rest @ ..] = &self.queries[..] else { return String::new() };
        let mut sentence = format!(
            "{}, {source}: expected error {} for a query of {}",
            self.device,
            margin(first.margin_pct),
            length(first.length_ms)
        );
        for query in rest {
            let _ = write!(sentence, ", {} for {}", margin(query.margin_pct), length(query.length_ms));
        }
        sentence
    }
}
