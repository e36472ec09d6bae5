//! The times of a request, and the latencies that every table and file computes from them.

use ergometer_units::{Seconds, Timestamp};

use crate::Exchange;

/// The times of one attempt at a request. An unknown time is `None`; an answer that was not streamed has no first token.
///
/// ```
/// use ergometer_runs::RequestTimes;
/// use ergometer_units::Timestamp;
///
/// let at = |nanos| Some(Timestamp::from_nanos_since_epoch(nanos));
/// let times = RequestTimes { sent: at(10), first_token: at(30), last_token: at(90), ..RequestTimes::default() };
/// let nanos = |latency: Option<ergometer_units::Seconds>| latency.map(|latency| latency.as_nanos());
/// assert_eq!((nanos(times.ttft()), nanos(times.e2e())), (Some(20), Some(80)));
/// assert_eq!((nanos(times.tpot(4)), nanos(times.tpot(1))), (Some(20), None));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestTimes {
    /// When it was due.
    pub scheduled: Option<Timestamp>,
    /// When it was sent.
    pub sent: Option<Timestamp>,
    /// When its first token arrived.
    pub first_token: Option<Timestamp>,
    /// When its last token arrived.
    pub last_token: Option<Timestamp>,
    /// When its stream ended.
    pub end: Option<Timestamp>,
}

impl RequestTimes {
    /// How late it was sent.
    #[must_use]
    pub fn schedule_lag(self) -> Option<Seconds> {
        Some(self.sent?.since(self.scheduled?))
    }

    /// Time to first token: first token - sent.
    #[must_use]
    pub fn ttft(self) -> Option<Seconds> {
        self.ttft_from(self.sent)
    }

    /// Time to first token from another time, such as when the query was first due.
    #[must_use]
    pub fn ttft_from(self, start: Option<Timestamp>) -> Option<Seconds> {
        Some(self.first_token?.since(start?))
    }

    /// E2E latency: last token - sent.
    #[must_use]
    pub fn e2e(self) -> Option<Seconds> {
        Some(self.last_token?.since(self.sent?))
    }

    /// Time per output token: (last token - first token) / (output tokens - 1).
    ///
    /// `None` below two tokens, and if the first and the last token arrived together: the answer was not streamed, or a
    /// busy client read all chunks at once, so the time between tokens is unknown. With several choices, it is over the
    /// tokens of all of them.
    #[must_use]
    pub fn tpot(self, output_tokens: u64) -> Option<Seconds> {
        let gaps = output_tokens.checked_sub(1).filter(|&gaps| gaps > 0)?;
        Some(self.between_tokens()? / gaps as f64)
    }

    /// Whether an answer has no TPOT because it is short: one token, or all tokens arrived together. Such an answer meets
    /// every limit of TPOT; an answer whose TPOT is unknown for another reason meets none.
    #[must_use]
    pub fn is_short(self, output_tokens: Option<u64>) -> bool {
        let has_one_token = output_tokens.is_some_and(|tokens| tokens < 2);
        self.first_token.is_some() && (has_one_token || self.between_tokens().is_none())
    }

    /// The time from the first to the last token; `None` if they arrived together.
    fn between_tokens(self) -> Option<Seconds> {
        let (first, last) = self.first_token.zip(self.last_token)?;
        (last > first).then(|| last.since(first))
    }
}

impl From<&Exchange> for RequestTimes {
    fn from(exchange: &Exchange) -> Self {
        Self {
            scheduled: Some(exchange.scheduled),
            sent: Some(exchange.sent),
            first_token: exchange.transcript.first_token(),
            last_token: exchange.transcript.last_token(),
            end: Some(exchange.end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(first: Option<i64>, last: Option<i64>) -> RequestTimes {
        let at = |nanos: Option<i64>| nanos.map(Timestamp::from_nanos_since_epoch);
        RequestTimes { sent: at(Some(0)), first_token: at(first), last_token: at(last), ..RequestTimes::default() }
    }

    #[test]
    fn tpot_needs_two_tokens_that_arrived_apart() {
        let apart = times(Some(0), Some(30_000_000));
        assert_eq!(apart.tpot(4).map(Seconds::as_nanos), Some(10_000_000));
        assert_eq!((apart.tpot(1), apart.tpot(0)), (None, None));
        let together = times(Some(30), Some(30));
        assert_eq!((together.tpot(4), times(None, Some(30)).tpot(4)), (None, None));
        assert!(apart.is_short(Some(1)) && together.is_short(Some(4)) && together.is_short(None));
        assert!(!apart.is_short(Some(4)) && !apart.is_short(None) && !times(None, Some(30)).is_short(Some(1)));
    }
}
