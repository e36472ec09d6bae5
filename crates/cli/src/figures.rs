//! Numbers as people write and read them: durations with units, windows, watts and joules with their interval.

use std::time::Duration;

use ergometer_telemetry::Estimate;
use ergometer_units::{Timestamp, Window};

/// Longer than anybody waits; clocks overflow later.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// Reads `500ms`, `2s`, `1.5m`, `1h`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no duration: write a number and its unit, as in 500ms, 2s, 1.5m or 1h");
    let split = text.find(|character: char| !character.is_ascii_digit() && character != '.').ok_or_else(wrong)?;
    let (number, unit) = text.split_at(split);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let seconds = match unit.trim() {
        "us" => number / 1e6,
        "ms" => number / 1e3,
        "s" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(wrong()),
    };
    let duration = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
    if duration > LONGEST { Err(format!("`{text}` is longer than a year")) } else { Ok(duration) }
}

/// Reads `START_US..END_US`.
pub(crate) fn parse_window(text: &str) -> Result<Window, String> {
    let wrong = || format!("`{text}` is no window: write START_US..END_US, in microseconds since the Unix epoch");
    let (start, end) = text.split_once("..").ok_or_else(wrong)?;
    window_of(start, end).ok_or_else(wrong)?
}

/// A window from two numbers of microseconds. `None` where they are no numbers, an error where they are reversed.
pub(crate) fn window_of(start: &str, end: &str) -> Option<Result<Window, String>> {
    let at = |text: &str| Timestamp::from_micros_since_epoch(text.trim().parse().ok()?);
    Some(Window::new(at(start)?, at(end)?).map_err(|error| error.to_string()))
}

/// Reads `key=value`.
pub(crate) fn parse_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` is no parameter: write KEY=VALUE")),
    }
}

/// Reads a count of parameters: `8B`, `135M`, `0.1M`, `7000000000`.
pub(crate) fn parse_count(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no count: write a number, as in 8B, 135M or 7000000000");
    let (number, factor) = match text.trim().char_indices().last() {
        Some((at, 'k' | 'K')) => (&text.trim()[..at], 1e3),
        Some((at, 'm' | 'M')) => (&text.trim()[..at], 1e6),
        Some((at, 'b' | 'B' | 'g' | 'G')) => (&text.trim()[..at], 1e9),
        Some((at, 't' | 'T')) => (&text.trim()[..at], 1e12),
        _ => (text.trim(), 1.0),
    };
    let count = number.trim().parse::<f64>().map_err(|_| wrong())? * factor;
    if !(1.0..=1e15).contains(&count) {
        return Err(wrong());
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 1 to 1e15")]
    let count = count.round() as u64;
    Ok(count)
}

/// Reads a price in US dollars.
pub(crate) fn parse_price(text: &str) -> Result<f64, String> {
    let price: Result<f64, _> = text.trim().trim_start_matches('$').parse();
    match price {
        Ok(price) if price.is_finite() && price >= 0.0 => Ok(price),
        _ => Err(format!("`{text}` is no price: write US dollars for a million tokens, as in 0.15")),
    }
}

/// A whole number with commas between its thousands.
pub(crate) fn thousands(value: f64) -> String {
    let text = format!("{:.0}", value.abs());
    let mut grouped = String::new();
    for (place, digit) in text.chars().enumerate() {
        if place > 0 && (text.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if value < 0.0 { format!("-{grouped}") } else { grouped }
}

/// A number with about four significant digits.
pub(crate) fn digits(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= 1000.0 {
        format!("{value:.0}")
    } else if magnitude >= 100.0 {
        format!("{value:.1}")
    } else if magnitude >= 10.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}

/// A number with three significant digits however small it is.
pub(crate) fn significant(value: f64) -> String {
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

/// Half an interval, as precise as the number beside it.
pub(crate) fn margin(half: f64, beside: f64) -> String {
    let decimals = digits(beside).split_once('.').map_or(0, |(_, decimals)| decimals.len());
    format!("±{half:.decimals$}")
}

/// `98.31 J ±1.30`.
pub(crate) fn joules(estimate: &Estimate) -> String {
    // The lower end stops at zero, so the upper one tells the margin.
    let (value, half) = (estimate.joules.get(), (estimate.high - estimate.joules).get());
    format!("{} J {}", digits(value), margin(half, value))
}

/// A value in tables: `-` where there is none.
pub(crate) fn or_dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| String::from("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_their_unit() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("1.5m"), Ok(Duration::from_secs(90)));
        for wrong in ["", "5", "s", "5 parsecs", "-1s", "1e9h", "..s", "999999999999999999999h"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn windows_are_two_numbers_in_order() {
        assert!(parse_window("1000..2000").is_ok());
        assert!(parse_window("2000..1000").unwrap_err().contains("ends before it starts"));
        for wrong in ["", "1000", "1000..", "a..b", "1000-2000", "99999999999999999999..1"] {
            assert!(parse_window(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn counts_prices_and_pairs_are_read() {
        assert_eq!(parse_count("8B"), Ok(8_000_000_000));
        assert_eq!(parse_count("0.1 M"), Ok(100_000));
        assert_eq!(parse_count("135000000"), Ok(135_000_000));
        for wrong in ["", "B", "-8B", "8X", "0", "1e99", "nan"] {
            assert!(parse_count(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_price("$0.15"), Ok(0.15));
        assert!(parse_price("-1").is_err() && parse_price("free").is_err() && parse_price("inf").is_err());
        assert_eq!(parse_pair("stop=a=b"), Ok((String::from("stop"), String::from("a=b"))));
        assert!(parse_pair("=x").is_err() && parse_pair("x").is_err());
        assert_eq!(
            (thousands(1_234_567.4), thousands(999.0), thousands(-1000.0)),
            ("1,234,567".into(), "999".into(), "-1,000".into())
        );
    }

    #[test]
    fn digits_keep_four_significant() {
        let shown: Vec<String> = [1234.6, 123.46, 12.346, 1.2346, 0.0].map(digits).to_vec();
        assert_eq!(shown, ["1235", "123.5", "12.35", "1.235", "0.000"]);
        assert_eq!(margin(1.234, 12.3), "±1.23");
        let shown: Vec<String> = [12.346, 0.5, 0.001_164, 0.000_012_34, 0.0].map(significant).to_vec();
        assert_eq!(shown, ["12.35", "0.500", "0.00116", "1.23e-5", "0.000"]);
    }
}
