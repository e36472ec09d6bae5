//! The order of sending, in which requests that ran together are neighbours: what is drawn in blocks is put into it first.

use ergometer_units::Timestamp;

use ergometer_runs::saved::Query;

/// What comes before what: a session after another, in it by the time of sending, and by number where that is the same.
pub(super) fn of_sending(session: u32, sent: Option<Timestamp>, request: u64) -> (u32, Option<Timestamp>, u64) {
    (session, sent, request)
}

/// Queries in the order they were sent.
pub(super) fn in_order_of_sending<'a>(queries: impl Iterator<Item = &'a Query>) -> Vec<&'a Query> {
    let mut queries: Vec<&Query> = queries.collect();
    queries.sort_by_key(|query| of_sending(query.session, query.sent, query.request));
    queries
}

#[cfg(test)]
mod tests {
    use super::super::example::{at, query};
    use super::*;

    #[test]
    fn sessions_come_first_and_numbers_last() {
        let of = |session, seconds, request| Query { session, sent: Some(at(seconds)), request, ..query(0) };
        let queries = [of(1, 0.0, 0), of(0, 2.0, 1), of(0, 1.0, 3), of(0, 1.0, 2)];
        let order: Vec<u64> = in_order_of_sending(queries.iter()).iter().map(|query| query.request).collect();
        assert_eq!(order, [2, 3, 1, 0]);
    }
}
