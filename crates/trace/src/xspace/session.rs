//! When and where a session ran, and how its times come onto one clock with those of the others.

use std::path::Path;

use ergometer_units::Timestamp;
use rustc_hash::FxHashMap;

use super::event::FARTHEST_PS;
use super::layout::{PlaneLayout, lossy};
use super::line::Head;
use super::stats::raw_stat;
use crate::wire::Value;

/// What a session says of itself.
#[derive(Debug, Default, Clone)]
pub(super) struct Facts {
    pub(super) source: usize,
    pub(super) host: Option<String>,
    pub(super) started: Option<Timestamp>,
    pub(super) stopped: Option<Timestamp>,
    pub(super) scope_parents: FxHashMap<i64, i64>,
    /// What its lines' times are relative to: zero, or where they count from the Unix epoch, the first of them.
    pub(super) base_ns: i64,
    /// The wall time of that base.
    pub(super) epoch_ns: Option<i64>,
}

/// The stats of a plane that has numbers only.
fn numbers<'a>(file: &'a [u8], plane: &'a PlaneLayout) -> impl Iterator<Item = (&'a [u8], i64, i64)> {
    plane.stats.iter().filter_map(move |&span| match raw_stat(file, span) {
        Ok((id, Some((3 | 4, Value::Varint(bits))))) => {
            let name = plane.stat_names.get(&id).map_or(&b""[..], |name| name.of(file));
            Some((name, id, bits.cast_signed()))
        }
        _ => None,
    })
}

impl Facts {
    /// Takes in a plane that says something of the session.
    pub(super) fn learn(&mut self, file: &[u8], plane: &PlaneLayout, wants_scopes: bool) {
        match plane.name.of(file) {
            b"Task Environment" => {
                for (name, _, value) in numbers(file, plane) {
                    let time = Some(Timestamp::from_nanos_since_epoch(value));
                    match name {
                        b"profile_start_time" => self.started = time,
                        b"profile_stop_time" => self.stopped = time,
                        _ => {}
                    }
                }
            }
            // A stat's number is a scope and its value the scope around it; those with a name are about the plane.
            b"/host:__ScopeRangeCallStack__" if wants_scopes => {
                let scopes = numbers(file, plane).filter(|(name, ..)| name.is_empty());
                self.scope_parents.extend(scopes.map(|(_, scope, parent)| (scope, parent)));
            }
            _ => {}
        }
    }

    /// Chooses the base once all lines are known.
    pub(super) fn settle<'a>(&mut self, heads: impl Iterator<Item = &'a Head> + Clone) {
        let mut times = heads.filter(|head| head.events > 0).map(|head| head.timestamp_ns);
        let first = times.clone().min().unwrap_or(0);
        let farthest_ns = (FARTHEST_PS / 1000).unsigned_abs();
        if times.any(|time| time.unsigned_abs() > farthest_ns) {
            self.base_ns = first;
            self.epoch_ns = Some(first);
        } else {
            self.base_ns = 0;
            self.epoch_ns = self.started.map(Timestamp::nanos_since_epoch);
        }
    }

    /// Whether two sessions ran at the same time, as far as they say.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        match (self.started.zip(self.stopped), other.started.zip(other.stopped)) {
            (Some((start, stop)), Some((other_start, other_stop))) => start < other_stop && other_start < stop,
            _ => false,
        }
    }
}

/// The host a file is named after: `plugins/profile/TIME/HOST.xplane.pb`.
pub(super) fn host_of(path: &Path) -> Option<String> {
    let name = lossy(path.file_name()?.as_encoded_bytes()).into_owned();
    let stem = name.split(".xplane.pb").next().filter(|stem| !stem.is_empty())?;
    Some(stem.to_owned())
}
