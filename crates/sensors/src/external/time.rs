//! Parses times as meters write them.
//!
//! Numbers are seconds, milliseconds, microseconds or nanoseconds since the epoch, distinguished by their size. Dates
//! are `YYYY-MM-DD HH:MM:SS[.fraction]` or RFC 3339. A date without an offset is UTC.

use ergometer_units::Timestamp;

/// A smaller number is not a time since the epoch (this is 1973): it may be seconds since the meter was started.
const LEAST_SECONDS: f64 = 1e8;

/// Parses a time. `None` if the text is not a time.
pub(super) fn parse(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    match (text.parse::<i64>(), text.parse::<f64>()) {
        (Ok(whole), _) => from_integer(whole),
        (Err(_), Ok(number)) => from_number(number),
        _ => date(text),
    }
}

fn from_integer(number: i64) -> Option<Timestamp> {
    number.checked_mul(nanos_in_one(number as f64)?).map(Timestamp::from_nanos_since_epoch)
}

/// The time of a number since the epoch. A fraction of a second is exact to about a quarter of a microsecond.
pub(super) fn from_number(number: f64) -> Option<Timestamp> {
    let unit = nanos_in_one(number)?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a number out of range saturates, and the product overflows to None"
    )]
    let (whole, part) = (number.trunc() as i64, (number.fract() * unit as f64).round() as i64);
    whole.checked_mul(unit)?.checked_add(part).map(Timestamp::from_nanos_since_epoch)
}

/// 1e11 seconds is the year 5138 and 1e11 milliseconds is 1973, so the ranges do not overlap in practice.
fn nanos_in_one(number: f64) -> Option<i64> {
    match number {
        _ if !(LEAST_SECONDS..9e18).contains(&number) => None,
        _ if number < 1e11 => Some(1_000_000_000),
        _ if number < 1e14 => Some(1_000_000),
        _ if number < 1e17 => Some(1000),
        _ => Some(1),
    }
}

fn date(text: &str) -> Option<Timestamp> {
    let field = |range: std::ops::Range<usize>| {
        let digits = text.get(range)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<i64>().ok()).flatten()
    };
    let bytes = text.as_bytes();
    let mark = |place: usize, allowed: &[u8]| bytes.get(place).is_some_and(|byte| allowed.contains(byte));
    if !(mark(4, b"-/") && mark(7, b"-/") && mark(10, b"Tt ") && mark(13, b":") && mark(16, b":")) {
        return None;
    }
    let (year, month, day) = (field(0..4)?, field(5..7)?, field(8..10)?);
    let (hour, minute, second) = (field(11..13)?, field(14..16)?, field(17..19)?);
    // 60 is a leap second.
    if !(1..=12).contains(&month)
        || !(1..=length(year, month)).contains(&day)
        || hour > 23
        || minute > 59
        || second > 60
    {
        return None;
    }
    let (nanos, rest) = fraction(text.get(19..)?)?;
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset(rest.trim())?;
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos).map(Timestamp::from_nanos_since_epoch)
}

/// The nanoseconds of `.123`, and the rest of the text.
fn fraction(text: &str) -> Option<(i64, &str)> {
    let Some(digits) = text.strip_prefix(['.', ',']) else { return Some((0, text)) };
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let kept = &digits[..end.min(9)];
    let nanos: i64 = kept.parse().ok()?;
    let missing = u32::try_from(9 - kept.len()).ok()?;
    Some((nanos * 10_i64.pow(missing), &digits[end..]))
}

/// The UTC offset in seconds: an empty text, `Z`, `UTC`, `+01:00`, `+0100` or `+01`.
fn offset(text: &str) -> Option<i64> {
    if matches!(text, "" | "Z" | "z" | "UTC" | "GMT") {
        return Some(0);
    }
    let (sign, digits) =
        text.strip_prefix('+').map(|digits| (1, digits)).or(text.strip_prefix('-').map(|digits| (-1, digits)))?;
    let digits: String = digits.replacen(':', "", 1);
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) || !matches!(digits.len(), 2 | 4) {
        return None;
    }
    let (hours, minutes): (i64, i64) = (digits[..2].parse().ok()?, digits.get(2..).unwrap_or("").parse().unwrap_or(0));
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

const fn length(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1 January 1970. Years are counted from March, so that the leap day is the last day of a year.
const fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month > 2 { year } else { year - 1 };
    let month = (month + 9) % 12;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + (month * 153 + 2) / 5 + day
        - 1
        - 719_468
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn nanos(text: &str) -> Option<i64> {
        parse(text).map(Timestamp::nanos_since_epoch)
    }

    #[test]
    fn the_unit_of_a_number_follows_from_its_size() {
        let second = 1_794_730_772_000_000_000;
        for text in ["1794730772", "1794730772.000", "1794730772000", "1794730772000000", "1794730772000000000"] {
            assert_eq!(nanos(text), Some(second), "{text}");
        }
        assert!((nanos("1794730772.5").unwrap() - second - 500_000_000).abs() < 500);
        for text in ["0", "12.5", "-1794730772", "NaN", "inf", "", "99999999999999999999"] {
            assert_eq!(nanos(text), None, "{text}");
        }
    }

    #[test]
    fn dates_are_utc_unless_they_have_an_offset() {
        // The same as `date -u -d @1794730772`.
        let second = 1_794_730_772_000_000_000;
        for text in [
            "2026-11-15 08:19:32",
            "2026-11-15T08:19:32Z",
            "2026/11/15 08:19:32 UTC",
            "2026-11-15T09:19:32+01:00",
            "2026-11-15T02:49:32-0530",
            "2026-11-15 10:19:32 +02",
        ] {
            assert_eq!(nanos(text), Some(second), "{text}");
        }
        assert_eq!(nanos("2026-11-15 08:19:32.25"), Some(second + 250_000_000));
        assert_eq!(nanos("2026-11-15T08:19:32.0000000019Z"), Some(second + 1));
        assert_eq!(nanos("2000-02-29T00:00:00Z"), Some(951_782_400_000_000_000));
        for text in [
            "2026-13-15 08:19:32",
            "2026-02-29 08:19:32",
            "2026-11-15 24:19:32",
            "2026-11-15",
            "2026-11-15 08:19:32 CET",
            "2026-11-15 08:19:32+1",
            "2026-11-15 08:19:32.",
            "15.11.2026 08:19:32",
            "time",
        ] {
            assert_eq!(nanos(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn consecutive_days_have_consecutive_numbers(year in 1970_i64..2200, month in 1_i64..=12) {
            let last = days(year, month, length(year, month));
            let (next_year, next) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
            prop_assert_eq!(days(next_year, next, 1), last + 1);
        }

        #[test]
        fn any_text_is_read_without_a_panic(text in any::<String>(), like in "[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.,Z+é-]{0,20}") {
            let _ = (parse(&text), parse(&like));
        }
    }
}
