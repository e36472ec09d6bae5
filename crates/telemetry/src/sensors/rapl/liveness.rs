//! Which counters are alive, and which only repeat another one.
//!
//! In go open counters; out comes a verdict on each. The calling thread spins all the while, so that a live counter
//! must move; mirrors are found by reading one counter between two reads of the other.

use std::io;
use std::time::{Duration, Instant};

use super::OpenZone;
use super::zone::Zone;
use crate::Scope;
use crate::sensors::counted::ReadCounter;

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
    for _ in 0..ROUNDS {
        spin(time / ROUNDS);
        pairs.retain(|&(original, other)| agree(&mut watched, original, other));
    }
    for counter in &mut watched {
        counter.last = counter.file.read();
    }
    let mut verdicts: Vec<Verdict> = (0..watched.len()).map(|index| verdict(&mut watched, index)).collect();
    for (original, other) in pairs {
        if matches!(verdicts[original], Verdict::Alive) && matches!(verdicts[other], Verdict::Alive) {
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

fn pairs_of_one_scope(watched: &[Watched]) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    for (original, first) in watched.iter().enumerate() {
        for (other, second) in watched.iter().enumerate().skip(original + 1) {
            if first.zone.scope == second.zone.scope {
                pairs.push((original, other));
            }
        }
    }
    pairs
}

/// Whether `other` lies between two reads of `original`. A round that a wrap or an error spoils says no: to count a
/// mirror twice for want of one round is as unlikely as the wrap, to lose a package is worse.
fn agree(watched: &mut [Watched], original: usize, other: usize) -> bool {
    let (Ok(before), Ok(between), Ok(after)) =
        (watched[original].file.read(), watched[other].file.read(), watched[original].file.read())
    else {
        return false;
    };
    before <= between && between <= after
}

fn verdict(watched: &mut [Watched], index: usize) -> Verdict {
    let moved = |counter: &Watched| matches!((&counter.first, &counter.last), (Ok(first), Ok(last)) if first != last);
    let device = watched[index].zone.device;
    let package_moves = watched.iter().any(|counter| counter.zone.device == device && moved(counter));
    let counter = &mut watched[index];
    for read in [&mut counter.first, &mut counter.last] {
        if read.is_err()
            && let Err(error) = std::mem::replace(read, Ok(0))
        {
            return Verdict::Unreadable(error);
        }
    }
    // Uncore is the built-in GPU on most chips: switched off, it rightly draws nothing.
    if moved(counter) || (counter.zone.scope == Scope::Uncore && package_moves) {
        Verdict::Alive
    } else {
        Verdict::Stuck
    }
}
