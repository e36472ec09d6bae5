//! The latency formulas that every table and file uses.

use ergometer_units::{Seconds, Timestamp};

/// Time per output token: (last token - first token) / (output tokens - 1).
///
/// `None` below two tokens, and if the first and the last token arrived together: the answer was not streamed, or a busy
/// client read all chunks at once, so the time between tokens is unknown.
///
/// ```
/// use ergometer_runs::tpot;
/// use ergometer_units::Timestamp;
///
/// let at = Timestamp::from_nanos_since_epoch;
/// assert_eq!(tpot(at(0), at(30_000_000), 4).map(|tpot| tpot.as_nanos()), Some(10_000_000));
/// assert_eq!((tpot(at(0), at(30), 1), tpot(at(30), at(30), 4)), (None, None));
/// ```
#[must_use]
pub fn tpot(first_token: Timestamp, last_token: Timestamp, output_tokens: u64) -> Option<Seconds> {
    let gaps = output_tokens.checked_sub(1).filter(|&gaps| gaps > 0)?;
    (last_token > first_token).then(|| (last_token - first_token) / gaps as f64)
}
