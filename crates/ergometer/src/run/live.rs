//! Reports the progress of a session to the observer.

use std::sync::atomic::Ordering;

use ergometer_telemetry::Sampler;
use ergometer_units::Joules;

use super::loops::Start;
use super::provisional::Provisional;
use super::sending::Sender;
use super::{Observer, Progress};
use crate::config::CountedDevices;

/// The live view of a session.
pub(super) struct LiveView<'a> {
    pub(super) sender: &'a Sender,
    pub(super) observer: &'a dyn Observer,
    pub(super) counted: &'a CountedDevices,
    pub(super) sampler: &'a Sampler,
    pub(super) start: Start,
    pub(super) provisional: Provisional,
}

impl LiveView<'_> {
    /// Reports progress to the observer.
    pub(super) fn update(&mut self) {
        let Self { sender, start, provisional, .. } = self;
        let (counts, dispenser) = (&sender.counts, &sender.control.dispenser);
        let done_now = counts.done.load(Ordering::Relaxed);
        let output_tokens = counts.output_tokens.load(Ordering::Relaxed);
        let recent = self.sampler.with_timeline(|timeline| {
            provisional.update(timeline, self.counted, start.at);
            provisional.recent()
        });
        // The energy lags behind the queries by a moment; the rate of queries aligns the two.
        let elapsed = start.instant.elapsed();
        let joules_per = |count: u64| {
            let (joules, seconds) = provisional.so_far(start.at)?;
            let joules = joules.get() / seconds.get() / (count as f64 / elapsed.as_secs_f64());
            joules.is_finite().then(|| Joules::new(joules))
        };
        // Release the lock first: the observer may wait for a terminal, and sending tasks need the lock.
        let (ttft, itl) = {
            let figures = counts.figures();
            (figures.ttft(), figures.itl())
        };
        self.observer.progress(&Progress {
            done: dispenser.done_before() + done_now,
            total: dispenser.total(),
            done_now,
            failed: counts.failed.load(Ordering::Relaxed),
            retried: counts.retried.load(Ordering::Relaxed),
            in_flight: counts.in_flight.load(Ordering::Relaxed),
            elapsed,
            output_tokens,
            joules_per_query: joules_per(done_now),
            joules_per_token: joules_per(output_tokens),
            power: recent,
            ttft,
            itl,
        });
    }
}
