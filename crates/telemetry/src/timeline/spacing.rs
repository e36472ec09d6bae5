//! Maintains the median spacing of consecutive readings without a pass over the column.
//!
//! A histogram with eight buckets an octave: 2 KB a column, and the median is within 6 % of the exact one. That is
//! enough for what it is for, the length from which silence counts as a gap (five spacings).

/// Buckets for every spacing an `i64` of nanoseconds can hold: 8 exact ones, then 8 for each of 60 octaves.
const BUCKETS: usize = 8 + 60 * 8;

/// How far apart the readings of a column are.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Spacing {
    counts: Vec<u32>,
    total: u64,
}

impl Default for Spacing {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0 }
    }
}

impl Spacing {
    /// Counts one spacing in nanoseconds.
    pub(super) fn add(&mut self, spacing_ns: i64) {
        let count = &mut self.counts[bucket(spacing_ns)];
        *count = count.saturating_add(1);
        self.total += 1;
    }

    /// Forgets one spacing that was added before.
    pub(super) fn remove(&mut self, spacing_ns: i64) {
        let count = &mut self.counts[bucket(spacing_ns)];
        *count = count.saturating_sub(1);
        self.total = self.total.saturating_sub(1);
    }

    /// The median in nanoseconds, `None` without a spacing.
    pub(super) fn median_ns(&self) -> Option<i64> {
        if self.total == 0 {
            return None;
        }
        let mut seen = 0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            seen += u64::from(count);
            if 2 * seen >= self.total {
                return Some(middle_of(bucket));
            }
        }
        None
    }
}

fn bucket(spacing_ns: i64) -> usize {
    let spacing_ns = spacing_ns.max(0).unsigned_abs();
    let place = match spacing_ns.checked_ilog2() {
        Some(octave @ 3..) => u64::from(octave - 2) * 8 + ((spacing_ns >> (octave - 3)) & 7),
        _ => spacing_ns,
    };
    usize::try_from(place).unwrap_or(BUCKETS - 1).min(BUCKETS - 1)
}

fn middle_of(bucket: usize) -> i64 {
    let (octave, eighth) = (bucket / 8, i64::try_from(bucket % 8).unwrap_or(0));
    match octave.checked_sub(1) {
        None => eighth,
        Some(shift) => ((8 + eighth) << shift) + ((1 << shift) >> 1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_median_is_within_six_percent(mut spacings in prop::collection::vec(0_i64..10_000_000_000, 1..200)) {
            let mut spacing = Spacing::default();
            for &each in &spacings {
                spacing.add(each);
            }
            spacings.sort_unstable();
            let exact = spacings[(spacings.len() - 1) / 2] as f64;
            let median = spacing.median_ns().unwrap() as f64;
            prop_assert!((median - exact).abs() <= 0.0625 * exact + 0.5, "{median} for {exact}");
        }

        #[test]
        fn what_was_removed_was_never_there(kept in 0_i64..i64::MAX, removed in 0_i64..i64::MAX) {
            let (mut with, mut without) = (Spacing::default(), Spacing::default());
            with.add(kept);
            with.add(removed);
            with.remove(removed);
            without.add(kept);
            prop_assert_eq!(with, without);
        }
    }

    #[test]
    fn the_ends_of_the_range_have_a_bucket() {
        for spacing_ns in [i64::MIN, 0, 1, 7, 8, i64::MAX] {
            let mut spacing = Spacing::default();
            spacing.add(spacing_ns);
            assert!(spacing.median_ns().is_some());
        }
        assert_eq!(Spacing::default().median_ns(), None);
    }
}
