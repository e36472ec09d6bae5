//! The units a meter's values may have: a name goes in, the factor to watts or joules comes out.

/// What a meter tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantity {
    /// Power now.
    Power,
    /// Energy since some start: a counter.
    Energy,
}

impl Quantity {
    /// The unit that is taken where none is given.
    pub(super) const fn base(self) -> Unit {
        match self {
            Self::Power => UNITS[0],
            Self::Energy => UNITS[4],
        }
    }
}

/// A unit of power or energy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Unit {
    /// As it is written.
    pub(super) name: &'static str,
    /// What it is a unit of.
    pub(super) quantity: Quantity,
    /// Watts or joules in one of it.
    pub(super) factor: f64,
}

const fn unit(name: &'static str, quantity: Quantity, factor: f64) -> Unit {
    Unit { name, quantity, factor }
}

/// Those there are, watts first of powers and joules first of energies.
const UNITS: [Unit; 11] = [
    unit("W", Quantity::Power, 1.0),
    unit("mW", Quantity::Power, 1e-3),
    unit("uW", Quantity::Power, 1e-6),
    unit("kW", Quantity::Power, 1e3),
    unit("J", Quantity::Energy, 1.0),
    unit("mJ", Quantity::Energy, 1e-3),
    unit("uJ", Quantity::Energy, 1e-6),
    unit("kJ", Quantity::Energy, 1e3),
    unit("Wh", Quantity::Energy, 3600.0),
    unit("kWh", Quantity::Energy, 3.6e6),
    unit("mWh", Quantity::Energy, 3.6),
];

/// All names, for errors.
pub(super) const NAMES: &str = "W, mW, uW, kW for power; J, mJ, uJ, kJ, Wh, kWh, mWh for energy";

impl Unit {
    /// Of its name, letter by letter: `mW` is no `MW`.
    pub(super) fn of(name: &str) -> Option<Self> {
        UNITS.into_iter().find(|unit| unit.name == name)
    }

    /// Of a word as people and headers write it: `watts`, `kwh`, `Milliwatts`. Megawatts are no unit of a machine.
    pub(super) fn of_word(word: &str) -> Option<Self> {
        let lower = word.to_lowercase();
        let name = match lower.as_str() {
            "w" | "watt" | "watts" => "W",
            "mw" | "milliwatt" | "milliwatts" => "mW",
            "uw" | "µw" | "microwatt" | "microwatts" => "uW",
            "kw" | "kilowatt" | "kilowatts" => "kW",
            "j" | "joule" | "joules" => "J",
            "mj" | "millijoule" | "millijoules" => "mJ",
            "uj" | "µj" | "microjoule" | "microjoules" => "uJ",
            "kj" | "kilojoule" | "kilojoules" => "kJ",
            "wh" => "Wh",
            "kwh" => "kWh",
            "mwh" => "mWh",
            _ => return None,
        };
        Self::of(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_found_by_name_and_by_word() {
        assert_eq!(Unit::of("kWh").map(|unit| unit.factor), Some(3.6e6));
        assert_eq!(Unit::of("MW"), None);
        assert_eq!(Unit::of_word("Milliwatts"), Unit::of("mW"));
        assert_eq!((Quantity::Power.base().name, Quantity::Energy.base().name), ("W", "J"));
        for unit in UNITS {
            assert!(NAMES.contains(unit.name));
        }
    }
}
