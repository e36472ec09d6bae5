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
    fn digits_keep_four_significant() {
        let shown: Vec<String> = [1234.6, 123.46, 12.346, 1.2346, 0.0].map(digits).to_vec();
        assert_eq!(shown, ["1235", "123.5", "12.35", "1.235", "0.000"]);
        assert_eq!(margin(1.234, 12.3), "±1.23");
    }
}
