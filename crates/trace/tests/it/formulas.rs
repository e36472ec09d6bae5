//! The formulas of METRICS.md, "Traces", as direct and slow code that compares every event with every other.

/// Start and end in picoseconds.
pub(crate) type Interval = (i64, i64);

/// The last end less the first start.
pub(crate) fn span(intervals: &[Interval]) -> i128 {
    let first = intervals.iter().map(|&(start, _)| start).min().unwrap_or(0);
    let last = intervals.iter().map(|&(_, end)| end).max().unwrap_or(0);
    i128::from(last) - i128::from(first)
}

/// The sum of durations.
pub(crate) fn total(intervals: &[Interval]) -> i128 {
    intervals.iter().map(|&(start, end)| i128::from(end) - i128::from(start)).sum()
}

/// The parts of the union, in order. Intervals that touch are joined.
pub(crate) fn union(intervals: &[Interval]) -> Vec<Interval> {
    let mut parts: Vec<Interval> = intervals.to_vec();
    // Joins two intervals that touch, until none do.
    'again: loop {
        for one in 0..parts.len() {
            for other in one + 1..parts.len() {
                let ((start, end), (other_start, other_end)) = (parts[one], parts[other]);
                if start <= other_end && other_start <= end {
                    parts[one] = (start.min(other_start), end.max(other_end));
                    parts.swap_remove(other);
                    continue 'again;
                }
            }
        }
        parts.sort_unstable();
        return parts;
    }
}

/// The length of the union.
pub(crate) fn busy(intervals: &[Interval]) -> i128 {
    total(&union(intervals))
}

/// The gaps of the union.
pub(crate) fn gaps(intervals: &[Interval]) -> Vec<Interval> {
    union(intervals).windows(2).map(|pair| (pair[0].1, pair[1].0)).collect()
}

/// The parent of each event of a line, in the order of the file.
pub(crate) fn parents(intervals: &[Interval]) -> Vec<Option<usize>> {
    let parent_of = |event: usize| {
        let (start, end) = intervals[event];
        let contains = |&other: &usize| {
            let (other_start, other_end) = intervals[other];
            let is_equal = (other_start, other_end) == (start, end);
            other != event && other_start <= start && end <= other_end && (!is_equal || other < event)
        };
        // The parent starts last, then ends first, then is later in the file.
        let rank = |&other: &usize| (intervals[other].0, std::cmp::Reverse(intervals[other].1), other);
        (0..intervals.len()).filter(contains).max_by_key(rank)
    };
    (0..intervals.len()).map(parent_of).collect()
}

/// The self time of each event of a line, in the order of the file: its duration less that of its direct children.
pub(crate) fn self_times(intervals: &[Interval]) -> Vec<i128> {
    let parents = parents(intervals);
    let own = |event: usize| {
        let is_child = |&child: &usize| parents[child] == Some(event);
        let children: Vec<Interval> = (0..intervals.len()).filter(is_child).map(|child| intervals[child]).collect();
        total(&intervals[event..=event]) - busy(&children)
    };
    (0..intervals.len()).map(own).collect()
}

#[test]
fn an_example_worked_by_hand() {
    // A call, two children that touch, a grandchild equal to its parent, a crossing event, and a separate one.
    let line = [(0, 100), (10, 30), (30, 40), (10, 30), (90, 120), (200, 210)];
    assert_eq!((span(&line), total(&line), busy(&line)), (210, 190, 130));
    assert_eq!(gaps(&line), [(120, 200)]);
    assert_eq!(parents(&line), [None, Some(0), Some(0), Some(1), None, None]);
    assert_eq!(self_times(&line), [70, 0, 10, 20, 30, 10]);
    assert_eq!((span(&[]), busy(&[]), gaps(&[]), self_times(&[])), (0, 0, vec![], vec![]));
}
