//! Builds time series from queries and telemetry: one series per session, device and quantity.

use std::collections::BTreeMap;

use ergometer_units::Timestamp;

use super::trend::{BlockAverage, SmallestChange, TrendOptions};
use ergometer_runs::saved::{Channel, Query, Run, Telemetry};

/// Power signals, best first.
const POWERS: [&str; 4] = ["power_ring", "power_instant", "power_average", "power_modelled"];

/// All signals read from telemetry.
pub(super) const SIGNALS: [&str; 9] = [
    "power_ring",
    "power_instant",
    "power_average",
    "power_modelled",
    "energy",
    "temperature",
    "clock_core",
    "clock_memory",
    "throttle_reasons",
];

/// Smallest change that counts as drift: a share of the median, or degrees for temperatures.
const SHARE: SmallestChange = SmallestChange::Share(0.01);
const DEGREES: SmallestChange = SmallestChange::Absolute(1.0);

/// The analyzed time range of a session.
#[derive(Debug, Clone)]
pub(super) struct SessionRange {
    pub(super) session: u32,
    pub(super) start: Timestamp,
    pub(super) end: Timestamp,
    /// Whether the range is the steady state. Otherwise it lasts from the first request sent to the last end.
    pub(super) is_steady: bool,
    /// Time spans with requests in flight, disjoint and sorted.
    pub(super) busy: Vec<(i64, i64)>,
}

impl SessionRange {
    pub(super) fn seconds(&self) -> f64 {
        self.end.since(self.start).get()
    }

    /// Seconds since the start of the range; `None` outside the range.
    pub(super) fn place(&self, at: Timestamp) -> Option<f64> {
        (self.start <= at && at <= self.end).then(|| at.since(self.start).get())
    }

    /// The time ranges of a run, one per session.
    pub(super) fn all(run: &Run) -> Vec<Self> {
        let steady: Vec<(i64, i64)> = run.summary.steady_windows().collect();
        let mut sessions: BTreeMap<u32, Vec<(i64, i64)>> = BTreeMap::new();
        for query in &run.queries {
            if let (Some(sent), Some(end)) = (query.sent, query.end) {
                sessions.entry(query.session).or_default().push((sent.nanos_since_epoch(), end.nanos_since_epoch()));
            }
        }
        let range = |(session, spans): (u32, Vec<(i64, i64)>)| {
            let busy = joined(spans);
            let (first, last) = (busy.first()?.0, busy.last()?.1);
            let inside = steady.iter().find(|(start, end)| *start < last && *end > first);
            let (start, end) = inside.copied().unwrap_or((first, last));
            let at = Timestamp::from_nanos_since_epoch;
            Some(Self { session, start: at(start), end: at(end), is_steady: inside.is_some(), busy })
        };
        sessions.into_iter().filter_map(range).collect()
    }
}

/// Merges overlapping spans.
fn joined(mut spans: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    spans.sort_unstable();
    let mut joined: Vec<(i64, i64)> = Vec::new();
    for (start, end) in spans {
        match joined.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => joined.push((start, end)),
        }
    }
    joined
}

/// A quantity over time.
#[derive(Debug)]
pub(super) struct Series {
    /// The name in JSON, with the unit as suffix.
    pub(super) name: &'static str,
    /// The label in tables.
    pub(super) head: &'static str,
    pub(super) unit: &'static str,
    /// The device, such as `gpu:0`; `None` for quantities of queries.
    pub(super) device: Option<String>,
    pub(super) session: u32,
    /// Seconds since the start of the time range, and values.
    pub(super) points: Vec<(f64, f64)>,
    pub(super) options: TrendOptions,
}

