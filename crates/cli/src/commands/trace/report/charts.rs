//! The charts of a trace.

use std::collections::BTreeMap;

use ergometer_charts::{Axis, Chart, Hue, Mark, Panel, Points, Scale, Spans};
use ergometer_trace::accounting::{DeviceId, Execution, Row};

use super::{Accounts, seconds, shown};

/// The most spans in a chart; more could not be distinguished.
const MOST_SPANS: usize = 20_000;

/// The most bars in a chart.
const BARS: usize = 20;

/// The most devices with a panel.
const MOST_DEVICES: usize = 8;

/// The busy share of each device over time, and the executions of modules.
pub(super) fn timeline(account: &Accounts) -> Option<Chart> {
    let zero = account.working().map(|work| work.span.start).min()?;
    let mut panels = Vec::new();
    let mut notes = Vec::new();
    let several = account.working().count() > 1;
    for work in account.working().take(MOST_DEVICES) {
        let count = work.timeline.len().max(1) as f64;
        let (start, length) = (seconds(work.span.start - zero), seconds(work.span.length()));
        let mut x: Vec<f64> = (0..work.timeline.len()).map(|part| start + length * part as f64 / count).collect();
        let mut y: Vec<f64> = work.timeline.iter().map(|busy| 100.0 * busy).collect();
        x.push(start + length);
        y.push(0.0);
        let label = if several { format!("busy, {}", work.device.label(account.trace)) } else { String::from("busy") };
        let low = vec![0.0; x.len()];
        let (x, low, high) = steps(&x, &low, &y);
        let line = Mark::Step { label: String::new(), hue: Hue::Series(0), x: x.clone(), y: high.clone() };
        let marks = vec![Mark::Band { hue: Hue::Series(0), x, low, high }, line];
        panels.push(Panel { y: Axis::from_zero(label, "%").within(0.0, 100.0), marks, share: 1.0 });
    }
    if account.working().count() > MOST_DEVICES {
        notes.push(format!("Shows the first {MOST_DEVICES} of {} devices.", account.working().count()));
    }
    let (spans, lanes, step) = spans(account, zero);
    if !spans.is_empty() {
        if step > 1 {
            notes.push(format!("Shows one of every {step} executions."));
        }
        let y = Axis { scale: Scale::Plain, ..Axis::linear("executions of modules", "") };
        panels.push(Panel { y, marks: spans, share: 0.3 + 0.1 * f64::from(lanes.min(10)) });
    }
    notes.push(String::from(
        "Busy: the share of each interval of the chart in which the device ran at least one event.",
    ));
    (!panels.is_empty()).then(|| Chart {
        id: String::from("trace_timeline"),
        title: String::from("Devices over time"),
        subtitle: String::new(),
        notes,
        x: Axis::linear("time since the first event", "s"),
        panels,
    })
}

/// Corners of a line that keeps its value until the next point.
fn steps(x: &[f64], low: &[f64], high: &[f64]) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let mut out = (Vec::new(), Vec::new(), Vec::new());
    for place in 0..x.len() {
        if place > 0 {
            out.0.push(x[place]);
            out.1.push(low[place - 1]);
            out.2.push(high[place - 1]);
        }
        out.0.push(x[place]);
        out.1.push(low[place]);
        out.2.push(high[place]);
    }
    out
}

/// The executions, a lane for each device and a color for each module.
fn spans(account: &Accounts, zero: ergometer_units::Picos) -> (Vec<Mark>, u32, usize) {
    let mut lanes: BTreeMap<DeviceId, u32> = BTreeMap::new();
    let mut modules: Vec<(String, Spans)> = Vec::new();
    let step = account.executions.len().div_ceil(MOST_SPANS).max(1);
    for execution in account.executions.iter().step_by(step) {
        let count = u32::try_from(lanes.len()).unwrap_or(u32::MAX);
        let lane = *lanes.entry(execution.device).or_insert(count);
        let name = account.name(execution.module);
        let place = modules.iter().position(|(module, _)| *module == name).unwrap_or_else(|| {
            modules.push((name.clone(), Spans { label: name.clone(), ..Spans::default() }));
            modules.len() - 1
        });
        let spans = &mut modules[place].1;
        spans.start.push(seconds(execution.span.start - zero));
        spans.end.push(seconds(execution.span.start - zero) + seconds(execution.span.length()));
        spans.lane.push(lane);
        spans.names.push(describe(&name, execution));
    }
    // The largest module has the first color; small modules share the last.
    modules.sort_by_key(|(_, spans)| std::cmp::Reverse(spans.start.len()));
    let coloured = modules.into_iter().enumerate().map(|(place, (_, spans))| {
        let hue = u8::try_from(place).ok().filter(|place| *place < 8).map_or(Hue::Muted, Hue::Series);
        Mark::Spans(Spans { hue, ..spans })
    });
    (coloured.collect(), u32::try_from(lanes.len()).unwrap_or(u32::MAX), step)
}

