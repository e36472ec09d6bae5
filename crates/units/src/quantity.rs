//! Continuous quantities: joules, watts, seconds and degrees Celsius, each an `f64` in its own type.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub, SubAssign};
use std::time::Duration;

macro_rules! linear_quantity {
    ($(#[$doc:meta])* $name:ident, $unit:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
        pub struct $name(f64);

        impl $name {
            #[doc = concat!("Zero ", $unit, ".")]
            pub const ZERO: Self = Self(0.0);

            #[doc = concat!("Creates a quantity from ", $unit, ".")]
            #[must_use]
            pub const fn new(value: f64) -> Self {
                Self(value)
            }

            #[doc = concat!("The number of ", $unit, ".")]
            #[must_use]
            pub const fn get(self) -> f64 {
                self.0
            }

            /// The smaller of two quantities.
            #[must_use]
            pub fn min(self, other: Self) -> Self {
                Self(self.0.min(other.0))
            }

            /// The larger of two quantities.
            #[must_use]
            pub fn max(self, other: Self) -> Self {
                Self(self.0.max(other.0))
            }

            /// The absolute value.
            #[must_use]
            pub fn abs(self) -> Self {
                Self(self.0.abs())
            }
        }

        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }

        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }

        impl SubAssign for $name {
            fn sub_assign(&mut self, other: Self) {
                self.0 -= other.0;
            }
        }

        impl Neg for $name {
            type Output = Self;
            fn neg(self) -> Self {
                Self(-self.0)
            }
        }

        impl Mul<f64> for $name {
            type Output = Self;
            fn mul(self, factor: f64) -> Self {
                Self(self.0 * factor)
            }
        }

        impl Div<f64> for $name {
            type Output = Self;
            fn div(self, divisor: f64) -> Self {
                Self(self.0 / divisor)
            }
        }

        /// The ratio of two quantities, a plain number.
        impl Div for $name {
            type Output = f64;
            fn div(self, other: Self) -> f64 {
                self.0 / other.0
            }
        }

        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
                Self(iter.map(|value| value.0).sum())
            }
        }
    };
}

linear_quantity!(
    /// Energy.
    Joules,
    "joules"
);
linear_quantity!(
    /// Power: energy per time.
    Watts,
    "watts"
);
linear_quantity!(
    /// A duration. A point in time is a [`Timestamp`](crate::Timestamp).
    Seconds,
    "seconds"
);

impl Joules {
    /// Creates an energy from millijoules, the unit of NVML.
    #[must_use]
    pub fn from_millis(energy_mj: f64) -> Self {
        Self(energy_mj / 1e3)
    }

    /// Creates an energy from microjoules, the unit of powercap.
    #[must_use]
    pub fn from_micros(energy_uj: f64) -> Self {
        Self(energy_uj / 1e6)
    }
}

impl Watts {
    /// Creates a power from milliwatts, the unit of NVML.
    #[must_use]
    pub fn from_millis(power_mw: f64) -> Self {
        Self(power_mw / 1e3)
    }
}

impl Seconds {
    /// Creates a duration from milliseconds.
    #[must_use]
    pub fn from_millis(time_ms: f64) -> Self {
        Self(time_ms / 1e3)
    }

    /// Creates a duration from nanoseconds. `as_nanos` returns the same number below 2^50 ns (13 days).
    #[must_use]
    pub fn from_nanos(time_ns: i64) -> Self {
        Self(time_ns as f64 / 1e9)
    }

    /// The number of milliseconds.
    #[must_use]
    pub fn as_millis(self) -> f64 {
        self.0 * 1e3
    }

    /// The number of nanoseconds, rounded; saturates at the range of `i64`.
    #[must_use]
    pub fn as_nanos(self) -> i64 {
        #[expect(clippy::cast_possible_truncation, reason = "float to int casts saturate, as documented")]
        let nanos = (self.0 * 1e9).round() as i64;
        nanos
    }
}

impl From<Seconds> for Duration {
    /// Negative durations and NaN become zero; durations that are too long become the maximum.
    fn from(seconds: Seconds) -> Self {
        let seconds = seconds.get();
        if seconds > 0.0 { Self::try_from_secs_f64(seconds).unwrap_or(Self::MAX) } else { Self::ZERO }
    }
}

impl From<Duration> for Seconds {
    fn from(duration: Duration) -> Self {
        Self(duration.as_secs_f64())
    }
}

impl Mul<Seconds> for Watts {
    type Output = Joules;
    fn mul(self, time: Seconds) -> Joules {
        Joules(self.0 * time.0)
    }
}

impl Mul<Watts> for Seconds {
    type Output = Joules;
    fn mul(self, power: Watts) -> Joules {
        power * self
    }
}

impl Div<Seconds> for Joules {
    type Output = Watts;
    fn div(self, time: Seconds) -> Watts {
        Watts(self.0 / time.0)
    }
}

impl Div<Watts> for Joules {
    type Output = Seconds;
    fn div(self, power: Watts) -> Seconds {
        Seconds(self.0 / power.0)
    }
}

/// A temperature. Temperatures cannot be added, and their difference is a plain number of kelvins.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Celsius(f64);

impl Celsius {
    /// Creates a temperature from degrees Celsius.
    #[must_use]
    pub const fn new(degrees: f64) -> Self {
        Self(degrees)
    }

    /// The number of degrees Celsius.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl Sub for Celsius {
    type Output = f64;
    fn sub(self, other: Self) -> f64 {
        self.0 - other.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_times_time_is_energy() {
        assert_eq!(Watts::new(700.0) * Seconds::new(2.0), Joules::new(1400.0));
        assert_eq!(Seconds::new(2.0) * Watts::new(700.0), Joules::new(1400.0));
        assert_eq!(Joules::new(1400.0) / Watts::new(700.0), Seconds::new(2.0));
    }

    #[test]
    fn constructors_scale() {
        assert_eq!(Joules::from_millis(1500.0), Joules::new(1.5));
        assert_eq!(Joules::from_micros(1_500_000.0), Joules::new(1.5));
        assert_eq!(Watts::from_millis(79_000.0), Watts::new(79.0));
        assert_eq!(Seconds::from_nanos(1_500_000).as_millis(), 1.5);
        assert_eq!(Seconds::new(1e300).as_nanos(), i64::MAX);
    }

    #[test]
    fn the_difference_of_temperatures_is_a_plain_number() {
        assert_eq!(Celsius::new(43.0) - Celsius::new(38.0), 5.0);
    }
}
