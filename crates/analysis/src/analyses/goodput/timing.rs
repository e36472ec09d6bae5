//! Computes the latencies of each request from `requests.parquet`, with the same formulas as the run itself.

use std::collections::{HashMap, HashSet};

use ergometer_units::{Seconds, Timestamp};

use super::super::order::sending_order;
use crate::AnalysisError;
use ergometer_runs::config::{LimitedMetric, Slo};
use ergometer_runs::saved::{Attempt, AttemptOutcome, Run};

/// The measured value of a metric for one request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum MeasuredTime {
    /// The value in seconds.
    Seconds(f64),
    /// One token, one chunk, or all at once: there is no time between tokens, so every limit is met.
    Nothing,
    /// The value could not be measured, or the request failed.
    Unknown,
}

impl MeasuredTime {
    pub(super) fn meets(self, limit: f64) -> bool {
        match self {
            Self::Seconds(took) => took <= limit,
            Self::Nothing => true,
            Self::Unknown => false,
        }
    }
}

/// The latencies of a request.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Timing {
    pub(super) sent: Option<Timestamp>,
    pub(super) is_completed: bool,
    /// Indexed by the position in [`LimitedMetric::ALL`].
    pub(super) took: [MeasuredTime; 5],
}

impl Timing {
    pub(super) fn took(&self, what: LimitedMetric) -> MeasuredTime {
        self.took[what as usize]
    }

    /// Whether the request meets a limit. Every completed request meets an absent limit.
    pub(super) fn meets(&self, what: LimitedMetric, limits: &Slo) -> bool {
        self.is_completed && limits.limit(what).is_none_or(|limit| self.took(what).meets(limit))
    }

    pub(super) fn is_good(&self, limits: &Slo) -> bool {
        self.is_completed && LimitedMetric::ALL.into_iter().all(|what| self.meets(what, limits))
    }

    /// The latencies of the recorded attempt. `due` is the time its query was first scheduled.
    fn from_attempt(attempt: &Attempt, gaps: &[i64], due: Option<Timestamp>) -> Self {
        let times = attempt.times();
        // An answer that was not streamed has no first token.
        let is_streamed = times.first_token.is_some();
        let tpot = attempt.output_tokens.and_then(|tokens| times.tpot(tokens));
        let longest = gaps.iter().map(|&gap| gap.max(0)).max().filter(|_| is_streamed).map(Seconds::from_nanos);
        let known =
            |took: Option<Seconds>| took.map_or(MeasuredTime::Unknown, |took| MeasuredTime::Seconds(took.get()));
        let unless = |has_none: bool, took: Option<Seconds>| match took {
            None if has_none => MeasuredTime::Nothing,
            took => known(took),
        };
        Self {
            sent: attempt.sent,
            is_completed: attempt.outcome == AttemptOutcome::Completed,
            took: [
                known(times.ttft()),
                known(times.ttft_from(due)),
                unless(times.is_short(attempt.output_tokens), tpot),
                unless(is_streamed, longest),
                known(times.e2e()),
            ],
        }
    }

    /// The latencies of all records of a run in sending order; empty if `requests.parquet` is missing.
    pub(super) fn all(run: &Run) -> Result<Vec<Self>, AnalysisError> {
        let records: HashSet<(u32, u64)> = run.queries.iter().map(|query| (query.session, query.request)).collect();
        // Rows are sorted by query, then by session and time. Requests lost when the run was killed come last and are
        // not retries.
        let mut repeated: HashMap<(u32, u64), Option<Timestamp>> = HashMap::new();
        let mut timings = Vec::with_capacity(records.len());
        Attempt::each(&run.folder, |attempt, gaps| {
            if attempt.outcome == AttemptOutcome::Lost {
                return;
            }
            let query = (attempt.session, attempt.index);
            let first = if attempt.is_retried {
                let first = repeated.get(&query).copied();
                repeated.entry(query).or_insert(attempt.scheduled);
                first
            } else {
                repeated.remove(&query)
            };
            if records.contains(&(attempt.session, attempt.request)) {
                let place = sending_order(attempt.session, attempt.sent, attempt.request);
                timings.push((place, Self::from_attempt(&attempt, gaps, first.unwrap_or(attempt.scheduled))));
            }
        })?;
        timings.sort_by_key(|timing| timing.0);
        Ok(timings.into_iter().map(|timing| timing.1).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::example::at;
    use super::*;

    fn attempt(tokens: Option<u64>) -> Attempt {
        Attempt {
            outcome: AttemptOutcome::Completed,
            sent: Some(at(1.0)),
            first_token: Some(at(1.25)),
            last_token: Some(at(2.0)),
            output_tokens: tokens,
            ..Attempt::default()
        }
    }

    #[test]
    fn times_follow_the_formulas_of_the_metrics() {
        let gaps = [250_000_000, 500_000_000];
        let found = Timing::from_attempt(&attempt(Some(4)), &gaps, Some(at(0.5)));
        assert_eq!(found.took, [0.25, 0.75, 0.25, 0.5, 1.0].map(MeasuredTime::Seconds));
        let limits = Slo { itl_s: Some(0.5), e2e_s: Some(0.99), ..Slo::default() };
        assert!(
            found.meets(LimitedMetric::Itl, &limits)
                && !found.meets(LimitedMetric::E2e, &limits)
                && !found.is_good(&limits)
        );
        assert!(found.is_good(&Slo { e2e_s: None, ..limits }));
    }

    #[test]
    fn one_token_meets_every_limit_and_an_unknown_time_meets_none() {
        let gaps = [750_000_000];
        let together = Attempt { last_token: Some(at(1.25)), ..attempt(Some(9)) };
        let measured = |attempt: &Attempt, gaps: &[i64]| {
            let took = Timing::from_attempt(attempt, gaps, None).took;
            (took[0], took[2], took[3])
        };
        let (quarter, gap) = (MeasuredTime::Seconds(0.25), MeasuredTime::Seconds(0.75));
        assert_eq!(
            measured(&attempt(Some(1)), &gaps),
            (quarter, MeasuredTime::Nothing, gap),
            "one token in two chunks"
        );
        assert_eq!(measured(&together, &[]), (quarter, MeasuredTime::Nothing, MeasuredTime::Nothing), "one chunk");
        assert_eq!(
            measured(&together, &[0]),
            (quarter, MeasuredTime::Nothing, MeasuredTime::Seconds(0.0)),
            "two chunks at once"
        );
        assert_eq!(
            measured(&attempt(Some(4)), &[]),
            (quarter, MeasuredTime::Seconds(0.25), MeasuredTime::Nothing),
            "two choices of one chunk"
        );
        assert_eq!(measured(&attempt(None), &gaps), (quarter, MeasuredTime::Unknown, gap), "not counted");
        let whole = Attempt { first_token: None, ..attempt(Some(9)) };
        assert_eq!(
            measured(&whole, &gaps),
            (MeasuredTime::Unknown, MeasuredTime::Unknown, MeasuredTime::Unknown),
            "an answer that was not streamed"
        );
        let failed = Attempt { outcome: AttemptOutcome::Failed, ..attempt(Some(9)) };
        assert!(!Timing::from_attempt(&failed, &gaps, None).is_good(&Slo::default()));
    }
}
