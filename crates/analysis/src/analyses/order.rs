//! Sorts queries by sending time, so that overlapping requests are neighbours. Block bootstraps need this order.

use ergometer_units::Timestamp;

use ergometer_runs::saved::Query;

/// The sort key: session, sending time, request number.
pub(super) fn sending_order(session: u32, sent: Option<Timestamp>, request: u64) -> (u32, Option<Timestamp>, u64) {
    (session, sent, request)
}

/// Queries sorted by sending time.
pub(super) fn in_sending_order<'a>(queries: impl Iterator<Item = &'a Query>) -> Vec<&'a Query> {
    let mut queries: Vec<&Query> = queries.collect();
    queries.sort_by_key(|query| sending_order(query.session, query.sent, query.request));
    queries
}

#[cfg(test)]
mod tests {
    use super::super::example::{at, query};
    use super::*;

    #[test]
    fn queries_are_sorted_by_session_then_time_then_number() {
        let of = |session, seconds, request| Query { session, sent: Some(at(seconds)), request, ..query(0) };
        let queries = [of(1, 0.0, 0), of(0, 2.0, 1), of(0, 1.0, 3), of(0, 1.0, 2)];
        let order: Vec<u64> = in_sending_order(queries.iter()).iter().map(|query| query.request).collect();
        assert_eq!(order, [2, 3, 1, 0]);
    }
}
