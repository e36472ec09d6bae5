//! Averages a channel into the cells of a graph.
//!
//! Cells are aligned to multiples of their width, so a graph scrolls by whole cells and does not flicker. A cell is the
//! mean over its time, or empty if there was no reading.

use std::time::Duration;

use ergometer_statistics::mean;
use ergometer_telemetry::{ChannelId, Signal, Timeline};
use ergometer_units::{Seconds, Timestamp};

/// The values of a graph up to now.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct History {
    pub(crate) cells: Vec<Option<f64>>,
    /// The largest single reading.
    pub(crate) peak: Option<f64>,
}

/// The time range and resolution of a graph.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GraphRange {
    pub(crate) now: Timestamp,
    pub(crate) span: Duration,
    pub(crate) cells: usize,
    /// How long a reading is valid without a next one.
    pub(crate) patience: Seconds,
}

impl History {
    /// The history of a gauge, or the power from the steps of an energy counter.
    pub(crate) fn new(timeline: &Timeline, id: ChannelId, range: GraphRange) -> Self {
        let width_ns = nanos(range.span) / i64::try_from(range.cells.max(1)).unwrap_or(i64::MAX).max(1);
        let width_ns = width_ns.max(1);
        let count = range.cells.max(1);
        let now_ns = range.now.nanos_since_epoch();
        let end_ns = now_ns.div_euclid(width_ns).saturating_add(1).saturating_mul(width_ns);
        let start_ns = end_ns.saturating_sub(width_ns.saturating_mul(i64::try_from(count).unwrap_or(i64::MAX)));
        let readings = timeline.column(id).readings();
        let first = readings.at_ns.partition_point(|&at| at < start_ns).saturating_sub(1);
        let last = readings.at_ns.partition_point(|&at| at <= now_ns);
        let is_counter = timeline.channel(id).signal == Signal::Energy;
        let hold_ns = range.patience.as_nanos();
        let mut sums = vec![(0.0, 0_i64); count];
        let mut peak: Option<f64> = None;
        for place in first..last {
            let at = readings.at_ns[place];
            let next = readings.at_ns.get(place + 1).copied().filter(|&next| next <= now_ns);
            let (until, value) = if is_counter {
                let Some(next) = next else { break };
                let seconds = (next - at) as f64 / 1e9;
                (next, (readings.values[place + 1] - readings.values[place]) / seconds)
            } else {
                (next.unwrap_or(now_ns).min(at.saturating_add(hold_ns)), readings.values[place])
            };
            // A counter reset, or two readings at the same time, give no power.
            if !value.is_finite() || value < 0.0 {
                continue;
            }
            if until > start_ns {
                peak = Some(peak.map_or(value, |peak| peak.max(value)));
            }
            add(&mut sums, start_ns, width_ns, (at, until.max(at + 1), value));
        }
        let mean = |&(sum, time): &(f64, i64)| (time > 0).then(|| sum / time as f64);
        Self { cells: sums.iter().map(mean).collect(), peak }
    }

    /// The history in fewer cells, each the mean of those it covers.
    pub(crate) fn narrowed(&self, count: usize) -> Vec<Option<f64>> {
        let from = self.cells.len();
        (0..count)
            .map(|place| {
                let start = place * from / count;
                let end = ((place + 1) * from / count).max(start + 1).min(from);
                mean(self.cells.get(start..end)?.iter().flatten().copied())
            })
            .collect()
    }
}

/// Adds a value that was valid for a time to the cells in that time.
fn add(sums: &mut [(f64, i64)], start_ns: i64, width_ns: i64, (from, until, value): (i64, i64, f64)) {
    let (from, until) = (from.max(start_ns), until);
    let mut place = usize::try_from((from - start_ns) / width_ns).unwrap_or(0);
    let mut at = from;
    while at < until && place < sums.len() {
        let edge = start_ns + width_ns * (i64::try_from(place).unwrap_or(i64::MAX - 1) + 1);
        let part = edge.min(until) - at;
        sums[place].0 += value * part as f64;
        sums[place].1 += part;
        at = edge;
        place += 1;
    }
}

fn nanos(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use ergometer_telemetry::{Batch, Channel, DeviceId, Provenance, Scope, SensorInfo};

    use super::*;

    fn timeline(signal: Signal, rows: &[(i64, f64)]) -> Timeline {
        let mut timeline = Timeline::default();
        let device = DeviceId::gpu(0);
        let provenance = Provenance::SampledPower;
        let channel = Channel { device, scope: Scope::Device, signal, provenance, update_period: None };
        let interval = Duration::from_millis(100);
        let info = SensorInfo { id: String::from("a"), name: String::from("a"), device, interval };
        let key = timeline.add_sensor(&info, &[channel]);
        let mut batch = Batch::default();
        for &(second, value) in rows {
            batch.push(0, time(second), value);
        }
        timeline.append(key, &batch);
        timeline
    }

    fn time(second: i64) -> Timestamp {
        Timestamp::from_nanos_since_epoch(second * 1_000_000_000)
    }

    fn history(signal: Signal, rows: &[(i64, f64)], now: i64) -> History {
        let range = GraphRange { now: time(now), span: Duration::from_secs(4), cells: 4, patience: Seconds::new(2.0) };
        let timeline = timeline(signal, rows);
        let id = timeline.channels().next().unwrap().0;
        History::new(&timeline, id, range)
    }

    #[test]
    fn a_value_is_valid_until_the_next_or_its_limit() {
        let found = history(Signal::PowerInstant, &[(100, 5.0), (101, 7.0)], 103);
        assert_eq!(found.cells, [Some(5.0), Some(7.0), Some(7.0), None]);
        assert_eq!(found.peak, Some(7.0));
        let silent = history(Signal::PowerInstant, &[(90, 5.0)], 103);
        assert_eq!((silent.cells, silent.peak), (vec![None; 4], None), "old readings are not shown");
    }

    #[test]
    fn counter_steps_give_power_and_a_reset_does_not() {
        let found = history(Signal::Energy, &[(100, 50.0), (101, 60.0), (102, 0.0), (103, 30.0)], 103);
        assert_eq!(found.cells, [Some(10.0), None, Some(30.0), None]);
    }

    #[test]
    fn fewer_cells_are_means() {
        let cells = vec![Some(1.0), Some(3.0), None, Some(4.0), None, None];
        let history = History { cells, peak: None };
        assert_eq!(history.narrowed(3), [Some(2.0), Some(4.0), None]);
        assert_eq!(History::default().narrowed(2), [None, None]);
    }
}
