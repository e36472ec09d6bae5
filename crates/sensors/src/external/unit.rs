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
            Self::Power => WATT,
            Self::Energy => JOULE,
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

const WATT: Unit = unit("W", Quantity::Power, 1.0);
const JOULE: Unit = unit("J", Quantity::Energy, 1.0);

/// Those there are.
const UNITS: [Unit; 14] = [
    WATT,
    unit("mW", Quantity::Power, 1e-3),
    unit("uW", Quantity::Power, 1e-6),
    unit("kW", Quantity::Power, 1e3),
    unit("MW", Quantity::Power, 1e6),
    JOULE,
    unit("mJ", Quantity::Energy, 1e-3),
    unit("uJ", Quantity::Energy, 1e-6),
    unit("kJ", Quantity::Energy, 1e3),
    unit("MJ", Quantity::Energy, 1e6),
    unit("Wh", Quantity::Energy, 3600.0),
    unit("kWh", Quantity::Energy, 3.6e6),
    unit("MWh", Quantity::Energy, 3.6e9),
    unit("mWh", Quantity::Energy, 3.6),
];

/// All names, for errors.
pub(super) const NAMES: &str = "W, mW, uW, kW, MW for power; J, mJ, uJ, kJ, MJ, Wh, mWh, kWh, MWh for energy";

impl Unit {
    /// Of its name, letter by letter: `mW` is no `MW`.
    pub(super) fn of(name: &str) -> Option<Self> {
        UNITS.into_iter().find(|unit| unit.name == name)
    }

    /// Of a word as people and headers write it: `watts`, `kwh`, `Milliwatts`. A capital M is mega where the rest is as
    /// it should be (`MWh`) and nothing where it is not (`MWH`): milli and mega are a factor of 10⁹ apart.
    pub(super) fn of_word(word: &str) -> Option<Self> {
        if let Some(exact) = Self::of(word) {
            return Some(exact);
        }
        if is_milli_or_mega(word) && word.starts_with('M') {
            return None;
        }
        let lower = word.to_lowercase();
        let name = match lower.as_str() {
            "w" | "watt" | "watts" => "W",
            "mw" | "milliwatt" | "milliwatts" => "mW",
            "uw" | "µw" | "microwatt" | "microwatts" => "uW",
            "kw" | "kilowatt" | "kilowatts" => "kW",
            "megawatt" | "megawatts" => "MW",
            "j" | "joule" | "joules" => "J",
            "mj" | "millijoule" | "millijoules" => "mJ",
            "uj" | "µj" | "microjoule" | "microjoules" => "uJ",
            "kj" | "kilojoule" | "kilojoules" => "kJ",
            "megajoule" | "megajoules" => "MJ",
            "wh" => "Wh",
            "kwh" => "kWh",
            "mwh" => "mWh",
            _ => return None,
        };
        Self::of(name)
    }
}

/// Whether only the case of its first letter says how much it is: `mW`, `MW`, `mwh`.
pub(super) fn is_milli_or_mega(word: &str) -> bool {
    ["mw", "mj", "mwh"].iter().any(|short| word.eq_ignore_ascii_case(short))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_found_by_name_and_by_word() {
        assert_eq!(Unit::of("kWh").map(|unit| unit.factor), Some(3.6e6));
        assert_eq!(Unit::of("GW"), None);
        assert_eq!(Unit::of_word("Milliwatts"), Unit::of("mW"));
        assert_eq!((Quantity::Power.base().name, Quantity::Energy.base().name), ("W", "J"));
        for unit in UNITS {
            assert!(NAMES.contains(unit.name));
        }
    }

    #[test]
    fn mega_is_not_milli() {
        let factor = |word| Unit::of_word(word).map(|unit| unit.factor);
        assert_eq!((factor("MW"), factor("MJ"), factor("MWh")), (Some(1e6), Some(1e6), Some(3.6e9)));
        assert_eq!((factor("mw"), factor("mj"), factor("mwh")), (Some(1e-3), Some(1e-3), Some(3.6)));
        assert_eq!((factor("Megawatts"), factor("megajoule")), (Some(1e6), Some(1e6)));
        assert_eq!((factor("Mw"), factor("Mj"), factor("MWH")), (None, None, None));
    }
}
