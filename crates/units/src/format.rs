//! Formats numbers for people: few digits, commas between thousands, units with a prefix.

/// Larger numbers are formatted with an exponent.
const TOO_LARGE: f64 = 1e15;

/// A whole number with commas between thousands.
#[must_use]
pub fn thousands(value: f64) -> String {
    if value.abs() >= TOO_LARGE {
        return format!("{value:.3e}");
    }
    let text = format!("{:.0}", value.abs());
    let mut grouped = String::new();
    for (index, digit) in text.chars().enumerate() {
        if index > 0 && (text.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if value < 0.0 { format!("-{grouped}") } else { grouped }
}

/// A number with about four significant digits.
#[must_use]
pub fn digits(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= TOO_LARGE {
        format!("{value:.3e}")
    } else if magnitude >= 1000.0 {
        format!("{value:.0}")
    } else if magnitude >= 100.0 {
        format!("{value:.1}")
    } else if magnitude >= 10.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}

/// A number with three significant digits, also for small numbers.
#[must_use]
pub fn significant(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= 1.0 || magnitude == 0.0 {
        return digits(value);
    }
    if magnitude < 1e-4 {
        return format!("{value:.2e}");
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 4")]
    let zeros = (-magnitude.log10()).floor() as usize;
    format!("{value:.*}", zeros + 3)
}

/// A share as a percentage: `12.3 %`, `<0.1 %`.
#[must_use]
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 0.05 {
        return String::from("<0.1 %");
    }
    if percent >= 99.95 { format!("{percent:.0} %") } else { format!("{percent:.1} %") }
}

/// A quantity with a suitable prefix: `4.151 ms`, `26.50 mJ`, `1.204 kJ`. Percentages and numbers without unit get no
/// prefix.
///
/// ```
/// # use ergometer_units::format::quantity;
/// assert_eq!(quantity(0.004151, "s"), "4.151 ms");
/// assert_eq!(quantity(643.0, "W"), "643.0 W");
/// assert_eq!(quantity(0.0, "J"), "0 J");
/// ```
#[must_use]
pub fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "" => significant(value),
        "%" => format!("{} %", significant(value)),
        _ if value == 0.0 => format!("0 {unit}"),
        _ => {
            let (factor, prefix) = prefix(value, unit);
            format!("{} {prefix}{unit}", digits(value / factor))
        }
    }
}

/// A quantity with half the width of its interval, both in the same unit: `4.15 ± 0.07 ms`.
#[must_use]
pub fn estimate(value: f64, half: f64, unit: &str) -> String {
    let (factor, prefix) = match unit {
        "" | "%" => (1.0, ""),
        _ => prefix(value, unit),
    };
    let (value, half) = (value / factor, half / factor);
    // The margin has two significant digits, and the value has as many decimals as the margin.
    let decimals = if half > 0.0 && half.is_finite() { (1.0 - half.log10().floor()).clamp(0.0, 6.0) } else { 3.0 };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 6")]
    let decimals = decimals as usize;
    format!("{value:.decimals$} ± {half:.decimals$} {prefix}{unit}").trim_end().to_owned()
}

/// The factor and the prefix that suit a value. Seconds have no prefix above one.
fn prefix(value: f64, unit: &str) -> (f64, &'static str) {
    let magnitude = value.abs();
    let prefixes = [(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")];
    // A value that four digits round up to the next prefix gets that prefix.
    let fits = |&&(factor, _): &&(f64, &str)| magnitude >= factor * 0.99995 && !(unit == "s" && factor > 1.0);
    prefixes.iter().find(fits).copied().unwrap_or(if magnitude == 0.0 { (1.0, "") } else { (1e-9, "n") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_about_four_significant_digits() {
        let shown: Vec<String> = [1234.6, 123.46, 12.346, 1.2346, 0.0].map(digits).to_vec();
        assert_eq!((digits(1e308), thousands(-2e18)), ("1.000e308".into(), "-2.000e18".into()));
        assert_eq!(shown, ["1235", "123.5", "12.35", "1.235", "0.000"]);
        let shown: Vec<String> = [12.346, 0.5, 0.001_164, 0.000_012_34, 0.0].map(significant).to_vec();
        assert_eq!(shown, ["12.35", "0.500", "0.00116", "1.23e-5", "0.000"]);
        assert_eq!(
            (thousands(1_234_567.4), thousands(999.0), thousands(-1000.0)),
            ("1,234,567".into(), "999".into(), "-1,000".into())
        );
        assert_eq!([0.0, 0.0001, 0.1234, 0.9999, 1.0].map(percent), ["0.0 %", "<0.1 %", "12.3 %", "100 %", "100 %"]);
    }

    #[test]
    fn quantities_have_a_suitable_prefix() {
        let shown = [0.004_151, 1.5, 90.0, 3600.0, 2.5e-7, 0.999_96].map(|value| quantity(value, "s"));
        assert_eq!(shown, ["4.151 ms", "1.500 s", "90.00 s", "3600 s", "250.0 ns", "1.000 s"]);
        let shown = [-0.0265, 31_826.0, 1e-12, 4.2e12].map(|value| quantity(value, "J"));
        assert_eq!(shown, ["-26.50 mJ", "31.83 kJ", "0.001 nJ", "4200 GJ"]);
        assert_eq!((quantity(12.5, "%"), quantity(0.5, "")), ("12.50 %".into(), "0.500".into()));
        assert_eq!(estimate(0.004_151, 0.000_07, "s"), "4.151 ± 0.070 ms");
        assert_eq!(estimate(5.218, 0.0665, "J"), "5.218 ± 0.067 J");
        assert_eq!(
            (estimate(12.0, 0.0, "J"), estimate(0.8, 0.03, "")),
            ("12.000 ± 0.000 J".into(), "0.800 ± 0.030".into())
        );
    }
}
