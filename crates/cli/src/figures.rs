//! Parses and formats numbers: durations, sizes, windows, watts, and joules with their interval.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use ergometer_telemetry::{EnergyEstimate, Method};
pub(crate) use ergometer_units::format::{digits, percent, significant, thousands};
pub(crate) use ergometer_units::text::fitted;
use ergometer_units::{Picos, Timestamp, Window};

/// The longest duration, well before clocks overflow.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// Parses `500ms`, `2s`, `1.5m`, `1h`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration: write a number with its unit, as in 500ms, 2s, 1.5m or 1h");
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

/// Parses a duration, or `off`, which is zero.
pub(crate) fn parse_duration_or_off(text: &str) -> Result<Duration, String> {
    if text == "off" {
        return Ok(Duration::ZERO);
    }
    parse_duration(text).map_err(|error| format!("{error}; or `off`"))
}

/// Parses a duration in a trace: `1us`, `500ns`, `20ps`, `1.5ms`, `2s`.
pub(crate) fn parse_picos(text: &str) -> Result<Picos, String> {
    let wrong =
        || format!("`{text}` is not a duration: write a number with its unit, as in 1us, 500ns, 20ps, 1.5ms or 2s");
    let split = text.find(|character: char| !character.is_ascii_digit() && character != '.').ok_or_else(wrong)?;
    let (number, unit) = text.split_at(split);
    let picos = match unit.trim() {
        "ps" => 1.0,
        "ns" => 1e3,
        "us" | "µs" | "μs" => 1e6,
        "ms" => 1e9,
        "s" => 1e12,
        "m" | "min" => 60e12,
        "h" => 3600e12,
        _ => return Err(wrong()),
    } * number.parse::<f64>().map_err(|_| wrong())?;
    if picos > 9e18 {
        return Err(format!("`{text}` is too long: a trace counts picoseconds, up to 106 days"));
    }
    #[expect(clippy::cast_possible_truncation, reason = "from 0 to 9e18")]
    let picos = picos.round() as i64;
    Ok(Picos::new(picos))
}

/// Parses a number of bytes: `8GiB`, `500MB`, `4096`.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a size: write a number with its unit, as in 8GiB, 500MB or 4096");
    let text = text.trim();
    let split = text.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "tb" => 1e12,
        "k" | "kib" => f64::from(1 << 10),
        "m" | "mib" => f64::from(1 << 20),
        "g" | "gib" => f64::from(1 << 30),
        "t" | "tib" => 2_f64.powi(40),
        _ => return Err(wrong()),
    };
    let bytes = number.parse::<f64>().map_err(|_| wrong())? * factor;
    if !(1.0..=1e18).contains(&bytes) {
        return Err(wrong());
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 1 to 1e18")]
    let bytes = bytes.round() as u64;
    Ok(bytes)
}

/// Parses `START_US..END_US`.
pub(crate) fn parse_window(text: &str) -> Result<Window, String> {
    let wrong = || format!("`{text}` is not a window: write START_US..END_US, in microseconds since the Unix epoch");
    let (start, end) = text.split_once("..").ok_or_else(wrong)?;
    parse_bounds(start, end).ok_or_else(wrong)?
}

/// Parses a window of two numbers of microseconds. `None` if they are not numbers, an error if they are reversed.
pub(crate) fn parse_bounds(start: &str, end: &str) -> Option<Result<Window, String>> {
    let at = |text: &str| Timestamp::from_micros_since_epoch(text.trim().parse().ok()?);
    Some(Window::new(at(start)?, at(end)?).map_err(|error| error.to_string()))
}

/// Parses a whole number of at least 1.
pub(crate) fn parse_positive<N: FromStr + PartialOrd + From<u8>>(text: &str) -> Result<N, String> {
    let number = text.trim().parse().ok().filter(|number: &N| *number >= N::from(1));
    number.ok_or_else(|| match text.trim().parse::<u128>() {
        Ok(1..) => format!("`{text}` is too large"),
        _ => format!("`{text}` is not a whole number of at least 1"),
    })
}

/// Parses a whole number from 1 to `MOST`.
pub(crate) fn parse_up_to<const MOST: u32>(text: &str) -> Result<u32, String> {
    let number = text.trim().parse::<u32>().ok().filter(|number| (1..=MOST).contains(number));
    number.ok_or_else(|| format!("`{text}` is not a whole number from 1 to {MOST}"))
}

