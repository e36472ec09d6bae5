//! Finds jumps of power and compares them with the known edges of activity.
//!
//! Jumps at known edges determine the memory of a sensor. Other jumps become edges as well; without them the estimator
//! would move their energy to the nearest known edge.

use super::observations::{Observations, PowerSamples};

/// Whether the known edges suffice to fit the memory and lag of a sensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EdgeCoverage {
    /// Most jumps are at known edges, and there are enough of them.
    Sufficient,
    /// There are too few known edges, or most jumps are elsewhere. A fit would then prefer a memory that is too short,
    /// because it explains the unknown jumps.
    Insufficient,
}

/// A change of power over three samples by this share of its range is a jump. A sensor with a memory of a fifth of a
/// second or longer shows none, because its samples change less.
const JUMP: f64 = 0.35;

/// An unexplained jump of at least this share of the range becomes an edge.
const UNEXPLAINED_JUMP: f64 = 0.15;

/// The minimum number of jumps at known edges to fit the memory of a sensor.
const MIN_JUMPS: usize = 6;

/// With more known edges than this per period of the sensor, every jump is near some edge by chance.
const CROWDED: f64 = 0.5;

/// Whether the known edges (sorted) suffice to fit the sensor.
pub(super) fn edge_coverage(observations: &Observations, edges: &[f64]) -> EdgeCoverage {
    let Some(power) = &observations.power else { return EdgeCoverage::Sufficient };
    let (mut jumps, mut known, mut used) = (0_usize, 0_usize, Vec::new());
    for sample in find_jumps(power, JUMP) {
        jumps += 1;
        if let Some(edge) = edge_before_jump(power, edges, sample) {
            known += 1;
            used.push(edge);
        }
    }
    used.dedup();
    let length = observations.span().map_or(0.0, |(first, last)| last - first);
    let is_crowded = edges.len() as f64 * power.period > CROWDED * length;
    // A sensor that averages over a long time shows no jumps; then it suffices that enough edges are known.
    let is_smooth = jumps < MIN_JUMPS && edges.len() >= 2 * MIN_JUMPS;
    let is_explained = used.len() >= MIN_JUMPS && 3 * known > 2 * jumps;
    if !is_crowded && (is_smooth || is_explained) { EdgeCoverage::Sufficient } else { EdgeCoverage::Insufficient }
}

/// The times at which power may have jumped without a known edge: about one sample before and after each such jump.
pub(super) fn unexplained_jumps(observations: &Observations, edges: &[f64]) -> Vec<f64> {
    let Some(power) = &observations.power else { return Vec::new() };
    let mut found: Vec<f64> = find_jumps(power, UNEXPLAINED_JUMP)
        .filter(|&sample| edge_before_jump(power, edges, sample).is_none())
        .flat_map(|sample| {
            let stamp = power.stamps[sample];
            [stamp - power.period, stamp, power.stamps[sample + 1]]
        })
        .collect();
    found.sort_by(f64::total_cmp);
    found.dedup_by(|next, last| *next - *last < power.period / 2.0);
    found
}

/// The jumps: indices of the first of three samples over which power changed by more than this share of its range.
fn find_jumps(power: &PowerSamples, share: f64) -> impl Iterator<Item = usize> + '_ {
    let highest = power.watts.iter().copied().fold(0.0, f64::max);
    let range = highest - power.watts.iter().copied().fold(highest, f64::min);
    // If power is steady, its range is only noise, so a jump must also exceed 2 % of the highest power.
    let least = (share * range).max(0.02 * highest);
    power
        .watts
        .windows(3)
        .enumerate()
        .filter(move |(_, watts)| (watts[2] - watts[0]).abs() > least)
        .map(|(sample, _)| sample)
}

/// The known edge that explains a jump: the last edge before the jump's third sample, at most three periods before its
/// first sample.
fn edge_before_jump(power: &PowerSamples, edges: &[f64], sample: usize) -> Option<usize> {
    let last = edges.partition_point(|&edge| edge <= power.stamps[sample + 2]).checked_sub(1)?;
    (edges[last] >= power.stamps[sample] - 3.0 * power.period).then_some(last)
}

#[cfg(test)]
mod tests {
    use super::super::observations::PowerKind;
    use super::*;

    /// A hundred pulses of 100 ms, one per second, sampled every 20 ms.
    fn pulses() -> (Observations, Vec<f64>) {
        let stamps: Vec<f64> = (0..5000).map(|index| 0.02 * f64::from(index)).collect();
        let watts = stamps.iter().map(|stamp| if stamp.rem_euclid(1.0) < 0.1 { 600.0 } else { 100.0 }).collect();
        let power = PowerSamples::new(PowerKind::Ring, stamps, watts);
        let edges = (0..100).flat_map(|pulse| [f64::from(pulse), f64::from(pulse) + 0.1]).collect();
        (Observations { power, counter: None }, edges)
    }

    #[test]
    fn edge_coverage_depends_on_the_share_of_jumps_at_known_edges() {
        let (observations, edges) = pulses();
        assert_eq!(edge_coverage(&observations, &edges), EdgeCoverage::Sufficient);
        assert_eq!(edge_coverage(&observations, &edges[..4]), EdgeCoverage::Insufficient, "too few");
        let some = &edges[..60];
        assert_eq!(edge_coverage(&observations, some), EdgeCoverage::Insufficient, "most jumps are elsewhere");
        let crowded: Vec<f64> = (0..20_000).map(|index| 0.005 * f64::from(index)).collect();
        assert_eq!(edge_coverage(&observations, &crowded), EdgeCoverage::Insufficient, "every jump is near an edge");
    }

    #[test]
    fn finds_only_the_jumps_without_a_known_edge() {
        let (observations, edges) = pulses();
        assert_eq!(unexplained_jumps(&observations, &edges), Vec::<f64>::new());
        let found = unexplained_jumps(&observations, &edges[2..]);
        assert!(!found.is_empty() && found.iter().all(|&at| at < 0.2), "{found:?}");
    }
}
