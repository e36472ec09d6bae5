//! Counts the requests in flight over time.
//!
//! A request that ends at the moment another starts is not in flight together with it.

use ergometer_runs::summary::InFlightSummary;
use ergometer_units::{Timestamp, Window};

/// The sorted starts and ends of requests.
#[derive(Debug, Clone, Default)]
pub(super) struct InFlight {
    starts: Vec<Timestamp>,
    ends: Vec<Timestamp>,
}

/// A change of the number in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) at: Timestamp,
    pub(super) count: u64,
}

impl InFlight {
    pub(super) fn new(spans: impl IntoIterator<Item = (Timestamp, Timestamp)>) -> Self {
        let (mut starts, mut ends): (Vec<_>, Vec<_>) = spans.into_iter().unzip();
        starts.sort_unstable();
        ends.sort_unstable();
        Self { starts, ends }
    }

    /// Every change, in the order of time.
    pub(super) fn steps(&self) -> impl Iterator<Item = Step> {
        let (mut started, mut ended) = (0, 0);
        std::iter::from_fn(move || {
            let next = [self.starts.get(started), self.ends.get(ended)].into_iter().flatten().min();
            let &at = next?;
            started += self.starts[started..].iter().take_while(|&&start| start == at).count();
            ended += self.ends[ended..].iter().take_while(|&&end| end == at).count();
            // No span ends before it starts, so there are never more ends than starts.
            Some(Step { at, count: (started - ended.min(started)) as u64 })
        })
    }

    /// From the first start to the last end.
    pub(super) fn window(&self) -> Option<Window> {
        Window::new(*self.starts.first()?, *self.ends.last()?).ok()
    }

    /// The maximum in flight.
    pub(super) fn most(&self) -> u64 {
        self.steps().map(|step| step.count).max().unwrap_or(0)
    }

    /// From when at least `count` are first in flight to when they last are; `None` if they never are.
    pub(super) fn reaches(&self, count: u64) -> Option<Window> {
        let (mut first, mut last, mut is_there) = (None, None, false);
        for step in self.steps() {
            let was_there = std::mem::replace(&mut is_there, step.count >= count);
            if is_there {
                first.get_or_insert(step.at);
            } else if was_there {
                last = Some(step.at);
            }
        }
        Window::new(first?, last?).ok()
    }

    /// The periods of equal count within a window.
    pub(super) fn stretches(&self, window: Window) -> impl Iterator<Item = (Window, u64)> {
        let mut steps = self.steps().peekable();
        std::iter::from_fn(move || {
            loop {
                let step = steps.next()?;
                let next = steps.peek().map_or(step.at, |next| next.at);
                let (from, to) = (step.at.max(window.start()), next.min(window.end()));
                if from >= window.end() {
                    return None;
                }
                if from < to {
                    return Some((Window::between(from, to), step.count));
                }
            }
        })
    }

    /// The mean and maximum over several sessions, each within its window; `None` if the windows have no length.
    pub(super) fn over<'a>(parts: impl IntoIterator<Item = (&'a Self, Window)>) -> Option<InFlightSummary> {
        let (mut area, mut length, mut max) = (0.0, 0.0, 0);
        for (in_flight, window) in parts {
            length += window.length().get();
            for (stretch, count) in in_flight.stretches(window) {
                area += stretch.length().get() * count as f64;
                max = max.max(count);
            }
        }
        (length > 0.0).then(|| InFlightSummary { mean: area / length, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_nanos_since_epoch(millis * 1_000_000)
    }

    fn in_flight(spans: &[(i64, i64)]) -> InFlight {
        InFlight::new(spans.iter().map(|&(start, end)| (at(start), at(end))))
    }

    #[test]
    fn three_spans_by_hand() {
        let found = in_flight(&[(0, 40), (10, 20), (20, 30)]);
        let steps: Vec<(i64, u64)> =
            found.steps().map(|step| (step.at.nanos_since_epoch() / 1_000_000, step.count)).collect();
        assert_eq!(steps, [(0, 1), (10, 2), (20, 2), (30, 1), (40, 0)]);
        assert_eq!(found.reaches(2), Some(Window::between(at(10), at(30))));
        assert_eq!((found.reaches(1), found.reaches(3)), (Some(Window::between(at(0), at(40))), None));
        let whole = InFlight::over([(&found, found.window().unwrap())]).unwrap();
        assert_eq!((whole.mean, whole.max, found.most()), (1.5, 2, 2));
        let part = InFlight::over([(&found, Window::between(at(25), at(45)))]).unwrap();
        assert_eq!((part.mean, part.max), (1.0, 2), "2 for 5 ms, 1 for 10 ms, none for 5 ms");
    }

    #[test]
    fn a_count_is_reached_until_the_last_time_it_is() {
        let found = in_flight(&[(0, 10), (1, 5), (20, 30), (22, 25), (40, 41)]);
        assert_eq!(found.reaches(2), Some(Window::between(at(1), at(25))));
        assert_eq!(in_flight(&[(5, 5)]).most(), 0, "a request without duration is never in flight");
        assert!(in_flight(&[]).window().is_none() && in_flight(&[]).reaches(1).is_none());
    }
}
