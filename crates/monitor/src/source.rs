//! What is watched, a machine or a recording, and what time it is there.
//!
//! A recording has a time of its own: played faster it runs ahead of the clock, and ages are told by it.

use std::time::{Duration, Instant};

use ergometer_sensors::replay::Pace;
use ergometer_telemetry::{Clock, Timeline};

use crate::latest::{self, Now};

/// What is watched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Source {
    Machine,
    Recording(Playback),
}

/// A recording as it is played.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Playback {
    pub(crate) pace: Pace,
    /// Of the whole recording.
    pub(crate) length: Duration,
}

impl Source {
    pub(crate) fn playback(self) -> Option<Playback> {
        match self {
            Self::Machine => None,
            Self::Recording(playback) => Some(playback),
        }
    }

    /// The moment that is the present.
    pub(crate) fn now(self, timeline: &Timeline, clock: &Clock) -> Now {
        let playback = self.playback();
        let end = latest::end(timeline).filter(|_| playback.is_some());
        let speed = playback.and_then(Playback::speed).unwrap_or(1.0);
        Now { at: end.unwrap_or_else(|| clock.now()), speed }
    }

    /// How long the watch has gone on, in the time of what is watched.
    pub(crate) fn elapsed(self, started: Instant) -> Duration {
        self.playback().map_or_else(|| started.elapsed(), |playback| playback.position(started.elapsed()))
    }
}

impl Playback {
    /// How many times faster than it was recorded; `None` where all is played at once.
    pub(crate) fn speed(self) -> Option<f64> {
        match self.pace {
            Pace::AtOnce => None,
            Pace::Speed(speed) => Some(speed),
        }
    }

    /// The time in the recording after so long.
    fn position(self, since: Duration) -> Duration {
        let played = self.speed().and_then(|speed| Duration::try_from_secs_f64(since.as_secs_f64() * speed).ok());
        played.map_or(self.length, |played| played.min(self.length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_has_a_time_of_its_own_and_an_end() {
        let length = Duration::from_secs(99);
        let at = |pace, seconds| Playback { pace, length }.position(Duration::from_secs(seconds)).as_secs();
        assert_eq!(at(Pace::Speed(10.0), 4), 40);
        assert_eq!(at(Pace::Speed(0.5), 4), 2);
        assert_eq!(at(Pace::Speed(10.0), 10), 99);
        assert_eq!(at(Pace::Speed(f64::MAX), 10), 99, "too long to be told");
        assert_eq!(at(Pace::AtOnce, 0), 99);
    }
}
