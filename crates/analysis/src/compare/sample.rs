//! Pairs the queries of two runs for resampling, and splits a run into time slices.

use std::collections::HashMap;

use ergometer_statistics::{MINIMUM_BLOCKS, Pairing, block_for};

use super::row::Method;
use ergometer_runs::saved::{Query, Run};

/// The queries of two runs, for resampling.
#[derive(Debug)]
pub(super) struct Samples<'a> {
    pub(super) first: Vec<&'a Query>,
    pub(super) second: Vec<&'a Query>,
    pub(super) pairing: Pairing,
}

impl<'a> Samples<'a> {
    /// Pairs queries by dataset row if both runs have the same dataset.
    pub(super) fn from_runs(first: &'a Run, second: &'a Run) -> Self {
        let (one, two) = (sent(first), sent(second));
        let dataset = |run: &'a Run| &run.summary.dataset_fingerprint;
        if !dataset(first).is_empty() && dataset(first) == dataset(second) {
            let (one, two) = matched(&one, &two);
            let block = block_for(one.len(), first.block().max(second.block()));
            // Both runs use the longer block size; with few queries there are too few blocks.
            if one.len() / block >= MINIMUM_BLOCKS {
                return Self { first: one, second: two, pairing: Pairing::Paired { block } };
            }
        }
        let pairing = Pairing::Independent {
            first: block_for(one.len(), first.block()),
            second: block_for(two.len(), second.block()),
        };
        Self { first: one, second: two, pairing }
    }

    pub(super) fn is_paired(&self) -> bool {
        matches!(self.pairing, Pairing::Paired { .. })
    }

    pub(super) fn method(&self) -> Method {
        if self.is_paired() { Method::Paired } else { Method::Apart }
    }
}

/// The queries of a run in sending order.
fn sent(run: &Run) -> Vec<&Query> {
    let mut queries: Vec<&Query> = run.queries.iter().collect();
    queries.sort_by_key(|query| (query.sent, query.request));
    queries
}

/// The queries that are in both runs, in the order of the first run. If a query was sent several times, the n-th time is
/// paired with the n-th.
fn matched<'a>(first: &[&'a Query], second: &[&'a Query]) -> (Vec<&'a Query>, Vec<&'a Query>) {
    let mut places: HashMap<(u64, u32), &'a Query> = HashMap::with_capacity(second.len());
    for (key, query) in numbered(second) {
        places.insert(key, query);
    }
    numbered(first).filter_map(|(key, query)| Some((query, *places.get(&key)?))).unzip()
}

fn numbered<'a, 'b>(queries: &'b [&'a Query]) -> impl Iterator<Item = ((u64, u32), &'a Query)> + use<'a, 'b> {
    let mut times: HashMap<u64, u32> = HashMap::with_capacity(queries.len());
    queries.iter().map(move |query| {
        let time = times.entry(query.index).or_default();
        *time += 1;
        ((query.index, *time), *query)
    })
}

/// Maps timestamps to seconds of the run, with sessions end to end.
struct Clock {
    /// By session: start in nanoseconds, and seconds of all earlier sessions.
    sessions: HashMap<u32, (i64, f64)>,
    seconds: f64,
}

impl Clock {
    fn from_run(run: &Run) -> Self {
        let mut spans: HashMap<u32, (i64, i64)> = HashMap::new();
        for query in &run.queries {
            let Some((sent, end)) = query.sent.zip(query.end) else { continue };
            let (sent, end) = (sent.nanos_since_epoch(), end.nanos_since_epoch());
            let span = spans.entry(query.session).or_insert((sent, end));
            *span = (span.0.min(sent), span.1.max(end));
        }
        let mut order: Vec<(u32, (i64, i64))> = spans.into_iter().collect();
        order.sort_unstable();
        let (mut seconds, mut sessions) = (0.0, HashMap::new());
        for (session, (start, end)) in order {
            sessions.insert(session, (start, seconds));
            seconds += (end - start) as f64 / 1e9;
        }
        Self { sessions, seconds }
    }

    fn span(&self, query: &Query) -> Option<(f64, f64)> {
        let (start, before) = self.sessions.get(&query.session)?;
        let at = |time: ergometer_units::Timestamp| before + (time.nanos_since_epoch() - start) as f64 / 1e9;
        Some((at(query.sent?), at(query.end?)))
    }
}

/// The duration of all sessions of a run in seconds.
pub(super) fn seconds(run: &Run) -> Option<f64> {
    let seconds = Clock::from_run(run).seconds;
    (seconds > 0.0).then_some(seconds)
}

