//! The one number in what a command said: its output goes in, watts or joules come out.

use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};

use super::unit::{Quantity, Unit};

/// How much of an output an error shows.
const SHOWN: usize = 200;

/// A number and its unit. What stands before must not go on as a word: in `PSU1 W` there is no value.
static WITH_UNIT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let number = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?";
    let unit = r"[kmuµ]?Wh|[kmuµ]?[WJ]|(?i:(?:milli|micro|kilo)?(?:watts?|joules?))";
    Regex::new(&format!(r"(?:^|[^\w.])({number})\s*({unit})\b")).ok()
});

/// What to look for in an output.
#[derive(Debug)]
pub(super) struct Finder {
    pub(super) pattern: Option<Regex>,
    pub(super) unit: Option<Unit>,
    pub(super) quantity: Quantity,
}

/// `^` and `$` are those of a line: what boards say has many.
pub(super) fn compiled(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).multi_line(true).build()
}

impl Finder {
    /// The value in watts or joules, or why there is none, with the start of the output.
    pub(super) fn find(&self, output: &str) -> Result<f64, String> {
        let unit = self.unit.unwrap_or(self.quantity.base());
        let (text, unit) = match &self.pattern {
            Some(pattern) => {
                let found = pattern
                    .captures(output)
                    .ok_or_else(|| format!("the pattern is not found in its output: {}", start_of(output)))?;
                let value = found.get(1).or_else(|| found.get(0)).map_or("", |value| value.as_str());
                (value, unit)
            }
            None => self
                .by_unit(output)
                .or_else(|| (output.trim().parse::<f64>().is_ok()).then_some((output, unit)))
                .ok_or_else(|| {
                let unit = self.quantity.base().name;
                format!(
                    "there is no number with the unit {unit} in its output: {}. hint: give pattern='…([0-9.]+)…' \
                         that finds the value",
                    start_of(output)
                )
            })?,
        };
        let value: f64 = text.trim().parse().map_err(|_| format!("{} is no number", start_of(text)))?;
        if !value.is_finite() || value < 0.0 {
            return Err(format!("{value} is no {}", if self.quantity == Quantity::Power { "power" } else { "energy" }));
        }
        Ok(value * unit.factor)
    }

    fn by_unit<'a>(&self, output: &'a str) -> Option<(&'a str, Unit)> {
        WITH_UNIT.as_ref()?.captures_iter(output).find_map(|found| {
            let (_, [value, word]) = found.extract();
            let written = Unit::of(word).or_else(|| Unit::of_word(word))?;
            (written.quantity == self.quantity).then(|| (value, self.unit.unwrap_or(written)))
        })
    }
}

/// How a text begins, in one line.
pub(super) fn start_of(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let start: String = line.chars().filter(|c| !c.is_control()).take(SHOWN).collect();
    match (start.is_empty(), start.len() < line.len()) {
        (true, _) => "nothing".to_owned(),
        (false, true) => format!("`{start}…`"),
        (false, false) => format!("`{start}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `ipmitool dcmi power reading` prints it.
    const IPMI: &str = "
    Instantaneous power reading:                   312 Watts
    Minimum during sampling period:                 10 Watts
    Maximum during sampling period:                648 Watts
    Average power reading over sample period:      298 Watts
    IPMI timestamp:                           Thu Nov 12 09:12:34 2026
    Sampling period:                          00000005 Seconds.
    Power reading state is:                   activated
";

    fn find(pattern: Option<&str>, unit: Option<&str>, output: &str) -> Result<f64, String> {
        let unit = unit.map(|name| Unit::of(name).unwrap());
        let quantity = unit.map_or(Quantity::Power, |unit| unit.quantity);
        Finder { pattern: pattern.map(|text| compiled(text).unwrap()), unit, quantity }.find(output)
    }

    #[test]
    fn the_first_number_with_a_unit_is_the_value() {
        assert_eq!(find(None, None, IPMI), Ok(312.0));
        assert_eq!(find(None, None, "PSU1 W: 1.25kW"), Ok(1250.0));
        assert_eq!(find(None, None, "312000 mW\n"), Ok(312.0));
        assert_eq!(find(None, None, "total 5 kWh, now 312.5 W"), Ok(312.5));
        assert_eq!(find(None, Some("kWh"), "total 5 kWh, now 312.5 W"), Ok(1.8e7));
        assert_eq!(find(None, None, "  312.5\n"), Ok(312.5));
        assert_eq!(find(None, Some("mW"), "312500"), Ok(312.5));
    }

    #[test]
    fn a_pattern_says_which() {
        assert_eq!(find(Some("^ *Average.*: *([0-9.]+) Watts$"), None, IPMI), Ok(298.0));
        assert_eq!(find(Some("[0-9]+"), Some("kW"), "at 2 kW"), Ok(2000.0));
        let output = r#"{"PowerControl":[{"PowerConsumedWatts":344}]}"#;
        assert_eq!(find(Some(r#""PowerConsumedWatts": *([0-9.]+)"#), None, output), Ok(344.0));
    }

    #[test]
    fn what_is_no_value_is_told_with_the_output() {
        let told = |pattern, output| find(pattern, None, output).unwrap_err();
        assert!(told(None, "no\tpower\nhere").contains("`no power here`. hint: give pattern="));
        assert!(told(None, "").contains("output: nothing"));
        assert!(told(None, "1 2 3").contains("`1 2 3`"));
        assert!(told(Some("x([0-9]+)"), "y12").contains("not found in its output: `y12`"));
        assert!(told(Some("x(.*)"), "xyz").contains("`yz` is no number"));
        assert!(told(None, "-5 W").contains("-5 is no power"));
        assert!(told(None, "NaN").contains("no power"));
        assert!(told(None, &"long ".repeat(1000)).len() < 400);
    }
}
