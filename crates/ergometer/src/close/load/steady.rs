//! The steady state of a session: the stretch in which the load was what was asked for.
//!
//! Closed loop: from when in-flight first reaches ceil(0.95 x concurrency) to when it last leaves it. Where the queries
//! are turns of conversations, `concurrency` is how many conversations are open, so these are counted, from the first
//! turn sent to the last one's end: while the human thinks nothing is in flight. Open loop: first arrival + ramp + median
//! E2E to last arrival.

use std::fmt;

use ergometer_statistics::Distribution;
use ergometer_units::{Seconds, Timestamp, Window};

use super::in_flight::InFlight;
use super::passage::Passage;
use ergometer_runs::config::{RunConfig, Schedule};

/// Fewer completed requests sent inside it say nothing.
pub(super) const FEWEST: u64 = 10;

/// Why there is no steady state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoSteadyState {
    /// A closed loop did not have enough in flight.
    NeverFull { most: u64, wanted: u64 },
    /// A closed loop was full at times only.
    FellOff { mean: u64, wanted: u64 },
    /// The arrivals of an open loop were over before the first answers were.
    TooBrief,
    /// No request completed.
    NoneCompleted,
    /// Hardly a request was sent inside it.
    TooFew { found: u64 },
}

impl fmt::Display for NoSteadyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverFull { most, wanted } => {
                write!(f, "there were never more than {most} in flight; it begins at {wanted}")
            }
            Self::FellOff { mean, wanted } => {
                write!(
                    f,
                    "between the first and the last time that {wanted} were in flight there were {mean} on average"
                )
            }
            Self::TooBrief => f.write_str("requests were due for a shorter time than a median answer took"),
            Self::NoneCompleted => f.write_str("no request completed"),
            Self::TooFew { found } => {
                write!(f, "it has {found} completed requests; it takes {FEWEST}")
            }
        }
    }
}

/// What a session has to show.
pub(super) struct Session<'a> {
    pub(super) passages: &'a [Passage],
    /// All attempts.
    pub(super) requests: &'a InFlight,
    /// The conversations, and requests that are part of none; `None` where there are no conversations.
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
            let arrivals = || session.passages.iter().filter(|passage| !passage.is_repeat);
            let arrivals = || arrivals().map(|passage| passage.scheduled);
            let (first, last) = arrivals().min().zip(arrivals().max()).ok_or(NoSteadyState::NoneCompleted)?;
            let latencies: Vec<f64> = session.passages.iter().filter_map(completed_e2e).collect();
            let median = Distribution::from_values(&latencies).ok_or(NoSteadyState::NoneCompleted)?.p50;
            let start: Timestamp = first + Seconds::new(config.ramp_s) + Seconds::new(median);
            Window::new(start, last)
                .ok()
                .filter(|window| window.length() > Seconds::ZERO)
                .ok_or(NoSteadyState::TooBrief)
        }
    }
}

fn completed_e2e(passage: &Passage) -> Option<f64> {
    passage.e2e().filter(|_| passage.is_completed()).map(Seconds::get)
}
