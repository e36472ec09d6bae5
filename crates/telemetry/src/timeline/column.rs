//! The readings of one channel, as three columns of equal length: 20 bytes per reading, so 20 MB per million readings.
//!
//! Readings are always sorted by time; those with equal times are in order of arrival. Values are finite.

use std::ops::Range;

use ergometer_units::{Timestamp, Window};

use super::spacing::Spacing;

/// The readings of one channel for the whole run, sorted by time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Column {
    at_ns: Vec<i64>,
    early_ns: Vec<u32>,
    values: Vec<f64>,
    spacing: Spacing,
}

/// Consecutive readings of a [`Column`]: three slices of equal length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Readings<'a> {
    /// The times of the values, in nanoseconds since the epoch.
    pub at_ns: &'a [i64],
    /// How much earlier each value may have occurred, in nanoseconds.
    pub early_ns: &'a [u32],
    /// The values, in the unit of the channel's [`Signal`](crate::Signal).
    pub values: &'a [f64],
}

/// One reading of a [`Column`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The earliest possible time of the value, at most 4.29 s before `at`.
    pub after: Timestamp,
    /// The time of the value.
    pub at: Timestamp,
    /// The value, in the unit of the channel's [`Signal`](crate::Signal).
    pub value: f64,
}

impl Column {
    /// Adds a reading at its sorted position. Adding at the end is fast, and most readings arrive in order.
    pub(crate) fn push(&mut self, at_ns: i64, early_ns: u32, value: f64) {
        match self.at_ns.last() {
            Some(&last) if last > at_ns => self.insert(at_ns, early_ns, value),
            last => {
                if let Some(&last) = last {
                    self.spacing.add(at_ns.saturating_sub(last));
                }
                self.at_ns.push(at_ns);
                self.early_ns.push(early_ns);
                self.values.push(value);
            }
        }
    }

    /// Adds a reading at the end, regardless of its time. Call [`sort`](Self::sort) after the last one.
    pub(crate) fn push_unsorted(&mut self, at_ns: i64, early_ns: u32, value: f64) {
        self.at_ns.push(at_ns);
        self.early_ns.push(early_ns);
        self.values.push(value);
    }

    /// Sorts all readings. Inserting the readings of a reversed recording one by one would take quadratic time.
    pub(crate) fn sort(&mut self) {
        if !self.at_ns.is_sorted() {
            let mut order: Vec<usize> = (0..self.at_ns.len()).collect();
            order.sort_by_key(|&index| self.at_ns[index]);
            self.at_ns = order.iter().map(|&index| self.at_ns[index]).collect();
            self.early_ns = order.iter().map(|&index| self.early_ns[index]).collect();
            self.values = order.iter().map(|&index| self.values[index]).collect();
        }
        self.spacing = Spacing::default();
        for pair in self.at_ns.windows(2) {
            self.spacing.add(pair[1].saturating_sub(pair[0]));
        }
    }

    fn insert(&mut self, at_ns: i64, early_ns: u32, value: f64) {
        let index = self.at_ns.partition_point(|&at| at <= at_ns);
        let next = self.at_ns[index];
        if let Some(before) = index.checked_sub(1).map(|before| self.at_ns[before]) {
            self.spacing.remove(next.saturating_sub(before));
            self.spacing.add(at_ns.saturating_sub(before));
        }
        self.spacing.add(next.saturating_sub(at_ns));
        self.at_ns.insert(index, at_ns);
        self.early_ns.insert(index, early_ns);
        self.values.insert(index, value);
    }

    /// The readings of a window, with the reading before and the reading after it.
    pub(super) fn around(&self, window: Window) -> Self {
        let Range { start, end } = self.range(window);
        self.part(start.saturating_sub(1)..(end + 1).min(self.len()))
    }

    /// Removes readings before a time, except the last of them.
    pub(super) fn forget_before(&mut self, time: Timestamp) {
        let before = self.at_ns.partition_point(|&at| at < time.nanos_since_epoch());
        if before > 1 {
            *self = self.part(before - 1..self.len());
        }
    }

    fn part(&self, range: Range<usize>) -> Self {
        let mut part = Self {
            at_ns: self.at_ns[range.clone()].to_vec(),
            early_ns: self.early_ns[range.clone()].to_vec(),
            values: self.values[range].to_vec(),
            spacing: Spacing::default(),
        };
        part.sort();
        part
    }

