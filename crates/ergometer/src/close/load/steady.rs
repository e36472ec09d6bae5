//! Finds the steady state of a session: the time in which the load was as configured.
//!
//! Closed loop: from when the requests in flight first reach ceil(0.95 x concurrency) to when they last do. For
//! conversations, `concurrency` is the number of open conversations, from the first turn sent to the end of the last,
//! because nothing is in flight during think time. Open loop: first arrival + ramp + median E2E latency to last arrival.

use std::fmt;

use ergometer_statistics::Distribution;
use ergometer_units::{Seconds, Timestamp, Window};

use super::attempt::Attempt;
use super::in_flight::InFlight;
use ergometer_runs::config::{RunConfig, Schedule};

/// The fewest completed requests sent inside a steady state.
pub(super) const FEWEST: u64 = 10;

/// Why there is no steady state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoSteadyState {
    /// A closed loop never had enough requests in flight.
    NeverFull { most: u64, wanted: u64 },
    /// A closed loop had enough requests in flight at times only.
    FellOff { mean: u64, wanted: u64 },
    /// The arrivals of an open loop ended before the median answer.
    TooBrief,
    /// No request completed.
    NoneCompleted,
    /// Too few completed requests were sent inside it.
    TooFew { found: u64 },
}

impl fmt::Display for NoSteadyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverFull { most, wanted } => {
                write!(f, "at most {most} requests were in flight, and {wanted} are needed")
            }
            Self::FellOff { mean, wanted } => {
                write!(
                    f,
                    "between the first and the last moment with {wanted} requests in flight, \
                     only {mean} were in flight on average"
                )
            }
            Self::TooBrief => f.write_str("requests arrived for less time than the median E2E latency"),
            Self::NoneCompleted => f.write_str("no request completed"),
            Self::TooFew { found } => {
                write!(
                    f,
                    "only {found} completed requests were sent while the load was steady; at least {FEWEST} are needed"
                )
            }
        }
    }
}

/// The times of a session.
pub(super) struct Session<'a> {
    pub(super) attempts: &'a [Attempt],
    /// All attempts.
    pub(super) requests: &'a InFlight,
    /// The conversations, and requests outside conversations; `None` without conversations.
    pub(super) conversations: Option<&'a InFlight>,
}

/// The window of the steady state.
pub(super) fn window(config: &RunConfig, session: &Session) -> Result<Window, NoSteadyState> {
    match config.schedule {
        Schedule::Concurrency { concurrency } => {
            let wanted = (95 * u64::from(concurrency)).div_ceil(100);
            let open = session.conversations.unwrap_or(session.requests);
            let window = open.reaches(wanted).ok_or_else(|| NoSteadyState::NeverFull { most: open.most(), wanted })?;
            match InFlight::over([(open, window)]) {
                Some(found) if found.mean < 0.9 * f64::from(concurrency) => {
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "a count; casts saturate"
                    )]
                    let mean = found.mean.round() as u64;
                    Err(NoSteadyState::FellOff { mean, wanted })
                }
                _ => Ok(window),
            }
        }
        Schedule::Rate { .. } | Schedule::Replay { .. } => {
            let arrivals = || session.attempts.iter().filter(|attempt| !attempt.is_repeat);
            let arrivals = || arrivals().map(|attempt| attempt.scheduled);
            let (first, last) = arrivals().min().zip(arrivals().max()).ok_or(NoSteadyState::NoneCompleted)?;
            let latencies: Vec<f64> = session.attempts.iter().filter_map(completed_e2e).collect();
            let median = Distribution::from_values(&latencies).ok_or(NoSteadyState::NoneCompleted)?.p50;
            let start: Timestamp = first + Seconds::new(config.ramp_s) + Seconds::new(median);
            Window::new(start, last)
                .ok()
                .filter(|window| window.length() > Seconds::ZERO)
                .ok_or(NoSteadyState::TooBrief)
        }
    }
}

fn completed_e2e(attempt: &Attempt) -> Option<f64> {
    attempt.e2e().filter(|_| attempt.is_completed()).map(Seconds::get)
}
