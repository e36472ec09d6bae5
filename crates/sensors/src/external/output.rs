//! Finds the power or energy value in the output of a command.
//!
//! A number with a comma is refused, because `1,250 W` is 1250 W in some countries and 1.25 W in others.

use std::sync::LazyLock;

use ergometer_diagnostics::Message;
use regex::{Regex, RegexBuilder};

use super::unit::{Quantity, Unit};
use super::with_hint;

/// How much of an output an error shows.
const SHOWN: usize = 200;

/// Separators of thousands or decimals, by country. A plain space is not one: it may separate two numbers.
const SEPARATORS: [char; 5] = [',', '\'', '’', '\u{a0}', '\u{202f}'];

/// A number and its unit. The number must not be the end of a word: `PSU1 W` has no value. Separators are part of the
/// match, so that the end of a number is not mistaken for the whole number.
static WITH_UNIT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let separators = SEPARATORS.iter().collect::<String>();
    let number = format!(r"[-+]?(?:\d+(?:[.{separators}]\d+)*\.?|\.\d+)(?:[eE][-+]?\d+)?");
    let unit = r"[kMmuµ]?Wh|[kMmuµ]?[WJ]|(?i:(?:milli|micro|kilo|mega)?(?:watts?|joules?))";
    Regex::new(&format!(r"(?:^|[^\w.])({number})\s*({unit})\b")).ok()
});

/// How to find the value in an output.
#[derive(Debug)]
pub(super) struct Finder {
    pub(super) pattern: Option<Regex>,
    pub(super) unit: Option<Unit>,
    pub(super) quantity: Quantity,
}

/// A value with its unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Amount {
    /// In watts or joules.
    pub(super) amount: f64,
    /// The unit it was written in.
    pub(super) unit: Unit,
}

/// Compiles a pattern in which `^` and `$` match at each line, because outputs have many lines.
pub(super) fn compile_pattern(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).multi_line(true).build()
}

impl Finder {
    /// The value in watts or joules. The error quotes the start of the output.
    pub(super) fn find(&self, output: &str) -> Result<Amount, Message> {
        let unit = self.unit.unwrap_or(self.quantity.base());
        let (text, unit) = match &self.pattern {
            Some(pattern) => {
                let found = pattern
                    .captures(output)
                    .ok_or_else(|| format!("the pattern does not match the output: {}", excerpt(output)))?;
                let value = found.get(1).or_else(|| found.get(0)).map_or("", |value| value.as_str());
                (value, unit)
            }
            None => self
                .by_unit(output)
                .or_else(|| (output.trim().parse::<f64>().is_ok()).then_some((output, unit)))
                .ok_or_else(|| {
                let unit = self.quantity.base().name;
                with_hint(
                    format!("no number with the unit {unit} in the output: {}", excerpt(output)),
                    "set pattern='…([0-9.]+)…' to match the value",
                )
            })?,
        };
        if self.pattern.is_none() && text.trim().contains(SEPARATORS) {
            return Err(with_hint(
                format!("the separator in {} may mark thousands or decimals", excerpt(text)),
                "print plain numbers with LC_ALL=C before the program or `| tr -d ,` after it, or set \
                 pattern='…([0-9.]+)…' to match the value",
            ));
        }
        let value: f64 = text.trim().parse().map_err(|_| format!("{} is not a number", excerpt(text)))?;
        if !value.is_finite() || value < 0.0 {
            let wanted = if self.quantity == Quantity::Power { "power" } else { "energy" };
            return Err(format!("{value} is not a valid {wanted}").into());
        }
        Ok(Amount { amount: value * unit.factor, unit })
    }

    fn by_unit<'a>(&self, output: &'a str) -> Option<(&'a str, Unit)> {
        WITH_UNIT.as_ref()?.captures_iter(output).find_map(|found| {
            let (_, [value, word]) = found.extract();
            let written = Unit::from_word(word)?;
            (written.quantity == self.quantity).then(|| (value, self.unit.unwrap_or(written)))
        })
    }
}

/// The start of a text in one line, in backquotes.
pub(super) fn excerpt(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let start: String = line.chars().filter(|c| !c.is_control()).take(SHOWN).collect();
    match (start.is_empty(), start.len() < line.len()) {
        (true, _) => "(empty)".to_owned(),
        (false, true) => format!("`{start}…`"),
        (false, false) => format!("`{start}`"),
    }
}

#[cfg(test)]
mod tests {
    use ergometer_diagnostics::{CommandLine, Diagnostic};

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
        let unit = unit.map(|name| Unit::from_symbol(name).unwrap());
        let quantity = unit.map_or(Quantity::Power, |unit| unit.quantity);
        Finder { pattern: pattern.map(|text| compile_pattern(text).unwrap()), unit, quantity }
            .find(output)
            .map(|found| found.amount)
            .map_err(|message| message.one_line(&CommandLine))
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
    fn a_number_with_commas_is_never_read_in_part() {
        for output in
            ["1,250 W", "312,5 W", "now: -1,5 W", "1'250 W", "1.250,5 W", "1,250,000 mW", "1\u{202f}250 Watts"]
        {
            let error = find(None, None, output).unwrap_err();
            assert!(error.contains("may mark thousands or decimals. hint: ") && error.contains("pattern="), "{error}");
        }
        assert!(find(None, None, "1.250.000 W").unwrap_err().contains("`1.250.000` is not a number"));
        assert!(find(None, None, "1,250").is_err());
        // A comma in another quantity does not matter, nor one after a number.
        assert_eq!(find(None, None, "1,250 kWh, now, 312 W"), Ok(312.0));
        assert_eq!(find(None, None, "12, 312. W, 5 W"), Ok(312.0));
        assert_eq!(find(Some(",([0-9]+) W"), None, "5,312 W"), Ok(312.0));
    }

    #[test]
    fn the_unit_in_the_output_is_returned() {
        let finder = Finder { pattern: None, unit: None, quantity: Quantity::Energy };
        assert_eq!(finder.find("12.3 kWh").map(|found| found.unit.name), Ok("kWh"));
        assert_eq!(finder.find("0.5 MWh").map(|found| found.amount), Ok(1.8e9));
        assert_eq!(finder.find("12.3").map(|found| found.unit.name), Ok("J"));
    }

    #[test]
    fn a_pattern_selects_the_value() {
        assert_eq!(find(Some("^ *Average.*: *([0-9.]+) Watts$"), None, IPMI), Ok(298.0));
        assert_eq!(find(Some("[0-9]+"), Some("kW"), "at 2 kW"), Ok(2000.0));
        let output = r#"{"PowerControl":[{"PowerConsumedWatts":344}]}"#;
        assert_eq!(find(Some(r#""PowerConsumedWatts": *([0-9.]+)"#), None, output), Ok(344.0));
    }

    #[test]
    fn the_error_quotes_the_output() {
        let error = |pattern, output| find(pattern, None, output).unwrap_err();
        assert!(error(None, "no\tpower\nhere").contains("`no power here`. hint: set pattern="));
        assert!(error(None, "").contains("output: (empty)"));
        assert!(error(None, "1 2 3").contains("`1 2 3`"));
        assert!(error(Some("x([0-9]+)"), "y12").contains("does not match the output: `y12`"));
        assert!(error(Some("x(.*)"), "xyz").contains("`yz` is not a number"));
        assert!(error(None, "-5 W").contains("-5 is not a valid power"));
        assert!(error(None, "NaN").contains("not a valid power"));
        assert!(error(None, &"long ".repeat(1000)).len() < 400);
    }
}
