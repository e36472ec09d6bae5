//! Random numbers for datasets: `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014).
//!
//! A dataset must give the same queries in every version, so it cannot use a library that may change its sequence.

/// A sequence of random numbers.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator with this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A generator for one query, which differs for each seed and index.
    #[must_use]
    pub fn for_query(seed: u64, index: u64) -> Self {
        let mut seeds = Self::new(seed);
        let start = seeds.next_bits() ^ index.wrapping_mul(0xd6e8_feb8_6659_fd93);
        let mut mixed = Self::new(start);
        Self::new(mixed.next_bits())
    }

    /// The next 64 random bits.
    pub fn next_bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A uniform number below `end`, with a bias below `end` / 2^64; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        let wide = u128::from(self.next_bits()) * u128::from(end);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// A number above 0 and up to 1.
    pub fn unit(&mut self) -> f64 {
        ((self.next_bits() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// A standard normal number (Box and Muller, 1958).
    pub fn normal(&mut self) -> f64 {
        let (radius, angle) = ((-2.0 * self.unit().ln()).sqrt(), std::f64::consts::TAU * self.unit());
        radius * angle.cos()
    }

    /// Shuffles items (Fisher and Yates).
    pub fn shuffle(&mut self, items: &mut [u64]) {
        for end in (1..items.len()).rev() {
            let place = usize::try_from(self.below(end as u64 + 1)).unwrap_or(end);
            items.swap(end, place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_never_changes() {
        // Output of the reference implementation for seed 1234567.
        let mut random = Random::new(1_234_567);
        let found: Vec<u64> = (0..3).map(|_| random.next_bits()).collect();
        assert_eq!(found, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn numbers_are_within_their_ranges() {
        let mut random = Random::new(1);
        let mut seen = [0_u32; 5];
        for _ in 0..5000 {
            seen[usize::try_from(random.below(5)).unwrap()] += 1;
            let unit = random.unit();
            assert!(unit > 0.0 && unit <= 1.0);
        }
        assert!(seen.iter().all(|&count| (850..1150).contains(&count)), "{seen:?}");
    }
}
