//! The times of one attempt, without its texts.
//!
//! An attempt takes about 80 bytes, so a million of them fit into memory.

use ergometer_units::{Seconds, Timestamp};

use ergometer_clients::{FailureKind, Outcome};
use ergometer_runs::config::{LimitedMetric, Slo};
use ergometer_runs::{Exchange, RequestTimes};

/// The times and the outcome of one attempt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Attempt {
    pub(super) scheduled: Timestamp,
    /// When the first attempt at its query was due.
    due: Timestamp,
    pub(super) sent: Timestamp,
    pub(super) end: Timestamp,
    first_token: Option<Timestamp>,
    first_output: Option<Timestamp>,
    last_token: Option<Timestamp>,
    /// Output tokens of a record, if they are known.
    pub(super) tokens: Option<u32>,
    pub(super) ending: Ending,
    pub(super) role: AttemptRole,
    /// Whether it is a retry in the same session, which has no scheduled time.
    pub(super) is_repeat: bool,
    pub(super) connection: Connection,
    pub(super) in_conversation: bool,
}

/// The role of an attempt for its query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttemptRole {
    /// Not the record of the query.
    Attempt,
    /// The record of the query.
    Record,
    /// The record of the query, within every limit.
    Good,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Completed,
    Failed(FailureKind),
    Cancelled,
}

/// The connection of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Connection {
    /// The client does not report it.
    Unknown,
    /// Opened for this attempt.
    New,
    /// Open already.
    Old,
}

impl Attempt {
    /// Reads the times of an exchange. Whether it is a record is not known yet.
    /// `first_due` is when its query was first due, if it is a retry.
    pub(super) fn new(exchange: &Exchange, first_due: Option<Timestamp>) -> Self {
        let transcript = &exchange.transcript;
        Self {
            scheduled: exchange.scheduled,
            due: first_due.unwrap_or(exchange.scheduled),
            sent: exchange.sent,
            end: exchange.end,
            first_token: transcript.first_token(),
            first_output: transcript.first_output(),
            last_token: transcript.last_token(),
            tokens: None,
            ending: match exchange.outcome {
                Outcome::Completed => Ending::Completed,
                Outcome::Failed { kind, .. } => Ending::Failed(kind),
                Outcome::Cancelled | Outcome::Lost => Ending::Cancelled,
            },
            role: AttemptRole::Attempt,
            is_repeat: first_due.is_some(),
            connection: match transcript.connection_use {
                None => Connection::Unknown,
                Some(line) if line.connect.is_some() => Connection::New,
                Some(_) => Connection::Old,
            },
            in_conversation: exchange.query.turn.is_some(),
        }
    }

    /// Marks it as the record of its query and stores its tokens.
    pub(super) fn record(&mut self, exchange: &Exchange, slo: &Slo) {
        self.role = AttemptRole::Record;
        self.tokens = exchange.transcript.usage.map(|usage| u32::try_from(usage.output).unwrap_or(u32::MAX));
        if self.is_within(slo, longest_gap(exchange)) {
            self.role = AttemptRole::Good;
        }
    }

    pub(super) fn is_record(&self) -> bool {
        self.role != AttemptRole::Attempt
    }

    pub(super) fn is_completed(&self) -> bool {
        self.is_record() && self.ending == Ending::Completed
    }

    fn times(&self) -> RequestTimes {
        RequestTimes {
            scheduled: Some(self.scheduled),
            sent: Some(self.sent),
            first_token: self.first_token,
            last_token: self.last_token,
            end: Some(self.end),
        }
    }

    pub(super) fn schedule_lag(&self) -> Seconds {
        self.sent - self.scheduled
    }

    pub(super) fn ttft(&self) -> Option<Seconds> {
        self.times().ttft()
    }

    /// The time to the first output that is not reasoning.
    pub(super) fn ttfo(&self) -> Option<Seconds> {
        self.first_output.map(|first| first - self.sent)
    }

    pub(super) fn ttft_scheduled(&self) -> Option<Seconds> {
        self.times().ttft_from(Some(self.due))
    }

    pub(super) fn e2e(&self) -> Option<Seconds> {
        self.times().e2e()
    }

    pub(super) fn tpot(&self) -> Option<Seconds> {
        self.times().tpot(u64::from(self.tokens?))
    }

    /// Whether it was sent. A turn of an abandoned conversation was not.
    pub(super) fn is_sent(&self) -> bool {
        self.ending != Ending::Failed(FailureKind::Conversation)
    }

    /// Whether it is within every limit. An unknown latency exceeds its limit, except the time between tokens of a short
    /// answer, and the gaps of a streamed answer without any.
    fn is_within(&self, slo: &Slo, longest_gap: Option<Seconds>) -> bool {
        let is_short = self.times().is_short(self.tokens.map(u64::from));
        let is_streamed = self.first_token.is_some();
        let keeps = |metric| {
            let Some(limit) = slo.limit(metric) else { return true };
            let (took, is_met_if_unknown) = match metric {
                LimitedMetric::Ttft => (self.ttft(), false),
                LimitedMetric::TtftScheduled => (self.ttft_scheduled(), false),
                LimitedMetric::Tpot => (self.tpot(), is_short),
                LimitedMetric::Itl => (longest_gap, is_streamed),
                LimitedMetric::E2e => (self.e2e(), false),
            };
            took.map_or(is_met_if_unknown, |took| took.get() <= limit)
        };
        self.is_completed() && LimitedMetric::ALL.into_iter().all(keeps)
    }
}

