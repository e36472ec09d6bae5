//! Detects counters that do not move and counters that are copies of another one.
//!
//! The calling thread spins meanwhile, so a working counter must move. A copy is detected by reading one counter
//! between two reads of the other. Perf events start from zero at different times, so their difference is measured
//! first and must stay the same.

use std::io;
use std::time::{Duration, Instant};

use ergometer_telemetry::Scope;

use super::OpenZone;
use super::zone::{Counts, Zone};
use crate::energy_counter::ReadCounter;

/// The state of a watched counter.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It moves, or need not move.
    Alive,
    /// It did not move.
    Stuck,
    /// It is a copy of the zone with this label.
    MirrorOf(String),
    /// It cannot be read.
    Unreadable(io::Error),
}

/// How often two counters are compared. Two different counters agree within the energy of a millisecond (0.1 J of 65
/// kJ) by chance once in half a million comparisons. Counters that agree four times are copies.
const ROUNDS: u32 = 4;

struct WatchedCounter {
    zone: Zone,
    file: Box<dyn ReadCounter>,
    first: io::Result<u64>,
    last: io::Result<u64>,
}

/// Watches the counters for this time.
pub(super) fn watch(opened: Vec<OpenZone>, time: Duration) -> Vec<(Zone, Box<dyn ReadCounter>, Verdict)> {
    let mut watched: Vec<WatchedCounter> = opened
        .into_iter()
        .map(|(zone, mut file)| {
            let first = file.read();
            WatchedCounter { zone, file, first, last: Ok(0) }
        })
        .collect();
    let mut pairs = pairs_of_one_scope(&watched);
    pairs.retain_mut(|pair| pair.measure_distance(&mut watched));
    for _ in 0..ROUNDS {
        spin(time / ROUNDS);
        pairs.retain(|pair| pair.agrees(&mut watched));
    }
    for counter in &mut watched {
        counter.last = counter.file.read();
    }
    let mut verdicts: Vec<Verdict> = (0..watched.len()).map(|index| verdict(&mut watched, index)).collect();
    for Pair { original, other, .. } in pairs {
        // Two counters at rest are not copies: an unused uncore does not move on any package.
        let alive = |index: usize| matches!(verdicts[index], Verdict::Alive) && watched[index].moved();
        let both = alive(original) && alive(other);
        if both {
            verdicts[other] = Verdict::MirrorOf(watched[original].zone.label.clone());
        }
    }
    watched.into_iter().zip(verdicts).map(|(counter, verdict)| (counter.zone, counter.file, verdict)).collect()
}

fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Two counters of one scope, of which one may be a copy.
struct Pair {
    original: usize,
    other: usize,
    /// How far `other` is ahead.
    distance: i128,
}

/// The number of attempts to read both counters while `original` does not move. It moves every millisecond, and a read
/// takes some microseconds.
const ATTEMPTS: u32 = 8;

fn pairs_of_one_scope(watched: &[WatchedCounter]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (original, first) in watched.iter().enumerate() {
        for (other, second) in watched.iter().enumerate().skip(original + 1) {
            if first.zone.scope == second.zone.scope {
                pairs.push(Pair { original, other, distance: 0 });
            }
        }
    }
    pairs
}

impl Pair {
    /// Reads `other` between two reads of `original`.
    fn read(&self, watched: &mut [WatchedCounter]) -> Option<[i128; 3]> {
        let order = [self.original, self.other, self.original];
        let [before, between, after] = order.map(|index| watched[index].file.read().ok().map(i128::from));
        Some([before?, between?, after?])
    }

    /// Measures the distance. Returns whether it is known.
    fn measure_distance(&mut self, watched: &mut [WatchedCounter]) -> bool {
        if !matches!(watched[self.original].zone.counts, Counts::SinceOpened { .. }) {
            return true;
        }
        for _ in 0..ATTEMPTS {
            if let Some([before, between, after]) = self.read(watched)
                && before == after
            {
                self.distance = between - before;
                return true;
            }
        }
        false
    }

    /// Whether `other` is between two reads of `original`. A wrap or an error counts as no: it is rare, and to count a
    /// copy twice is better than to lose a package.
    fn agrees(&self, watched: &mut [WatchedCounter]) -> bool {
        self.read(watched).is_some_and(|[before, between, after]| (before..=after).contains(&(between - self.distance)))
    }
}

impl WatchedCounter {
    fn moved(&self) -> bool {
        matches!((&self.first, &self.last), (Ok(first), Ok(last)) if first != last)
    }
}

fn verdict(watched: &mut [WatchedCounter], index: usize) -> Verdict {
    let device = watched[index].zone.device;
    let package_moves = watched.iter().any(|counter| counter.zone.device == device && counter.moved());
    let counter = &mut watched[index];
    for read in [&mut counter.first, &mut counter.last] {
        if read.is_err()
            && let Err(error) = std::mem::replace(read, Ok(0))
        {
            return Verdict::Unreadable(error);
        }
    }
    // On most chips the uncore is the integrated GPU, which draws nothing when it is off.
    if counter.moved() || (counter.zone.scope == Scope::Uncore && package_moves) {
        Verdict::Alive
    } else {
        Verdict::Stuck
    }
}
