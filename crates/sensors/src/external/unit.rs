//! The units of power and energy that a meter may use, with their factors to watts and joules.

/// The quantity that a meter measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantity {
    /// Power now.
    Power,
    /// Energy as a counter.
    Energy,
}

impl Quantity {
    /// The unit used when none is given.
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
    /// The symbol: `kWh`.
    pub(super) name: &'static str,
    /// The quantity that it measures.
    pub(super) quantity: Quantity,
    /// How many watts or joules one unit is.
    pub(super) factor: f64,
}

const fn unit(name: &'static str, quantity: Quantity, factor: f64) -> Unit {
    Unit { name, quantity, factor }
}

const WATT: Unit = unit("W", Quantity::Power, 1.0);
const JOULE: Unit = unit("J", Quantity::Energy, 1.0);

/// All units.
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

/// All symbols, for errors.
pub(super) const NAMES: &str = "W, mW, uW, kW, MW for power; J, mJ, uJ, kJ, MJ, Wh, mWh, kWh, MWh for energy";

impl Unit {
    /// The unit with this symbol. The case matters: `mW` is not `MW`.
    pub(super) fn from_symbol(name: &str) -> Option<Self> {
        UNITS.into_iter().find(|unit| unit.name == name)
    }

    /// The unit of a word as people and headers write it: `watts`, `kwh`, `Milliwatts`. A capital M is mega if the rest
    /// is in the usual case (`MWh`); else it is ambiguous (`MWH`), since milli and mega differ by a factor of 10⁹.
    pub(super) fn from_word(word: &str) -> Option<Self> {
        if let Some(exact) = Self::from_symbol(word) {
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
        Self::from_symbol(name)
    }
}

/// Whether only the case of the first letter distinguishes milli from mega: `mW`, `MW`, `mwh`.
pub(super) fn is_milli_or_mega(word: &str) -> bool {
    ["mw", "mj", "mwh"].iter().any(|short| word.eq_ignore_ascii_case(short))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_found_by_name_and_by_word() {
        assert_eq!(Unit::from_symbol("kWh").map(|unit| unit.factor), Some(3.6e6));
        assert_eq!(Unit::from_symbol("GW"), None);
        assert_eq!(Unit::from_word("Milliwatts"), Unit::from_symbol("mW"));
        assert_eq!((Quantity::Power.base().name, Quantity::Energy.base().name), ("W", "J"));
        for unit in UNITS {
            assert!(NAMES.contains(unit.name));
        }
    }

    #[test]
    fn mega_is_not_milli() {
        let factor = |word| Unit::from_word(word).map(|unit| unit.factor);
        assert_eq!((factor("MW"), factor("MJ"), factor("MWh")), (Some(1e6), Some(1e6), Some(3.6e9)));
        assert_eq!((factor("mw"), factor("mj"), factor("mwh")), (Some(1e-3), Some(1e-3), Some(3.6)));
        assert_eq!((factor("Megawatts"), factor("megajoule")), (Some(1e6), Some(1e6)));
        assert_eq!((factor("Mw"), factor("Mj"), factor("MWH")), (None, None, None));
    }
}
