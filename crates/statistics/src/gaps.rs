//! Stores many millions of durations compactly, and computes their exact distribution.
//!
//! A run of an hour with a thousand concurrent requests has tens of millions of gaps between chunks. A gap up to 4.29 s
//! is stored in four bytes; the few longer gaps are in a separate list. Blocks are sorted separately, so that no large
//! allocation is copied.

use super::Distribution;
use super::distribution::MINIMUM_FOR_P99;
use super::percentile::percentile_by;

/// The number of gaps in a block: 256 KB, which fits into the cache of a processor.
const BLOCK: usize = 1 << 16;

/// A collection of durations in nanoseconds.
#[derive(Debug, Clone, Default)]
pub struct Gaps {
    blocks: Vec<Vec<u32>>,
    long: Vec<u64>,
    sum: u128,
}

impl Gaps {
    /// Adds a duration.
    pub fn push(&mut self, nanos: u64) {
        self.sum += u128::from(nanos);
        match (u32::try_from(nanos), self.blocks.last_mut()) {
            (Err(_), _) => self.long.push(nanos),
            (Ok(short), Some(block)) if block.len() < BLOCK => block.push(short),
            (Ok(short), _) => self.blocks.push(vec![short]),
        }
    }

    /// The number of durations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.blocks.iter().map(Vec::len).sum::<usize>() + self.long.len()
    }

    /// Whether there are no durations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.long.is_empty()
    }

    /// The distribution of several collections together, in milliseconds. `None` if all are empty.
    ///
    /// ```
    /// # use ergometer_statistics::Gaps;
    /// let (mut some, mut others) = (Gaps::default(), Gaps::default());
    /// some.push(1_000_000);
    /// others.push(3_000_000);
    /// assert_eq!(Gaps::distribution(&mut [&mut some, &mut others]).unwrap().p50, 2.0);
    /// ```
    #[must_use]
    pub fn distribution(parts: &mut [&mut Self]) -> Option<Distribution> {
        for part in parts.iter_mut() {
            part.blocks.iter_mut().for_each(|block| block.sort_unstable());
            part.long.sort_unstable();
        }
        let sorted = Sorted {
            blocks: parts.iter().flat_map(|part| &part.blocks).map(Vec::as_slice).collect(),
            long: parts.iter().map(|part| part.long.as_slice()).collect(),
        };
        let count: usize = parts.iter().map(|part| part.len()).sum();
        let last = count.checked_sub(1)?;
        let (min, max) = (sorted.at(0), sorted.at(last));
        let mean =
            (parts.iter().map(|part| part.sum).sum::<u128>() as f64 / count as f64 / NANOS_PER_MILLI).clamp(min, max);
        let squares: f64 = parts.iter().flat_map(|part| part.values()).map(|value| (value - mean).powi(2)).sum();
        let at = |percent| percentile_by(count, percent, |index| Some(sorted.at(index)));
        Some(Distribution {
            count,
            mean,
            std: (count > 1).then(|| (squares / (count as f64 - 1.0)).sqrt()),
            min,
            max,
            p50: at(50.0)?,
            // The gaps of one answer are not independent.
            p50_interval: None,
            p90: at(90.0)?,
            p95: at(95.0)?,
            p99: if count < MINIMUM_FOR_P99 { None } else { at(99.0) },
        })
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        let short = self.blocks.iter().flatten().map(|&nanos| u64::from(nanos));
        short.chain(self.long.iter().copied()).map(|nanos| nanos as f64 / NANOS_PER_MILLI)
    }
}

const NANOS_PER_MILLI: f64 = 1e6;

/// Sorted lists that are read as one.
struct Sorted<'a> {
    blocks: Vec<&'a [u32]>,
    long: Vec<&'a [u64]>,
}

impl Sorted<'_> {
    /// The value at an index of all sorted values, in milliseconds. It bisects the range of values: the result is the
    /// smallest value with more than `index` values up to it.
    fn at(&self, index: usize) -> f64 {
        let (mut low, mut high) = (0, u64::MAX);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.up_to(middle) > index { high = middle } else { low = middle + 1 }
        }
        low as f64 / NANOS_PER_MILLI
    }

    /// The number of values up to a value.
    fn up_to(&self, value: u64) -> usize {
        let short = self.blocks.iter().map(|block| block.partition_point(|&nanos| u64::from(nanos) <= value));
        let long = self.long.iter().map(|list| list.partition_point(|&nanos| nanos <= value));
        short.sum::<usize>() + long.sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_distribution_matches_that_of_plain_values(
            values in prop::collection::vec(prop_oneof![0_u64..50_000_000, 0_u64..20_000_000_000], 0..250),
            cut in 0_usize..250,
        ) {
            let (mut one, mut other) = (Gaps::default(), Gaps::default());
            for (index, &value) in values.iter().enumerate() {
                if index < cut { one.push(value) } else { other.push(value) }
            }
            prop_assert_eq!(one.len() + other.len(), values.len());
            let plain: Vec<f64> = values.iter().map(|&nanos| nanos as f64 / 1e6).collect();
            match (Gaps::distribution(&mut [&mut one, &mut other]), Distribution::from_values(&plain)) {
                (Some(found), Some(wanted)) => {
                    let exact = |found: &Distribution| (found.count, found.min, found.max, found.p50, found.p90, found.p95, found.p99);
                    prop_assert_eq!(exact(&found), exact(&wanted));
                    prop_assert!((found.mean - wanted.mean).abs() <= 1e-9 * wanted.mean);
                    prop_assert!((found.std.unwrap_or(0.0) - wanted.std.unwrap_or(0.0)).abs() <= 1e-6);
                }
                (found, wanted) => prop_assert_eq!(found, wanted),
            }
        }
    }

    #[test]
    fn the_distribution_covers_all_blocks() {
        let mut gaps = Gaps::default();
        let count = 3 * BLOCK as u64 + 5;
        (0..count).rev().for_each(|index| gaps.push(index * 1_000_000));
        let found = Gaps::distribution(&mut [&mut gaps]).unwrap();
        assert_eq!((found.count as u64, found.min, found.max), (count, 0.0, (count - 1) as f64));
        assert_eq!(found.p50, (count - 1) as f64 / 2.0);
        assert!(Gaps::distribution(&mut [&mut Gaps::default()]).is_none() && Gaps::default().is_empty());
    }
}
