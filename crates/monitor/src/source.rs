//! Where readings come from, a machine or a recording, and its current time.
//!
//! A recording has its own time, which runs faster or slower than the clock.

use std::time::{Duration, Instant};

use ergometer_sensors::replay::Pace;
use ergometer_telemetry::{Clock, Timeline};

use crate::latest::{self, Now};

/// Where readings come from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Source {
    Machine,
    Recording(Playback),
}

/// How a recording is played.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Playback {
    pub(crate) pace: Pace,
    /// The length of the recording, from the time at which sampling started.
    pub(crate) length: Duration,
}

impl Source {
    pub(crate) fn playback(self) -> Option<Playback> {
        match self {
            Self::Machine => None,
            Self::Recording(playback) => Some(playback),
        }
    }

    /// The current moment.
    pub(crate) fn now(self, timeline: &Timeline, clock: &Clock) -> Now {
        let playback = self.playback();
        let end = latest::end(timeline).filter(|_| playback.is_some());
        let speed = playback.and_then(Playback::speed).unwrap_or(1.0);
        Now { at: end.unwrap_or_else(|| clock.now()), speed }
    }

    /// The time since the start, in the time of the source.
    pub(crate) fn elapsed(self, started: Instant) -> Duration {
        self.playback().map_or_else(|| started.elapsed(), |playback| playback.position(started.elapsed()))
    }
}

impl Playback {
    /// How many times faster than recorded; `None` if played at once.
    pub(crate) fn speed(self) -> Option<f64> {
        match self.pace {
            Pace::AtOnce => None,
            Pace::Speed(speed) => Some(speed),
        }
    }

    /// The position in the recording after this time.
    fn position(self, since: Duration) -> Duration {
        let played = self.speed().and_then(|speed| Duration::try_from_secs_f64(since.as_secs_f64() * speed).ok());
        played.map_or(self.length, |played| played.min(self.length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_has_its_own_time_and_an_end() {
        let length = Duration::from_secs(99);
        let at = |pace, seconds| Playback { pace, length }.position(Duration::from_secs(seconds)).as_secs();
        assert_eq!(at(Pace::Speed(10.0), 4), 40);
        assert_eq!(at(Pace::Speed(0.5), 4), 2);
        assert_eq!(at(Pace::Speed(10.0), 10), 99);
        assert_eq!(at(Pace::Speed(f64::MAX), 10), 99, "too long for a duration");
        assert_eq!(at(Pace::AtOnce, 0), 99);
    }
}
