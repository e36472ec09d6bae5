//! Finds when and where a session ran, and aligns its times with other sessions.

use ergometer_units::Timestamp;
use foldhash::HashMap;

use super::event::FARTHEST_PS;
use super::layout::PlaneLayout;
use super::stats::raw_stat;
use crate::wire::Value;

/// The start, stop and host of a session, and the base of its times.
#[derive(Debug, Default, Clone)]
pub(super) struct SessionInfo {
    pub(super) source: usize,
    pub(super) host: Option<String>,
    pub(super) started: Option<Timestamp>,
    pub(super) stopped: Option<Timestamp>,
    pub(super) scope_parents: HashMap<i64, i64>,
    /// The base of the times of its lines: zero, or the first of them if they count from the Unix epoch.
    pub(super) base_ns: i64,
    /// The wall-clock time of that base.
    pub(super) epoch_ns: Option<i64>,
    /// The number of events.
    pub(super) events: usize,
}

/// The integer stats of a plane: name, number and value.
fn integer_stats<'a>(file: &'a [u8], plane: &'a PlaneLayout) -> impl Iterator<Item = (&'a [u8], i64, i64)> {
    plane.stats.iter().filter_map(move |&span| match raw_stat(file, span) {
        Ok((id, Some((3 | 4, Value::Varint(bits))))) => {
            let name = plane.stat_names.get(&id).map_or(&b""[..], |name| name.bytes(file));
            Some((name, id, bits.cast_signed()))
        }
        _ => None,
    })
}

impl SessionInfo {
    /// Reads a plane that describes the session; other planes are ignored.
    pub(super) fn read_plane(&mut self, file: &[u8], plane: &PlaneLayout, wants_scopes: bool) {
        match plane.name.bytes(file) {
            b"Task Environment" => {
                for (name, _, value) in integer_stats(file, plane) {
                    let time = Some(Timestamp::from_nanos_since_epoch(value));
                    match name {
                        b"profile_start_time" => self.started = time,
                        b"profile_stop_time" => self.stopped = time,
                        _ => {}
                    }
                }
            }
            // The number of a stat is a scope, and its value the parent scope. Stats with a name describe the plane.
            b"/host:__ScopeRangeCallStack__" if wants_scopes => {
                let scopes = integer_stats(file, plane).filter(|(name, ..)| name.is_empty());
                self.scope_parents.extend(scopes.map(|(_, scope, parent)| (scope, parent)));
            }
            _ => {}
        }
    }

    /// Chooses the base from the times and event counts of all lines.
    ///
    /// The line of the middle event decides, so that a line with a damaged time does not shift the others.
    pub(super) fn choose_base(&mut self, mut lines: Vec<(i64, usize)>) {
        lines.sort_unstable();
        self.events = lines.iter().map(|&(_, events)| events).sum();
        let mut before = 0;
        let middle = lines.iter().find(|&&(_, events)| {
            before += events;
            before >= self.events.div_ceil(2)
        });
        let middle_ns = middle.map_or(0, |&(time, _)| time);
        let farthest_ns = FARTHEST_PS / 1000;
        if middle_ns.unsigned_abs() <= farthest_ns.unsigned_abs() {
            self.base_ns = 0;
            self.epoch_ns = self.started.map(Timestamp::nanos_since_epoch);
        } else {
            let nearest = middle_ns.saturating_sub(farthest_ns);
            let first = lines.iter().map(|&(time, _)| time).find(|&time| time >= nearest).unwrap_or(middle_ns);
            self.base_ns = first;
            self.epoch_ns = Some(first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH_NS: i64 = 1_794_725_055_000_000_000;
    const FARTHEST_NS: i64 = FARTHEST_PS / 1000;

    fn chosen(lines: &[(i64, usize)]) -> (i64, Option<i64>, usize) {
        let mut info = SessionInfo { started: Some(Timestamp::from_nanos_since_epoch(7)), ..SessionInfo::default() };
        info.choose_base(lines.to_vec());
        (info.base_ns, info.epoch_ns, info.events)
    }

    #[test]
    fn times_count_from_the_start_or_from_the_epoch() {
        assert_eq!(chosen(&[]), (0, Some(7), 0));
        assert_eq!(chosen(&[(5, 3), (0, 1), (-4, 1)]), (0, Some(7), 5));
        assert_eq!(chosen(&[(FARTHEST_NS, 1)]), (0, Some(7), 1));
        assert_eq!(chosen(&[(FARTHEST_NS + 1, 1)]), (FARTHEST_NS + 1, Some(FARTHEST_NS + 1), 1));
        assert_eq!(chosen(&[(EPOCH_NS + 3, 9), (EPOCH_NS, 1)]), (EPOCH_NS, Some(EPOCH_NS), 10));
    }

    #[test]
    fn the_line_of_the_middle_event_decides() {
        for wild in [i64::MIN, i64::MAX] {
            assert_eq!(chosen(&[(wild, 4), (5, 5)]), (0, Some(7), 9));
            assert_eq!(chosen(&[(wild, 4), (EPOCH_NS, 5)]), (EPOCH_NS, Some(EPOCH_NS), 9));
        }
        // A few lines with times from the start do not shift those with times from the epoch.
        assert_eq!(chosen(&[(0, 1), (EPOCH_NS, 2)]), (EPOCH_NS, Some(EPOCH_NS), 3));
        assert_eq!(chosen(&[(i64::MIN, 1)]), (i64::MIN, Some(i64::MIN), 1));
    }
}
