//! Counts: bytes and tokens, each a `u64` in its own type.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Div};

use crate::{Joules, Seconds};

macro_rules! count {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(u64);

        impl $name {
            /// Creates a value from a count.
            #[must_use]
            pub const fn new(count: u64) -> Self {
                Self(count)
            }

            /// The count.
            #[must_use]
            pub const fn get(self) -> u64 {
                self.0
            }

            /// The difference, or `None` if it would be negative.
            #[must_use]
            pub const fn checked_sub(self, other: Self) -> Option<Self> {
                match self.0.checked_sub(other.0) {
                    Some(difference) => Some(Self(difference)),
                    None => None,
                }
            }
        }

        /// Saturates at the maximum.
        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }

        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
                iter.fold(Self::default(), Add::add)
            }
        }

        /// The rate per second.
        impl Div<Seconds> for $name {
            type Output = f64;
            fn div(self, time: Seconds) -> f64 {
                self.0 as f64 / time.get()
            }
        }
    };
}

count!(
    /// An amount of memory or data.
    Bytes
);
count!(
    /// A number of tokens of a model's vocabulary.
    Tokens
);

impl Bytes {
    /// The number of mebibytes (2^20 bytes), the unit of GPU tools.
    #[must_use]
    pub fn as_mebibytes(self) -> f64 {
        self.0 as f64 / f64::from(1 << 20)
    }
}

/// Joules per token.
impl Div<Tokens> for Joules {
    type Output = Joules;
    fn div(self, tokens: Tokens) -> Joules {
        self / tokens.0 as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_saturate_and_are_never_negative() {
        assert_eq!(Tokens::new(u64::MAX) + Tokens::new(1), Tokens::new(u64::MAX));
        assert_eq!(Bytes::new(1).checked_sub(Bytes::new(2)), None);
        assert_eq!(Tokens::new(64) / Seconds::new(2.0), 32.0);
        assert_eq!(Joules::new(10.0) / Tokens::new(4), Joules::new(2.5));
    }
}