/// The times between the token events of an answer, in nanoseconds; none for an answer that was not streamed.
pub(super) fn gaps(exchange: &Exchange) -> impl Iterator<Item = u64> {
    exchange.transcript.gaps_ns()
}

fn longest_gap(exchange: &Exchange) -> Option<Seconds> {
    gaps(exchange).max().map(|nanos| Seconds::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::super::example::{Sketch, exchange};
    use super::*;

    fn attempt(sketch: Sketch) -> Attempt {
        let exchange = exchange(sketch);
        let mut attempt = Attempt::new(&exchange, None);
        attempt.record(&exchange, &Slo::default());
        attempt
    }

    #[test]
    fn latencies_follow_the_formulas_of_the_metrics() {
        let found = attempt(Sketch {
            scheduled: 90.0,
            sent: 100.0,
            chunks: &[130.0, 150.0, 190.0],
            end: 200.0,
            tokens: Some(5),
            ..Sketch::default()
        });
        let millis = |seconds: Option<Seconds>| seconds.map(|seconds| (seconds.get() * 1e9).round() / 1e6);
        assert_eq!(millis(Some(found.schedule_lag())), Some(10.0));
        assert_eq!((millis(found.ttft()), millis(found.ttft_scheduled())), (Some(30.0), Some(40.0)));
        assert_eq!((millis(found.e2e()), millis(found.tpot())), (Some(90.0), Some(15.0)));
        let one_token = attempt(Sketch { chunks: &[1.0, 2.0], end: 3.0, tokens: Some(1), ..Sketch::default() });
        assert_eq!(one_token.tpot(), None);
        let whole = attempt(Sketch { chunks: &[5.0], end: 6.0, tokens: Some(9), is_whole: true, ..Sketch::default() });
        assert_eq!((whole.ttft(), millis(whole.e2e()), whole.tpot()), (None, Some(5.0), None));
        let at_once = attempt(Sketch { chunks: &[5.0, 5.0], end: 6.0, tokens: Some(9), ..Sketch::default() });
        assert_eq!((millis(at_once.ttft()), at_once.tpot()), (Some(5.0), None));
    }

    #[test]
    fn two_choices_of_one_chunk_have_a_tpot_and_no_gap() {
        let sketch = Sketch { chunks: &[30.0, 90.0], end: 95.0, tokens: Some(7), ..Sketch::default() };
        let mut exchange = exchange(sketch);
        exchange.transcript.chunks[1].choice = 1;
        let keeps = |slo: Slo| {
            let mut attempt = Attempt::new(&exchange, None);
            attempt.record(&exchange, &slo);
            (attempt.tpot().map(|tpot| (tpot.get() * 1e3).round()), attempt.role == AttemptRole::Good)
        };
        assert_eq!(keeps(Slo { itl_s: Some(0.001), tpot_s: Some(0.011), ..Slo::default() }), (Some(10.0), true));
        assert_eq!(keeps(Slo { tpot_s: Some(0.009), ..Slo::default() }), (Some(10.0), false));
    }

    #[test]
    fn a_good_request_is_within_every_limit() {
        let keeps = |slo: Slo, sketch: Sketch| {
            let exchange = exchange(sketch);
            let mut attempt = Attempt::new(&exchange, None);
            attempt.record(&exchange, &slo);
            attempt.role == AttemptRole::Good
        };
        let answer =
            Sketch { scheduled: -10.0, chunks: &[30.0, 50.0, 90.0], end: 95.0, tokens: Some(4), ..Sketch::default() };
        // TTFT 30, from scheduled 40, TPOT 20, longest gap 40, E2E 90.
        let limit = |millis: f64| Some(millis / 1e3);
        let slo = |place: usize, millis: f64| {
            let limit = |of: usize| limit(millis).filter(|_| of == place);
            let (ttft_s, ttft_scheduled_s, tpot_s) = (limit(0), limit(1), limit(2));
            Slo { ttft_s, ttft_scheduled_s, tpot_s, itl_s: limit(3), e2e_s: limit(4) }
        };
        for (place, took) in [30.0, 40.0, 20.0, 40.0, 90.0].into_iter().enumerate() {
            assert!(keeps(slo(place, took + 0.1), answer) && !keeps(slo(place, took - 0.1), answer), "limit {place}");
        }
        let both = Slo { ttft_s: limit(31.0), e2e_s: limit(89.0), ..Slo::default() };
        assert!(!keeps(both, answer), "one exceeded limit is enough");
        let strict = Slo { tpot_s: limit(0.1), itl_s: limit(0.1), ttft_s: limit(31.0), ..Slo::default() };
        assert!(keeps(strict, Sketch { chunks: &[30.0], tokens: Some(1), ..answer }), "one token has no gap");
        assert!(keeps(strict, Sketch { chunks: &[30.0, 30.0], ..answer }), "chunks that arrived at once have no gap");
        let uncounted = Sketch { tokens: None, ..answer };
        assert!(!keeps(Slo { tpot_s: limit(1e6), ..Slo::default() }, uncounted), "nobody knows");
        let whole = Sketch { is_whole: true, chunks: &[30.0], ..answer };
        assert!(!keeps(Slo { ttft_s: limit(1e6), ..Slo::default() }, whole), "nobody knows");
        let failed = Sketch { failure: Some(FailureKind::Truncated), ..answer };
        assert!(!keeps(Slo { ttft_s: limit(1e6), ..Slo::default() }, failed));
    }
}
