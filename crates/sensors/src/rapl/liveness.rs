//! Which counters are alive, and which only repeat another one.
//!
//! In go open counters; out comes a verdict on each. The calling thread spins all the while, so that a live counter
//! must move; mirrors are found by reading one counter between two reads of the other. Counters that start when they
//! are opened were not opened at one time: their distance is taken first, and has to stay.

use std::io;
use std::time::{Duration, Instant};

use super::OpenZone;
use super::zone::{Counts, Zone};
use crate::counted::ReadCounter;
use ergometer_telemetry::Scope;

/// What watching a counter showed.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It moves, or has a reason not to.
    Alive,
    /// It stood still.
    Stuck,
    /// It shows the count of another zone, which has this label.
    MirrorOf(String),
    /// It could not be read.
    Unreadable(io::Error),
}

/// How often two counters are compared. Two that differ in truth agree to a millisecond's energy (0.1 J of 65 kJ) by
/// chance in one look of half a million; those that do so in all four are one.
const ROUNDS: u32 = 4;

struct Watched {
    zone: Zone,
    file: Box<dyn ReadCounter>,
    first: io::Result<u64>,
    last: io::Result<u64>,
}

/// Watches the counters for this long.
pub(super) fn watch(opened: Vec<OpenZone>, time: Duration) -> Vec<(Zone, Box<dyn ReadCounter>, Verdict)> {
    let mut watched: Vec<Watched> = opened
        .into_iter()
        .map(|(zone, mut file)| {
            let first = file.read();
            Watched { zone, file, first, last: Ok(0) }
        })
        .collect();
    let mut pairs = pairs_of_one_scope(&watched);
    pairs.retain_mut(|pair| pair.take_distance(&mut watched));
    for _ in 0..ROUNDS {
        spin(time / ROUNDS);
        pairs.retain(|pair| pair.agrees(&mut watched));
    }
    for counter in &mut watched {
        counter.last = counter.file.read();
    }
    let mut verdicts: Vec<Verdict> = (0..watched.len()).map(|index| verdict(&mut watched, index)).collect();
    for Pair { original, other, .. } in pairs {
        // Two that rest are not one: an uncore that is switched off stands still on every package.
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

/// Two counters of one scope that may be one.
struct Pair {
    original: usize,
    other: usize,
    /// How far `other` is ahead.
    distance: i128,
}

/// A moment in which `original` does not move is found in as many looks: it moves every millisecond, and to look takes
/// some microseconds.
const LOOKS: u32 = 8;

fn pairs_of_one_scope(watched: &[Watched]) -> Vec<Pair> {
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
    /// One count of `other` between two of `original`.
    fn look(&self, watched: &mut [Watched]) -> Option<[i128; 3]> {
        let order = [self.original, self.other, self.original];
        let [before, between, after] = order.map(|index| watched[index].file.read().ok().map(i128::from));
        Some([before?, between?, after?])
    }

    /// Whether the distance is known from now on.
    fn take_distance(&mut self, watched: &mut [Watched]) -> bool {
        if !matches!(watched[self.original].zone.counts, Counts::SinceOpened { .. }) {
            return true;
        }
        for _ in 0..LOOKS {
            if let Some([before, between, after]) = self.look(watched)
                && before == after
            {
                self.distance = between - before;
                return true;
            }
        }
        false
    }

    /// Whether `other` lies between two reads of `original`. A round that a wrap or an error spoils says no: to count
    /// a mirror twice for want of one round is as unlikely as the wrap, to lose a package is worse.
    fn agrees(&self, watched: &mut [Watched]) -> bool {
        self.look(watched).is_some_and(|[before, between, after]| (before..=after).contains(&(between - self.distance)))
    }
}

impl Watched {
    fn moved(&self) -> bool {
        matches!((&self.first, &self.last), (Ok(first), Ok(last)) if first != last)
    }
}

fn verdict(watched: &mut [Watched], index: usize) -> Verdict {
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
    // Uncore is the built-in GPU on most chips: switched off, it rightly draws nothing.
    if counter.moved() || (counter.zone.scope == Scope::Uncore && package_moves) {
        Verdict::Alive
    } else {
        Verdict::Stuck
    }
}
