//! Names the reasons for throttled clocks.
//!
//! The bits are NVML's clocks event reasons (`nvmlClocksEventReason…` in `nvml.h`); sensors of other vendors use the
//! bits with the same meaning. Idle is not reported as a reason.

/// The set of reasons for a device's throttled clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct ThrottleReasons(u64);

/// The names of the reasons, most important first.
const NAMES: [(u64, &str); 8] = [
    (0x04, "power cap"),
    (0x20, "thermal"),
    (0x40, "thermal, by hardware"),
    (0x80, "power brake"),
    (0x08, "hardware slowdown"),
    (0x02, "clock setting"),
    (0x10, "sync boost"),
    (0x100, "display clock"),
];

/// The device is idle.
const IDLE: u64 = 0x01;

impl ThrottleReasons {
    /// Creates the set from NVML's bits.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Creates the set from a reading of [`Signal::ThrottleReasons`](crate::Signal::ThrottleReasons); empty if the
    /// value is not a bit set.
    #[must_use]
    pub fn from_reading(value: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a set of bits below 2^53")]
        Self(if (0.0..9e15).contains(&value) { value.round() as u64 } else { 0 })
    }

    /// Whether the clocks are not throttled, except for being idle.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0 & !IDLE == 0
    }

    /// The names of the reasons, most important first. Unknown bits are given as a number.
    ///
    /// ```
    /// use ergometer_telemetry::ThrottleReasons;
    /// assert_eq!(ThrottleReasons::from_bits(0x24).names(), ["power cap", "thermal"]);
    /// assert!(ThrottleReasons::from_bits(0x1).names().is_empty(), "idle is not a reason");
    /// ```
    #[must_use]
    pub fn names(self) -> Vec<String> {
        let known = NAMES.iter().fold(IDLE, |known, (bit, _)| known | bit);
        let named = NAMES.iter().filter(|(bit, _)| self.0 & bit != 0).map(|(_, name)| (*name).to_owned());
        let rest = self.0 & !known;
        named.chain((rest != 0).then(|| format!("reason {rest:#x}"))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_reasons_exclude_idle() {
        let names = |bits| ThrottleReasons::from_bits(bits).names().join(" + ");
        assert_eq!(names(0), "");
        assert_eq!(names(0x1), "");
        assert_eq!(names(0x5), "power cap");
        assert_eq!(names(0x48), "thermal, by hardware + hardware slowdown");
        assert_eq!(names(0x1004), "power cap + reason 0x1000");
        assert!(ThrottleReasons::from_bits(0x1).is_none() && !ThrottleReasons::from_bits(0x2).is_none());
    }

    #[test]
    fn a_reading_is_a_set_of_bits() {
        assert_eq!(ThrottleReasons::from_reading(36.0), ThrottleReasons::from_bits(0x24));
        for wrong in [-1.0, f64::NAN, f64::INFINITY, 1e300] {
            assert!(ThrottleReasons::from_reading(wrong).is_none(), "{wrong}");
        }
    }
}