/// A quantity of a query: name in JSON, label, unit, and value.
type Figure = (&'static str, &'static str, &'static str, fn(&Query) -> Option<f64>);

/// The series of queries in a time range, by sending time.
pub(super) fn from_queries(run: &Run, range: &SessionRange) -> Vec<Series> {
    let figures: [Figure; 6] = [
        ("ttft_s", "TTFT", "s", Query::ttft),
        ("tpot_s", "TPOT", "s", Query::tpot),
        ("e2e_s", "E2E latency", "s", Query::e2e),
        ("j_per_output_token", "energy per output token of a query", "J", Query::joules_per_output_token),
        ("input_tokens", "input tokens", "", |query| query.input_tokens.map(|tokens| tokens as f64)),
        ("output_tokens", "output tokens", "", |query| query.output_tokens.map(|tokens| tokens as f64)),
    ];
    let series = figures.into_iter().map(|(name, head, unit, figure)| {
        let queries = run.completed().filter(|query| query.session == range.session);
        let points = queries.filter_map(|query| Some((range.place(query.sent?)?, figure(query)?))).collect();
        let options = TrendOptions { average: BlockAverage::Median, smallest_change: SHARE, seconds: range.seconds() };
        Series { name, head, unit, device: None, session: range.session, points, options }
    });
    series.filter(|series| !series.points.is_empty()).collect()
}

/// The series of telemetry readings in a time range, per device.
pub(super) fn from_readings(telemetry: &Telemetry, range: &SessionRange) -> Vec<Series> {
    let channels = || telemetry.channels.iter().filter(|channel| channel.session == range.session && is_whole(channel));
    let mut series = Vec::new();
    let mut push = |(name, head, unit, smallest_change), channel: &Channel, points: Vec<(f64, f64)>| {
        let options = TrendOptions { average: BlockAverage::Mean, smallest_change, seconds: range.seconds() };
        let device = Some(device(channel));
        if !points.is_empty() {
            series.push(Series { name, head, unit, device, session: range.session, points, options });
        }
    };
    let mut powered: Vec<(&str, &str)> = Vec::new();
    for signal in POWERS.into_iter().chain(["energy"]) {
        for channel in channels().filter(|channel| channel.signal == signal) {
            let place = (channel.device.as_str(), channel.scope.as_str());
            let points = if signal == "energy" { differences(channel, range) } else { inside(channel, range) };
            if !points.is_empty() && !powered.contains(&place) {
                powered.push(place);
                push(("power_w", "power", "W", SHARE), channel, points);
            }
        }
    }
    for figure in [
        ("temperature", ("temperature_c", "temperature", "°C", DEGREES)),
        ("clock_core", ("clock_core_mhz", "core clock", "MHz", SHARE)),
        ("clock_memory", ("clock_memory_mhz", "memory clock", "MHz", SHARE)),
    ] {
        for channel in channels().filter(|channel| channel.signal == figure.0) {
            push(figure.1, channel, inside(channel, range));
        }
    }
    series
}

/// Whether the channel is of a whole device, not of a part of one.
fn is_whole(channel: &Channel) -> bool {
    !["memory", "core", "uncore"].contains(&channel.scope.as_str())
}

/// The label of a device.
pub(super) fn device(channel: &Channel) -> String {
    if channel.scope == "device" { channel.device.clone() } else { format!("{} {}", channel.device, channel.scope) }
}

fn inside(channel: &Channel, range: &SessionRange) -> Vec<(f64, f64)> {
    let readings = channel.at_ns.iter().zip(&channel.values);
    readings.filter_map(|(&at, &value)| Some((range.place(Timestamp::from_nanos_since_epoch(at))?, value))).collect()
}

/// Power from an energy counter: the difference of neighbouring readings, at the middle of each step. Steps of a counter that
/// went backwards are left out.
fn differences(channel: &Channel, range: &SessionRange) -> Vec<(f64, f64)> {
    let readings = inside(channel, range);
    let step = |pair: &[(f64, f64)]| {
        let ((from, before), (to, after)) = (pair[0], pair[1]);
        (to > from && after >= before).then(|| (f64::midpoint(from, to), (after - before) / (to - from)))
    };
    readings.windows(2).filter_map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::example;
    use super::*;
    use serde_json::json;

    fn channel(signal: &str, scope: &str, values: &[f64]) -> Channel {
        Channel {
            device: String::from("gpu:0"),
            scope: scope.to_owned(),
            signal: signal.to_owned(),
            at_ns: (0..values.len()).map(|second| example::at(second as f64).nanos_since_epoch()).collect(),
            values: values.to_vec(),
            ..Channel::default()
        }
    }

    #[test]
    fn a_range_is_the_steady_state_or_the_session() {
        let queries = || vec![example::query(0), example::query(1), example::query(30)];
        let ranges = SessionRange::all(&example::run(queries(), &[""]));
        assert_eq!((ranges.len(), ranges[0].is_steady, ranges[0].busy.len()), (1, false, 2));
        assert!((ranges[0].seconds() - 3.1).abs() < 1e-9);
        let nanos = |seconds: f64| example::at(seconds).nanos_since_epoch();
        let summary = json!({"load": {"steady_state": {"windows_ns": [null, [nanos(0.1), nanos(2.1)]]}}});
        let ranges = SessionRange::all(&example::with_summary(queries(), &[""], summary));
        assert!(ranges[0].is_steady && (ranges[0].seconds() - 2.0).abs() < 1e-9);
        let series = from_queries(&example::run(queries(), &[""]), &ranges[0]);
        assert_eq!(
            series.iter().map(|series| series.points.len()).collect::<Vec<_>>(),
            [1; 5],
            "one query was sent inside"
        );
    }

    #[test]
    fn each_device_has_one_power_series_from_its_best_signal() {
        let telemetry = Telemetry {
            channels: vec![
                channel("energy", "device", &[0.0, 9.0]),
                channel("power_average", "memory", &[1.0, 1.0]),
                channel("power_average", "device", &[100.0, 110.0, 120.0]),
                channel("power_ring", "device", &[101.0, 111.0]),
                channel("energy", "package", &[10.0, 40.0, 30.0, 80.0]),
                channel("temperature", "device", &[40.0]),
            ],
        };
        let range = &SessionRange::all(&example::run(vec![example::query(0), example::query(20)], &[""]))[0];
        let series = from_readings(&telemetry, range);
        let found: Vec<(&str, &str, usize)> =
            series.iter().map(|one| (one.name, one.device.as_deref().unwrap(), one.points.len())).collect();
        assert_eq!(found, [("power_w", "gpu:0", 2), ("power_w", "gpu:0 package", 1), ("temperature_c", "gpu:0", 1)]);
        assert_eq!(series[1].points, [(0.5, 30.0)], "a step of a counter that went backwards is left out");
    }
}
