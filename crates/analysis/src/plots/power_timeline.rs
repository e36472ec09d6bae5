//! Plots power over time, with the requests as bars below.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ergometer_charts::{Axis, Chart, Hue, Mark, Panel, Scale, Side, Spans};
use ergometer_statistics::mean;
use ergometer_units::format::{quantity, thousands};

use super::{Plot, PlotInput, hue};
use crate::AnalysisError;
use crate::power::PowerCurve;
use crate::time_axis::TimeAxis;
use ergometer_runs::saved::{Query, Run};
use ergometer_runs::summary::DeviceSummary;

pub(super) struct PowerTimeline;

impl Plot for PowerTimeline {
    fn id(&self) -> &'static str {
        "power_timeline"
    }

    fn about(&self) -> &'static str {
        "power over time, with requests as bars below"
    }

    fn needs(&self) -> &'static str {
        "queries with start and end times"
    }

    fn draw(&self, input: &PlotInput) -> Result<Vec<Chart>, AnalysisError> {
        let charts: Result<Vec<Option<Chart>>, _> =
            input.each().enumerate().map(|(place, (run, label, _))| draw(input, place, run, label)).collect();
        Ok(charts?.into_iter().flatten().collect())
    }
}

fn draw(input: &PlotInput, place: usize, run: &Run, label: &str) -> Result<Option<Chart>, AnalysisError> {
    let axis = TimeAxis::from_run(run);
    let curves = PowerCurve::read_all(run, &axis)?;
    let (spans, left_out) = spans(input, run, &axis);
    if curves.is_empty() && spans.is_empty() {
        return Ok(None);
    }
    let mut notes = input.energy_note();
    let mut power: Vec<Mark> = Vec::new();
    let several = curves.len() > 1;
    for (place, curve) in curves.into_iter().enumerate() {
        let label = if several { curve.device.clone() } else { String::new() };
        notes.push(format!("{}: {}.", curve.device, read_from(&curve.signal)));
        let curve = curve.thinned(input.detail.readings());
        power.push(Mark::Step { label, hue: hue(place), x: curve.at_s, y: curve.watts });
    }
    power.extend(idle(run).map(|at| Mark::Rule { side: Side::Y, at, label: String::from("idle"), hue: Hue::Muted }));
    if left_out > 0 {
        notes.push(format!("{} more requests are not drawn.", thousands(left_out as f64)));
    }
    if axis.sessions() > 1 {
        notes.push(format!("The run has {} sessions, drawn one after the other.", axis.sessions()));
    }
    notes.push(String::from("Each request is a bar, paler until the first token."));
    let mut panels = Vec::new();
    if !power.is_empty() {
        panels.push(Panel { y: Axis::from_zero("power", "W"), marks: power, share: 1.0 });
    }
    if !spans.is_empty() {
        let y = Axis { scale: Scale::Plain, ..Axis::linear("requests", "") };
        panels.push(Panel { y, marks: spans, share: 0.8 });
    }
    let id =
        if input.runs.len() > 1 { format!("power_timeline_{}", place + 1) } else { String::from("power_timeline") };
    let title = if input.runs.len() > 1 {
        format!("Power and requests over time: {label}")
    } else {
        String::from("Power and requests over time")
    };
    Ok(Some(Chart {
        id,
        title,
        subtitle: if input.runs.len() > 1 { run.name() } else { input.subtitle() },
        notes,
        x: Axis::linear("time since the first request", "s"),
        panels,
    }))
}

fn read_from(signal: &str) -> &'static str {
    match signal {
        "power_ring" => "every sample of the GPU's power",
        "power_instant" => "instantaneous power readings",
        "power_average" => "the sensor's running average, which lags",
        "energy" => "differences of the energy counter",
        _ => "modelled from CPU utilization",
    }
}

/// The idle power of the counted devices.
fn idle(run: &Run) -> Option<f64> {
    let counted: Vec<&DeviceSummary> = run.summary.energy.devices.iter().filter(|device| device.summed).collect();
    // Several devices have several curves, so a single line of idle power would be wrong.
    let [device] = &counted[..] else { return None };
    mean(device.idle_w.iter().copied())
}

