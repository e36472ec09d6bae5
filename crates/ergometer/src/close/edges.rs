//! Computes the range of the energy of windows whose edges are uncertain.
//!
//! A client sees when it sent a request and when tokens arrived, not when the device worked for them. For a request with a
//! pause before and after it, that makes no difference. Between requests in a row, the power before and after an edge
//! differs, and an edge that is 20 ms off moves energy from one request to the other.

use ergometer_telemetry::EnergyMeter;
use ergometer_units::{Joules, Seconds, Timestamp, Window};

use crate::attribution::{IdlePower, MeteredScope};

/// How much earlier (negative) or later the device may have worked than the client saw: a client sees the work after it was
/// done, the clocks of sensor and client may differ by a few milliseconds, and sensors average over about 20 ms.
const SHIFTS_MS: [i32; 6] = [-30, -20, -10, 0, 5, 10];

/// The range of the net energy of each window over all shifts, in joules. `None` where a shifted window has no data.
pub(super) fn shifted_ranges(
    meter: &EnergyMeter,
    (scope, idle): (MeteredScope, &IdlePower),
    windows: &[Window],
) -> Vec<Option<(f64, f64)>> {
    let shifts = || SHIFTS_MS.into_iter().map(|ms| Seconds::new(f64::from(ms) / 1e3));
    let edges = windows.iter().flat_map(|window| [window.start(), window.end()]);
    let mut cuts: Vec<Timestamp> = edges.flat_map(|edge| shifts().map(move |shift| edge + shift)).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let slices = meter.slices(&cuts);
    let found = slices.iter().find(|slices| (slices.device, slices.scope) == (scope.device, scope.scope));
    let Some(found) = found else { return vec![None; windows.len()] };
    // The energy up to each cut, and the number of slices without data.
    let mut sums = vec![(0.0, 0_usize)];
    for slice in &found.slices {
        let (joules, unknown) = sums[sums.len() - 1];
        sums.push((joules + slice.joules.map_or(0.0, Joules::get), unknown + usize::from(slice.joules.is_none())));
    }
    let up_to = |at: Timestamp| sums.get(cuts.partition_point(|&cut| cut < at)).copied();
    let net = |start: Timestamp, end: Timestamp| {
        let ((before, unknown_before), (after, unknown_after)) = up_to(start).zip(up_to(end))?;
        let length = end - start;
        let (power, _) = idle.at(start + Seconds::new(length.get() / 2.0))?;
        (unknown_before == unknown_after).then(|| after - before - (power * length).get())
    };
    let range = |window: &Window| {
        let shifted = shifts().map(|shift| net(window.start() + shift, window.end() + shift));
        let both = |range: Option<(f64, f64)>, joules: Option<f64>| {
            let ((low, high), joules) = range.zip(joules)?;
            Some((low.min(joules), high.max(joules)))
        };
        shifted.fold(Some((f64::INFINITY, f64::NEG_INFINITY)), both)
    };
    windows.iter().map(range).collect()
}
