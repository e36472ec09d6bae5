//! Where power jumped, and whether that was foretold: jumps at known edges tell a sensor's memory, and a jump nobody
//! foretold must be allowed for, or its energy is looked for in the nearest window that may jump.

use super::observations::{Observations, PowerSamples};

/// Whether the known edges tell how a sensor behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Knowledge {
    /// Most jumps come at known edges, and enough of them.
    Enough,
    /// There are too few, or most jumps come from elsewhere: a short memory that sees every unknown jump as it is
    /// would explain the samples better than the true one.
    Little,
}

/// A change of power by this share of its range, from one sample to the next but one, is a jump. A memory of a fifth
/// of a second and longer shows none: its samples move by less.
const JUMP: f64 = 0.35;

/// A jump that nobody foretold is allowed for from this share on.
const SURPRISE: f64 = 0.15;

/// The fewest known jumps that tell a sensor's memory.
const FEWEST_JUMPS: usize = 6;

/// More known edges than this in one period of the sensor: some edge is near every jump, and tells nothing.
const CROWDED: f64 = 0.5;

/// What the known edges (in order) are worth.
pub(super) fn knowledge(observations: &Observations, edges: &[f64]) -> Knowledge {
    let Some(power) = &observations.power else { return Knowledge::Enough };
    let (mut jumps, mut known, mut used) = (0_usize, 0_usize, Vec::new());
    for place in jumps_of(power, JUMP) {
        jumps += 1;
        if let Some(edge) = edge_behind(power, edges, place) {
            known += 1;
            used.push(edge);
        }
    }
    used.dedup();
    let length = observations.span().map_or(0.0, |(first, last)| last - first);
    let is_crowded = edges.len() as f64 * power.period > CROWDED * length;
    // A sensor that averages over long shows no jump as one; then all there is to go by is whether activity is known.
    let is_smooth = jumps < FEWEST_JUMPS && edges.len() >= 2 * FEWEST_JUMPS;
    let is_told = used.len() >= FEWEST_JUMPS && 3 * known > 2 * jumps;
    if !is_crowded && (is_smooth || is_told) { Knowledge::Enough } else { Knowledge::Little }
}

/// Where power may have jumped though no edge was known there: about one sample before and after what showed it.
pub(super) fn surprises(observations: &Observations, edges: &[f64]) -> Vec<f64> {
    let Some(power) = &observations.power else { return Vec::new() };
    let mut found: Vec<f64> = jumps_of(power, SURPRISE)
        .filter(|&place| edge_behind(power, edges, place).is_none())
        .flat_map(|place| {
            let shown = power.stamps[place];
            [shown - power.period, shown, power.stamps[place + 1]]
        })
        .collect();
    found.sort_by(f64::total_cmp);
    found.dedup_by(|next, last| *next - *last < power.period / 2.0);
    found
}

/// The places of the first of three samples over which power changed by more than this share of its range.
fn jumps_of(power: &PowerSamples, share: f64) -> impl Iterator<Item = usize> + '_ {
    let highest = power.watts.iter().copied().fold(0.0, f64::max);
    let range = highest - power.watts.iter().copied().fold(highest, f64::min);
    // Where power is steady its noise is all the range there is.
    let least = (share * range).max(0.02 * highest);
    power
        .watts
        .windows(3)
        .enumerate()
        .filter(move |(_, watts)| (watts[2] - watts[0]).abs() > least)
        .map(|(place, _)| place)
}

/// The known edge that a jump shows: it lies before the samples that show it, by no more than three periods.
fn edge_behind(power: &PowerSamples, edges: &[f64], place: usize) -> Option<usize> {
    let last = edges.partition_point(|&edge| edge <= power.stamps[place + 2]).checked_sub(1)?;
    (edges[last] >= power.stamps[place] - 3.0 * power.period).then_some(last)
}

#[cfg(test)]
mod tests {
    use super::super::observations::PowerKind;
    use super::*;

    /// A hundred pulses of 100 ms, a second apart, in samples of 20 ms.
    fn pulses() -> (Observations, Vec<f64>) {
        let stamps: Vec<f64> = (0..5000).map(|index| 0.02 * f64::from(index)).collect();
        let watts = stamps.iter().map(|stamp| if stamp.rem_euclid(1.0) < 0.1 { 600.0 } else { 100.0 }).collect();
        let power = PowerSamples::new(PowerKind::Ring, stamps, watts);
        let edges = (0..100).flat_map(|pulse| [f64::from(pulse), f64::from(pulse) + 0.1]).collect();
        (Observations { power, counter: None }, edges)
    }

    #[test]
    fn edges_are_worth_as_much_as_they_foretell() {
        let (observations, edges) = pulses();
        assert_eq!(knowledge(&observations, &edges), Knowledge::Enough);
        assert_eq!(knowledge(&observations, &edges[..4]), Knowledge::Little, "too few");
        assert_eq!(knowledge(&observations, &edges[..60]), Knowledge::Little, "most jumps come from elsewhere");
        let crowded: Vec<f64> = (0..20_000).map(|index| 0.005 * f64::from(index)).collect();
        assert_eq!(knowledge(&observations, &crowded), Knowledge::Little, "some edge is near every jump");
    }

    #[test]
    fn jumps_that_nobody_foretold_are_found_and_no_others() {
        let (observations, edges) = pulses();
        assert_eq!(surprises(&observations, &edges), Vec::<f64>::new());
        let found = surprises(&observations, &edges[2..]);
        assert!(!found.is_empty() && found.iter().all(|&at| at < 0.2), "{found:?}");
    }
}
