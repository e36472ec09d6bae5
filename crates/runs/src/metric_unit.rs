//! The units of metrics, and how their values are formatted.

use ergometer_units::format::{digits, percent, quantity, significant, thousands};
use serde::{Serialize, Serializer};

/// The unit of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A fraction from 0 to 1, shown in percent.
    Share,
    /// Seconds. Keys that end in `_ms` hold milliseconds.
    Seconds,
    /// Joules.
    Joules,
    /// Watts.
    Watts,
    /// US dollars.
    Dollars,
    /// A count or a rate, with this suffix.
    Count(&'static str),
}

impl Unit {
    /// Its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Share => "share",
            Self::Seconds => "s",
            Self::Joules => "J",
            Self::Watts => "W",
            Self::Dollars => "USD",
            Self::Count(name) => name,
        }
    }

    /// A value as people read it.
    #[must_use]
    pub fn format(self, value: f64) -> String {
        match self {
            Self::Share => percent(value),
            Self::Seconds | Self::Joules | Self::Watts => quantity(value, self.name()),
            Self::Dollars => format!("${}", significant(value)),
            Self::Count(name) => {
                let number = if value.abs() >= 1000.0 { thousands(value) } else { number(value) };
                format!("{number} {name}").trim_end().to_owned()
            }
        }
    }
}

fn number(value: f64) -> String {
    if value.abs() >= 1.0 { digits(value) } else { significant(value) }
}

impl Serialize for Unit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_formatted_in_their_unit() {
        let values =
            [(Unit::Share, 0.797), (Unit::Seconds, 0.0019), (Unit::Count("tok/s"), 18_176.4), (Unit::Dollars, 0.5)];
        assert_eq!(values.map(|(unit, value)| unit.format(value)), ["79.7 %", "1.900 ms", "18,176 tok/s", "$0.500"]);
    }
}
