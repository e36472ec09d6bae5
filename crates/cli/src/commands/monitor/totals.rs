//! The energy of a whole watch, by the estimator, with its interval.

use ergometer_telemetry::{EnergyMeter, Provenance, Timeline, WindowEnergy};
use ergometer_units::{Timestamp, Window};
use serde::Serialize;

use crate::exit::Failure;
use crate::figures::{digits, joules};
use crate::report::WindowReport;
use crate::screen::{Align, Screen, Table, Tone};

#[derive(Serialize)]
struct Totals {
    totals: WindowReport,
}

/// Where every sensor has something to say: from the last first reading of energy or power to the first last one.
pub(super) fn window(timeline: &Timeline) -> Option<Window> {
    let spans =
        timeline.channels().filter(|(_, channel)| channel.provenance != Provenance::Gauge).filter_map(|(id, _)| {
            let times = timeline.column(id).readings();
            Some((*times.at_ns.first()?, *times.at_ns.last()?))
        });
    let (first, last) = spans.reduce(|(first, last), (from, to)| (first.max(from), last.min(to)))?;
    let at = Timestamp::from_nanos_since_epoch;
    Window::new(at(first), at(last)).ok()
}

/// The energy of a timeline, all of it or from a time on.
pub(super) fn total(timeline: &Timeline, from: Option<Timestamp>) -> Option<WindowEnergy> {
    let whole = window(timeline)?;
    let window = Window::new(from.unwrap_or(whole.start()), whole.end()).ok()?;
    Some(EnergyMeter::new(timeline, &[window]).energy(window))
}

pub(super) fn as_json(energy: Option<&WindowEnergy>) -> Result<String, Failure> {
    let Some(energy) = energy else { return Ok(String::new()) };
    let mut line = serde_json::to_string(&Totals { totals: WindowReport::new(energy) }).map_err(Failure::failed)?;
    line.push('\n');
    Ok(line)
}

pub(super) fn as_table(energy: Option<&WindowEnergy>, screen: Screen) -> String {
    let Some(energy) = energy else { return String::new() };
    let length = energy.window.length();
    let mut table = Table::new([Align::Left, Align::Left, Align::Right, Align::Right, Align::Left]);
    table.row(vec![
        (Tone::Faint, String::from("total")),
        (Tone::Faint, String::new()),
        (Tone::Faint, format!("over {:.2} s", length.get())),
    ]);
    for device in &energy.devices {
        let Ok(estimate) = &device.estimate else { continue };
        table.row(vec![
            (Tone::Strong, device.device.to_string()),
            (Tone::Faint, device.scope.to_string()),
            (Tone::Strong, joules(estimate)),
            (Tone::Plain, format!("{} W", digits((estimate.joules / length).get()))),
            (Tone::Faint, estimate.method.to_string()),
        ]);
    }
    format!("\n{}", table.render(screen))
}