fn describe(name: &str, execution: &Execution) -> String {
    format!(
        "{name} #{}, busy {} of {}",
        execution.number,
        shown(execution.account.busy),
        shown(execution.span.length())
    )
}

/// The busy time of each execution of the busiest modules, in order of time.
pub(super) fn executions(account: &Accounts) -> Option<Chart> {
    let mut modules: Vec<(String, Points)> = Vec::new();
    let step = account.executions.len().div_ceil(MOST_SPANS).max(1);
    for execution in account.executions.iter().step_by(step) {
        let name = account.name(execution.module);
        let place = modules.iter().position(|(module, _)| *module == name).unwrap_or_else(|| {
            modules.push((name.clone(), Points { label: name.clone(), ..Points::default() }));
            modules.len() - 1
        });
        let points = &mut modules[place].1;
        points.x.push(execution.number as f64);
        points.y.push(seconds(execution.account.busy));
    }
    modules.retain(|(_, points)| points.x.len() > 1);
    modules.sort_by(|(_, one), (_, other)| {
        let total = |points: &Points| points.y.iter().sum::<f64>();
        total(other).total_cmp(&total(one))
    });
    modules.truncate(4);
    if modules.is_empty() {
        return None;
    }
    let lowest = modules.iter().flat_map(|(_, points)| &points.y).copied().fold(f64::INFINITY, f64::min);
    let highest = modules.iter().flat_map(|(_, points)| &points.y).copied().fold(0.0, f64::max);
    let marks = modules.into_iter().enumerate().map(|(place, (_, points))| {
        Mark::Points(Points { hue: Hue::Series(u8::try_from(place).unwrap_or(0)), ..points })
    });
    let label = "busy time of an execution";
    Some(Chart {
        id: String::from("module_executions"),
        title: String::from("Executions of the busiest modules"),
        subtitle: String::new(),
        notes: [String::from("First executions are often longer, while caches fill and clocks rise.")]
            .into_iter()
            .chain((step > 1).then(|| format!("Shows one of every {step} executions.")))
            .collect(),
        x: Axis::linear("execution number", ""),
        panels: vec![Panel {
            y: if lowest > 0.0 && highest > 30.0 * lowest {
                Axis::log(label, "s")
            } else {
                Axis::from_zero(label, "s")
            },
            marks: marks.collect(),
            share: 1.0,
        }],
    })
}

/// The rows of a bar chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BarChart {
    Kernels,
    Ops,
}

/// The kernels or ops with the most self time.
pub(super) fn top(account: &Accounts, of: BarChart) -> Option<Chart> {
    let (rows, id, title) = match of {
        BarChart::Kernels => (&account.kernels, "top_kernels", "Kernels by self time"),
        BarChart::Ops => (&account.ops, "top_ops", "Ops by self time"),
    };
    let rows: Vec<&Row> = rows.iter().take(BARS).collect();
    if rows.is_empty() {
        return None;
    }
    let points = Points {
        x: rows.iter().map(|row| seconds(row.account.self_time)).collect(),
        y: (0..rows.len()).map(|place| place as f64).collect(),
        ..Points::default()
    };
    let names = rows.iter().map(|row| account.name(row.label.name)).collect();
    Some(Chart {
        id: id.to_owned(),
        title: title.to_owned(),
        subtitle: String::new(),
        notes: vec![String::from("Self time: without events nested inside on the same line.")],
        x: Axis::from_zero("self time", "s"),
        panels: vec![Panel { y: Axis::names("", names), marks: vec![Mark::Bars(points)], share: 1.0 }],
    })
}
