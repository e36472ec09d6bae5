//! The server's clock: wall time anchored once at the start, then monotonic, so that steps of the wall clock have no
//! effect.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ergometer_units::{ClockAnchor, Timestamp};

/// A clock whose times never go back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock(ClockAnchor);

impl Clock {
    /// Anchors the monotonic clock to the wall clock.
    pub(crate) fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall_ns = i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX);
        Self(ClockAnchor::new(Timestamp::from_nanos_since_epoch(wall_ns), Instant::now()))
    }

    /// The time now, in nanoseconds since the Unix epoch.
    pub(crate) fn now_ns(&self) -> i64 {
        self.0.timestamp(Instant::now()).nanos_since_epoch()
    }
}

/// A time in Ollama's format: `2026-11-15T14:52:58.000000001Z`.
pub(crate) fn rfc3339(time_ns: i64) -> String {
    let (seconds, nanos) = (time_ns.div_euclid(1_000_000_000), time_ns.rem_euclid(1_000_000_000));
    let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Converts days to a civil date in eras of 400 years (146,097 days) that start on 1 March.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanos:09}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_match_the_calendar() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000000000Z");
        assert_eq!(rfc3339(951_782_400_000_000_007), "2000-02-29T00:00:00.000000007Z");
        assert_eq!(rfc3339(1_794_754_378_000_000_000), "2026-11-15T14:52:58.000000000Z");
    }

    #[test]
    fn time_does_not_go_back() {
        let clock = Clock::start();
        let times: Vec<_> = (0..100).map(|_| clock.now_ns()).collect();
        assert!(times.is_sorted());
    }
}
