//! Maintains the median spacing of consecutive readings without a pass over the column.
//!
//! It uses a histogram with eight buckets per octave: 2 KB per column, with the median accurate to 6 %. This suffices
//! for its purpose, the threshold for gaps (five spacings).

/// The number of buckets for all spacings in an `i64` of nanoseconds: 8 exact ones, then 8 for each of 60 octaves.
const BUCKETS: usize = 8 + 60 * 8;

/// The histogram of the times between consecutive readings of a column.
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

    /// Removes one spacing that was added before.
    pub(super) fn remove(&mut self, spacing_ns: i64) {
        let count = &mut self.counts[bucket(spacing_ns)];
        *count = count.saturating_sub(1);
        self.total = self.total.saturating_sub(1);
    }

    /// The median in nanoseconds, `None` if there are no spacings.
    pub(super) fn median_ns(&self) -> Option<i64> {
        if self.total == 0 {
            return None;
        }
        let mut counted = 0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            counted += u64::from(count);
            if 2 * counted >= self.total {
                return Some(middle(bucket));
            }
        }
        None
    }
}

fn bucket(spacing_ns: i64) -> usize {
    let spacing_ns = spacing_ns.max(0).unsigned_abs();
    let bucket = match spacing_ns.checked_ilog2() {
        Some(octave @ 3..) => u64::from(octave - 2) * 8 + ((spacing_ns >> (octave - 3)) & 7),
        _ => spacing_ns,
    };
    usize::try_from(bucket).unwrap_or(BUCKETS - 1).min(BUCKETS - 1)
}

fn middle(bucket: usize) -> i64 {
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
        fn removing_a_spacing_undoes_adding_it(kept in 0_i64..i64::MAX, removed in 0_i64..i64::MAX) {
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