    /// The number of readings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.at_ns.len()
    }

    /// Whether there are no readings.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.at_ns.is_empty()
    }

    /// All readings.
    #[must_use]
    pub fn readings(&self) -> Readings<'_> {
        self.slice(0..self.len())
    }

    /// The indices of the readings in the window. Their neighbours are at `start - 1` and `end`.
    #[must_use]
    pub fn range(&self, window: Window) -> Range<usize> {
        let index = |time: Timestamp| self.at_ns.partition_point(|&at| at < time.nanos_since_epoch());
        index(window.start())..index(window.end())
    }

    /// The readings in the window.
    #[must_use]
    pub fn within(&self, window: Window) -> Readings<'_> {
        self.slice(self.range(window))
    }

    /// The reading at an index in time order.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Point> {
        let (&at_ns, &early_ns, &value) = (self.at_ns.get(index)?, self.early_ns.get(index)?, self.values.get(index)?);
        Some(Point::new(at_ns, early_ns, value))
    }

    /// The last reading at or before a time.
    #[must_use]
    pub fn at_or_before(&self, time: Timestamp) -> Option<Point> {
        let after = self.at_ns.partition_point(|&at| at <= time.nanos_since_epoch());
        self.get(after.checked_sub(1)?)
    }

    /// The newest reading.
    #[must_use]
    pub fn last(&self) -> Option<Point> {
        self.get(self.len().checked_sub(1)?)
    }

    /// The median time between readings in nanoseconds, within 6 %.
    pub(super) fn median_spacing_ns(&self) -> Option<i64> {
        self.spacing.median_ns()
    }

    fn slice(&self, range: Range<usize>) -> Readings<'_> {
        Readings {
            at_ns: &self.at_ns[range.clone()],
            early_ns: &self.early_ns[range.clone()],
            values: &self.values[range],
        }
    }
}

impl<'a> Readings<'a> {
    /// The number of readings.
    #[must_use]
    pub fn len(self) -> usize {
        self.at_ns.len()
    }

    /// Whether there are no readings.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.at_ns.is_empty()
    }

    /// The readings, sorted by time.
    pub fn points(self) -> impl Iterator<Item = Point> + 'a {
        let rows = self.at_ns.iter().zip(self.early_ns).zip(self.values);
        rows.map(|((&at_ns, &early_ns), &value)| Point::new(at_ns, early_ns, value))
    }
}

impl Point {
    fn new(at_ns: i64, early_ns: u32, value: f64) -> Self {
        Self {
            after: Timestamp::from_nanos_since_epoch(at_ns.saturating_sub(i64::from(early_ns))),
            at: Timestamp::from_nanos_since_epoch(at_ns),
            value,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::example::window;
    use super::*;

    proptest! {
        #[test]
        fn a_lookup_equals_a_linear_scan(
            times in prop::collection::vec(0_i64..100, 0..60),
            (start, end) in (0_i64..110, 0_i64..110),
        ) {
            let mut column = Column::default();
            for (index, &time) in times.iter().enumerate() {
                column.push(time, 0, index as f64);
            }
            let window = window(start.min(end), start.max(end));
            let mut expected: Vec<_> = times.iter().enumerate().map(|(index, &time)| (time, index as f64)).collect();
            expected.sort_by_key(|&(time, _)| time);
            expected.retain(|&(time, _)| window.contains(Timestamp::from_nanos_since_epoch(time)));
            let found: Vec<_> =
                column.within(window).points().map(|point| (point.at.nanos_since_epoch(), point.value)).collect();
            prop_assert_eq!(found, expected);
            let before = times.iter().copied().filter(|&time| time <= start).max();
            let current = column.at_or_before(Timestamp::from_nanos_since_epoch(start));
            prop_assert_eq!(current.map(|point| point.at.nanos_since_epoch()), before);
        }

        #[test]
        fn the_order_of_arrival_does_not_change_the_spacing(mut times in prop::collection::vec(0_i64..1000, 0..60)) {
            let (mut mixed, mut sorted) = (Column::default(), Column::default());
            for &time in &times {
                mixed.push(time, 0, 0.0);
            }
            times.sort_unstable();
            for &time in &times {
                sorted.push(time, 0, 0.0);
            }
            prop_assert_eq!(mixed, sorted);
        }
    }

    #[test]
    fn a_late_reading_is_inserted_in_time_order() {
        let mut column = Column::default();
        for (at_ns, early_ns, value) in [(10, 1, 1.0), (30, 3, 3.0), (20, 2, 2.0)] {
            column.push(at_ns, early_ns, value);
        }
        assert_eq!(column.readings().values, [1.0, 2.0, 3.0]);
        assert_eq!(column.readings().early_ns, [1, 2, 3]);
        assert_eq!(column.get(1).map(|point| point.after.nanos_since_epoch()), Some(18));
        assert_eq!(column.last().map(|point| point.value), Some(3.0));
        assert_eq!(column.get(3), None);
    }
}
