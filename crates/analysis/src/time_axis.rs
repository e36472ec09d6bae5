//! A time axis for a run: seconds since the first request, with sessions one after the other.

use std::collections::BTreeMap;

use ergometer_units::Timestamp;

use ergometer_runs::saved::Run;

/// Seconds between the end of a session and the start of the next on the axis.
const PAUSE_S: f64 = 1.0;

/// The position of a session on the axis.
#[derive(Debug, Clone, Copy)]
struct SessionRange {
    first_ns: i64,
    last_ns: i64,
    offset_s: f64,
}

/// The time axis of a run, without the idle time between sessions.
#[derive(Debug, Clone)]
pub(crate) struct TimeAxis(BTreeMap<u32, SessionRange>);

impl TimeAxis {
    pub(crate) fn from_run(run: &Run) -> Self {
        let mut ranges: BTreeMap<u32, SessionRange> = BTreeMap::new();
        for query in &run.queries {
            let (Some(start), Some(end)) = (query.sent, query.end) else { continue };
            let (start_ns, end_ns) = (start.nanos_since_epoch(), end.nanos_since_epoch());
            let range = ranges.entry(query.session).or_insert(SessionRange {
                first_ns: start_ns,
                last_ns: end_ns,
                offset_s: 0.0,
            });
            (range.first_ns, range.last_ns) = (range.first_ns.min(start_ns), range.last_ns.max(end_ns));
        }
        let mut offset_s = 0.0;
        for range in ranges.values_mut() {
            range.offset_s = offset_s;
            offset_s += seconds(range.last_ns, range.first_ns) + PAUSE_S;
        }
        Self(ranges)
    }

    /// The number of sessions.
    pub(crate) fn sessions(&self) -> usize {
        self.0.len()
    }

    /// The position of a time of a session.
    pub(crate) fn place(&self, session: u32, at: Timestamp) -> Option<f64> {
        let range = self.0.get(&session)?;
        Some(range.offset_s + seconds(at.nanos_since_epoch(), range.first_ns))
    }

    /// The position of a reading that is at most `around_s` outside its session.
    pub(crate) fn place_near(&self, session: u32, at_ns: i64, around_s: f64) -> Option<f64> {
        let range = self.0.get(&session)?;
        let (before, after) = (seconds(range.first_ns, at_ns), seconds(at_ns, range.last_ns));
        (before <= around_s && after <= around_s).then_some(range.offset_s - before)
    }
}

fn seconds(later_ns: i64, earlier_ns: i64) -> f64 {
    Timestamp::from_nanos_since_epoch(later_ns).since(Timestamp::from_nanos_since_epoch(earlier_ns)).get()
}