/// Splits a run into equal time slices: (amount, seconds) of each. A request counts in each slice by the share of its time
/// inside the slice. Slices are twice as long as the mean request, so that neighbours are nearly independent. There are at
/// most 1,000 slices.
pub(super) fn slices(run: &Run, amount: fn(&Query) -> Option<f64>) -> Vec<(f64, f64)> {
    let clock = Clock::from_run(run);
    let spans: Vec<(f64, f64, f64)> = run
        .queries
        .iter()
        .filter_map(|query| Some((clock.span(query)?, amount(query)?)))
        .map(|((start, end), amount)| (start, end, amount))
        .collect();
    let mean = spans.iter().map(|(start, end, _)| end - start).sum::<f64>() / spans.len().max(1) as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 1,000")]
    let count = (clock.seconds / (2.0 * mean)).clamp(0.0, 1000.0) as usize;
    if count == 0 {
        return Vec::new();
    }
    let length = clock.seconds / count as f64;
    let mut slices = vec![(0.0, length); count];
    for (start, end, amount) in spans {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place among the slices")]
        let place = |at: f64| ((at / length) as usize).min(count - 1);
        let whole = end - start;
        let (first, last) = (place(start), place(end));
        for (slice, sum) in slices.iter_mut().enumerate().take(last + 1).skip(first) {
            let from = slice as f64 * length;
            let inside = end.min(from + length) - start.max(from);
            let share =
                if whole > 0.0 { (inside / whole).clamp(0.0, 1.0) } else { f64::from(u8::from(slice == first)) };
            sum.0 += amount * share;
        }
    }
    slices
}

#[cfg(test)]
mod tests {
    use super::*;
    use ergometer_units::Timestamp;

    fn query(index: u64, sent_ms: i64, end_ms: i64) -> Query {
        let at = |ms: i64| Some(Timestamp::from_nanos_since_epoch(ms * 1_000_000));
        Query { index, request: index, sent: at(sent_ms), end: at(end_ms), ..Query::default() }
    }

    fn run(queries: Vec<Query>, fingerprint: &str) -> Run {
        Run {
            folder: std::path::PathBuf::from("run"),
            summary: ergometer_runs::testing::summary(serde_json::json!({"dataset_fingerprint": fingerprint})),
            queries,
            subjects: Vec::new(),
            energy: None,
            not_finite: 0,
        }
    }

    #[test]
    fn queries_are_paired_by_their_index_in_the_dataset() {
        let first = run((0..20).map(|index| query(index, 100 * (20 - index.cast_signed()), 5000)).collect(), "a");
        let second = run((5..30).map(|index| query(index, 100 * index.cast_signed(), 5000)).collect(), "a");
        let samples = Samples::from_runs(&first, &second);
        assert!(samples.is_paired());
        let places = |queries: &[&Query]| queries.iter().map(|query| query.index).collect::<Vec<_>>();
        assert_eq!(places(&samples.first), (5..20).rev().collect::<Vec<_>>(), "in the sending order of the first run");
        assert_eq!(places(&samples.first), places(&samples.second));
        let other = run(second.queries.clone(), "b");
        let apart = Samples::from_runs(&first, &other);
        assert_eq!((apart.is_paired(), apart.first.len(), apart.second.len()), (false, 20, 25));
    }

    #[test]
    fn a_query_that_was_sent_twice_has_two_pairs() {
        let twice = |from: i64| {
            let queries = (0..10).flat_map(|index| [query(index, from + 10, 50), query(index, from, 40)]);
            run(queries.collect(), "a")
        };
        let (first, second) = (twice(0), twice(5));
        let samples = Samples::from_runs(&first, &second);
        assert_eq!(samples.first.len(), 20);
        for (one, two) in samples.first.iter().zip(&samples.second) {
            assert_eq!((one.index, one.end), (two.index, two.end), "the first request is paired with the first");
        }
    }

    #[test]
    fn slices_hold_all_of_the_run_and_skip_the_time_between_sessions() {
        let mut queries: Vec<Query> =
            (0..100).map(|index| query(index, 10 * index.cast_signed(), 10 * index.cast_signed() + 10)).collect();
        queries.extend((100..200_u64).map(|index| {
            let start = 1_000_000 + 10 * index.cast_signed();
            Query { session: 1, ..query(index, start, start + 10) }
        }));
        let run = run(queries, "a");
        assert!((seconds(&run).unwrap() - 2.0).abs() < 1e-9);
        let found = slices(&run, |_| Some(1.0));
        assert!((99..=100).contains(&found.len()), "{}", found.len());
        assert!((found.iter().map(|slice| slice.0).sum::<f64>() - 200.0).abs() < 1e-6);
        assert!((found.iter().map(|slice| slice.1).sum::<f64>() - 2.0).abs() < 1e-9);
        let rates = found.iter().map(|slice| slice.0 / slice.1);
        assert!(rates.clone().all(|rate| (rate - 100.0).abs() < 1e-6), "{:?}", rates.collect::<Vec<_>>());
    }
}