/// The requests as bars in lanes, completed and failed ones separately, and how many are left out.
fn spans(input: &PlotInput, run: &Run, axis: &TimeAxis) -> (Vec<Mark>, usize) {
    let most = input.detail.queries();
    let mut queries: Vec<(f64, f64, &Query)> = run
        .queries
        .iter()
        .filter_map(|query| {
            let place = |at| axis.place(query.session, at);
            Some((place(query.sent?)?, place(query.end?)?, query))
        })
        .collect();
    queries.sort_by(|one, other| one.0.total_cmp(&other.0));
    let left_out = queries.len().saturating_sub(most);
    // The shortest requests are left out, because they are the least visible.
    if left_out > 0 {
        let mut lengths: Vec<f64> = queries.iter().map(|(start, end, _)| end - start).collect();
        let (_, shortest, _) = lengths.select_nth_unstable_by(left_out - 1, f64::total_cmp);
        let shortest = *shortest;
        let mut to_drop = left_out;
        queries.retain(|(start, end, _)| {
            let is_dropped = to_drop > 0 && end - start <= shortest;
            to_drop -= usize::from(is_dropped);
            !is_dropped
        });
    }
    let mut lanes = Lanes::default();
    let mut completed = Spans { label: String::from("completed"), ..Spans::default() };
    let mut failed = Spans { label: String::from("failed"), hue: Hue::Bad, ..Spans::default() };
    for (start, end, query) in queries {
        let lane = lanes.take(start, end);
        let spans = if query.is_completed() { &mut completed } else { &mut failed };
        spans.start.push(start);
        spans.end.push(end);
        let first = query.first_token.and_then(|at| axis.place(query.session, at));
        spans.turn.push(first.unwrap_or(if query.is_completed() { start } else { end }));
        spans.lane.push(lane);
        spans.requests.push(query.request);
        spans.names.push(describe(query));
    }
    let marks = [completed, failed].into_iter().filter(|spans| !spans.start.is_empty()).map(|mut spans| {
        spans.requests = input.leading(run, std::mem::take(&mut spans.requests));
        Mark::Spans(spans)
    });
    let marks = marks.collect();
    (marks, left_out)
}

fn describe(query: &Query) -> String {
    let parts = [
        query.total_s.map(|seconds| quantity(seconds, "s")),
        query.ttft_s.map(|seconds| format!("first token after {}", quantity(seconds, "s"))),
        query.output_tokens.map(|tokens| format!("{tokens} tokens")),
        query.energy.map(|energy| quantity(energy.gross, "J")),
        (!query.is_completed()).then(|| String::from("failed")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Assigns requests to lanes: each takes the topmost free lane, and frees it when it ends.
#[derive(Debug, Default)]
struct Lanes {
    busy: BinaryHeap<Reverse<(OrderedTime, u32)>>,
    free: BinaryHeap<Reverse<u32>>,
    count: u32,
}

/// A finite time with a total order.
#[derive(Debug, Clone, Copy, PartialEq)]
struct OrderedTime(f64);

impl Eq for OrderedTime {}

impl PartialOrd for OrderedTime {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OrderedTime {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Lanes {
    fn take(&mut self, start: f64, end: f64) -> u32 {
        while let Some(Reverse((ended, lane))) =
            self.busy.peek().copied().filter(|Reverse((ended, _))| ended.0 <= start)
        {
            debug_assert!(ended.0 <= start);
            self.busy.pop();
            self.free.push(Reverse(lane));
        }
        let lane = self.free.pop().map_or_else(
            || {
                self.count += 1;
                self.count - 1
            },
            |Reverse(lane)| lane,
        );
        self.busy.push(Reverse((OrderedTime(end), lane)));
        lane
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_in_a_lane_never_overlap() {
        let mut lanes = Lanes::default();
        let taken: Vec<u32> = [(0.0, 5.0), (1.0, 2.0), (1.5, 9.0), (2.0, 3.0), (5.0, 6.0), (5.5, 7.0)]
            .map(|(a, b)| lanes.take(a, b))
            .to_vec();
        assert_eq!(taken, [0, 1, 2, 1, 0, 1]);
    }
}