/// Parses `key=value`.
pub(crate) fn parse_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` is not a parameter: write KEY=VALUE")),
    }
}

/// Parses a number of model parameters: `8B`, `135M`, `0.1M`, `7000000000`.
pub(crate) fn parse_count(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a number: write 8B, 135M or 7000000000");
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

/// Parses a price in US dollars.
pub(crate) fn parse_price(text: &str) -> Result<f64, String> {
    let price: Result<f64, _> = text.trim().trim_start_matches('$').parse();
    match price {
        Ok(price) if price.is_finite() && price >= 0.0 => Ok(price),
        _ => Err(format!("`{text}` is not a price: write US dollars per million tokens, as in 0.15")),
    }
}

/// Formats a duration of a trace with four significant digits: `1.490 ms`.
pub(crate) fn time_ps(picos: f64) -> String {
    let (factor, unit) = time_unit(picos);
    // Picoseconds are integers unless averaged.
    if factor == 1.0 && picos.fract() == 0.0 {
        return format!("{picos:.0} ps");
    }
    format!("{} {unit}", digits(picos / factor))
}

/// The best unit for a duration. A value that rounds up to the next unit uses that unit.
pub(crate) fn time_unit(picos: f64) -> (f64, &'static str) {
    let magnitude = picos.abs();
    [(1e12, "s"), (1e9, "ms"), (1e6, "us"), (1e3, "ns")]
        .into_iter()
        .find(|(factor, _)| magnitude >= factor * 0.99995)
        .unwrap_or((1.0, "ps"))
}

/// Formats half of an interval with the precision of its value.
pub(crate) fn margin(half: f64, beside: f64) -> String {
    let decimals = digits(beside).split_once('.').map_or(0, |(_, decimals)| decimals.len());
    format!("±{half:.decimals$}")
}

/// `98.31 J ±1.30`.
pub(crate) fn joules(estimate: &EnergyEstimate) -> String {
    // The low end stops at zero, so the high end gives the margin.
    let (value, half) = (estimate.joules.get(), (estimate.high - estimate.joules).get());
    format!("{} J {}", digits(value), margin(half, value))
}

/// Explains the method `activity_aware` below a table of estimates; `None` if no row has it. The names of the other
/// methods say what they are.
pub(crate) fn method_note<M: fmt::Display>(methods: impl IntoIterator<Item = M>) -> Option<String> {
    let name = Method::ActivityAware.to_string();
    let has_it = methods.into_iter().any(|method| method.to_string() == name);
    has_it.then(|| {
        format!(
            "{name}: from the energy counter and the power samples, assuming that the load starts and ends with the window"
        )
    })
}

/// A table cell: `-` for `None`.
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
    fn times_of_traces_are_read_and_shown_to_the_picosecond() {
        let read = |text| parse_picos(text).map(Picos::get);
        assert_eq!(
            [read("1us"), read("20 ps"), read("1.5ns"), read("2s")].map(Result::unwrap),
            [1_000_000, 20, 1500, 2_000_000_000_000]
        );
        for wrong in ["", "5", "ps", "-1us", "1e3ns", "5 parsecs", "99999h"] {
            assert!(parse_picos(wrong).is_err(), "{wrong}");
        }
        let shown = [0.0, 999.0, 1000.0, 1.49e9, 999_960.0, 29_788_123_456.0, 1.5, 2.5e12].map(time_ps);
        assert_eq!(shown, ["0 ps", "999 ps", "1.000 ns", "1.490 ms", "1.000 us", "29.79 ms", "1.500 ps", "2.500 s"]);
    }

    #[test]
    fn sizes_are_read() {
        assert_eq!(
            [parse_bytes("8GiB"), parse_bytes("1.5 kB"), parse_bytes("4096")].map(Result::unwrap),
            [8 << 30, 1500, 4096]
        );
        for wrong in ["", "0", "GiB", "-1", "8 GiBs", "1e9", "nan", "99999999TiB"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
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
    }

    #[test]
    fn a_margin_is_as_precise_as_its_number() {
        assert_eq!(margin(1.234, 12.3), "±1.23");
    }
}
