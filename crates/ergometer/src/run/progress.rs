//! Reports what a run is doing and its provisional figures.

use std::path::Path;
use std::time::Duration;

use ergometer_runs::EnergySource;
use ergometer_units::{Joules, Seconds, Watts};

use crate::review::ReviewProgress;

/// Observes a run. It is called from several threads and must not block.
pub trait Observer: Send + Sync {
    /// Called at every step of the run.
    fn notice(&self, notice: Notice<'_>);

    /// Called ten times a second while requests are sent.
    fn progress(&self, progress: &Progress);
}

/// A step of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Notice<'a> {
    /// Warm-up requests are being sent.
    Warming(u32),
    /// A warm-up request failed.
    WarmupFailed(&'a str),
    /// Calibration requests are being sent, for this long.
    Calibrating(Duration),
    /// A calibration request failed. Reported once.
    CalibrationFailed(&'a str),
    /// The calibration of the run of this name is used.
    CalibrationReused(&'a str),
    /// Idle power is being measured.
    Resting(Duration),
    /// The idle power, provisionally, its source, and over which time.
    Rested(Watts, EnergySource, Duration),
    /// Requests are sent.
    Sending,
    /// The last request ended.
    Sent,
    /// The measurement has ended; tokens are being counted or answers judged.
    Reviewing(ReviewProgress<'a>),
    /// The files of the run are being derived.
    Closing(&'a Path),
}

/// The progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Progress {
    /// Queries settled, including earlier sessions.
    pub done: u64,
    /// All queries; `None` if the run is endless.
    pub total: Option<u64>,
    /// Queries settled in this session.
    pub done_now: u64,
    /// Failures in this session.
    pub failed: u64,
    /// Attempts in this session that failed and were retried.
    pub retried: u64,
    /// Requests in flight.
    pub in_flight: u64,
    /// How long requests have been sent in this session.
    pub elapsed: Duration,
    /// Output tokens in this session.
    pub output_tokens: u64,
    /// Energy per query so far, provisionally.
    pub joules_per_query: Option<Joules>,
    /// Energy per output token so far, provisionally.
    pub joules_per_token: Option<Joules>,
    /// The mean power of the last two seconds, provisionally.
    pub power: Option<Watts>,
    /// TTFT so far, to within 1 %.
    pub ttft: Option<Percentiles>,
    /// ITL so far, to within 1 %.
    pub itl: Option<Percentiles>,
}

/// Two percentiles.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "their names say it")]
pub struct Percentiles {
    pub p50: Seconds,
    pub p99: Seconds,
}
