//! Chooses the prefix of an axis unit by its largest value, such as `ms` for `s`.

use super::number::exponent;

/// The unit of the tick labels.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Unit {
    /// The name; empty for none.
    pub(super) name: String,
    /// The size of this unit in units of the axis.
    pub(super) factor: f64,
}

/// Units that take a prefix, with the smallest and the largest exponent in use. Kiloseconds and
/// millibytes, for example, are not used.
const SCALED: [(&str, i32, i32); 7] =
    [("s", -9, 0), ("J", -6, 9), ("W", -6, 9), ("Wh", -6, 9), ("B", 0, 15), ("Hz", 0, 12), ("FLOP", 0, 18)];

const PREFIXES: [(&str, i32); 10] =
    [("n", -9), ("µ", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

impl Unit {
    /// The unit in which this amount is between 1 and 1,000, if there is one.
    pub(super) fn for_amount(unit: &str, amount: f64) -> Self {
        // In `J/query`, only the joules get a prefix.
        let (first, rest) = unit.find('/').map_or((unit, ""), |at| unit.split_at(at));
        let as_given = || Self { name: unit.to_owned(), factor: 1.0 };
        let Some((_, smallest, largest)) = SCALED.into_iter().find(|(name, _, _)| *name == first) else {
            return as_given();
        };
        if amount == 0.0 || !amount.is_finite() {
            return as_given();
        }
        let wanted = (exponent(amount).div_euclid(3) * 3).clamp(smallest, largest);
        let Some((prefix, power)) = PREFIXES.into_iter().find(|(_, power)| *power == wanted) else {
            return as_given();
        };
        Self { name: format!("{prefix}{first}{rest}"), factor: 10f64.powi(power) }
    }

    /// Converts a value of the axis to this unit. It divides or multiplies by a whole number, so that 0.004 s is
    /// exactly 4 ms.
    pub(super) fn scaled(&self, value: f64) -> f64 {
        if self.factor < 1.0 { value * (1.0 / self.factor).round() } else { value / self.factor }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(unit: &str, amount: f64) -> String {
        Unit::for_amount(unit, amount).name
    }

    #[test]
    fn amounts_are_between_one_and_a_thousand() {
        assert_eq!(name("s", 0.004), "ms");
        assert_eq!(name("s", 0.000_25), "µs");
        assert_eq!(name("s", 7200.0), "s");
        assert_eq!(name("J/query", 0.21), "mJ/query");
        assert_eq!(name("W", 1200.0), "kW");
        assert_eq!(name("W", 1000.0), "kW");
        assert_eq!(name("B", 3.2e9), "GB");
        assert_eq!(name("B", 0.5), "B");
        assert_eq!(name("B/s", 4.8e12), "TB/s");
        assert_eq!(Unit::for_amount("s", 0.004).scaled(0.003), 3.0);
    }

    #[test]
    fn other_units_have_no_prefix() {
        assert_eq!(name("%", 0.001), "%");
        assert_eq!(name("", 5e6), "");
        assert_eq!(name("tok/s", 24_000.0), "tok/s");
        assert_eq!(name("s", 0.0), "s");
        assert_eq!(name("s", f64::INFINITY), "s");
    }
}
