//! Names and orders the runs of a sweep.

use super::PlanError;
use crate::config::{Axis, Schedule};

/// The label of a point: `concurrency 16`, `rate 2.5`.
#[must_use]
pub fn label(schedule: &Schedule) -> String {
    format!("{} {}", Axis::from_schedule(schedule), Axis::value(schedule))
}

/// The folder of a run inside the folder of its sweep: `concurrency_16`, `rate_2.5`, or `concurrency_16_repeat_2` if
/// points are repeated. Repeats count from 1.
#[must_use]
pub fn run_name(schedule: &Schedule, repeat: u32, repeats: u32) -> String {
    let point = format!("{}_{}", Axis::from_schedule(schedule), Axis::value(schedule));
    if repeats > 1 { format!("{point}_repeat_{repeat}") } else { point }
}

/// Checks that all points are on one axis and different.
pub fn check(schedules: &[Schedule]) -> Result<Axis, PlanError> {
    let Some(first) = schedules.first() else { return Err(PlanError::NoPoint) };
    let axis = Axis::from_schedule(first);
    for (place, schedule) in schedules.iter().enumerate() {
        if Axis::from_schedule(schedule) != axis {
            return Err(PlanError::TwoAxes { one: label(first), other: label(schedule) });
        }
        if schedules[..place].iter().any(|other| Axis::value(other) == Axis::value(schedule)) {
            return Err(PlanError::Twice { point: label(schedule) });
        }
    }
    Ok(axis)
}

/// The order in which runs are made, as indices of points and of runs in them: one repeat of every point after the other,
/// so that a machine that warms up, or a server that slows down, affects all points equally.
pub(super) fn order(points: usize, repeats: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..repeats).flat_map(move |repeat| (0..points).map(move |point| (point, repeat)))
}

#[cfg(test)]
mod tests {
    use ergometer_diagnostics::Diagnostic;

    use super::*;
    use crate::config::Arrivals;

    const fn concurrency(concurrency: u32) -> Schedule {
        Schedule::Concurrency { concurrency }
    }

    const fn rate(rate: f64) -> Schedule {
        Schedule::Rate { rate, arrivals: Arrivals::Poisson }
    }

    #[test]
    fn runs_are_named_after_their_point() {
        assert_eq!(run_name(&concurrency(16), 1, 1), "concurrency_16");
        assert_eq!(run_name(&concurrency(16), 2, 3), "concurrency_16_repeat_2");
        assert_eq!(run_name(&rate(2.5), 1, 1), "rate_2.5");
        assert_eq!(run_name(&rate(1.0), 1, 2), "rate_1_repeat_1");
        assert_eq!(run_name(&Schedule::Replay { speed: 2.0 }, 1, 1), "replay_2");
        assert_eq!((label(&concurrency(4)), label(&rate(0.0001))), ("concurrency 4".into(), "rate 0.0001".into()));
    }

    #[test]
    fn a_sweep_has_one_axis_and_no_point_twice() {
        assert_eq!(check(&[concurrency(1), concurrency(4)]).unwrap(), Axis::Concurrency);
        assert!(matches!(check(&[]), Err(PlanError::NoPoint)));
        let twice = check(&[rate(1.0), rate(2.0), rate(1.0)]).unwrap_err();
        assert!(twice.to_string().contains("rate 1 ") && twice.hint().is_some(), "{twice}");
        assert!(matches!(check(&[rate(1.0), concurrency(1)]), Err(PlanError::TwoAxes { .. })));
    }

    #[test]
    fn all_points_run_once_before_the_next_repeat() {
        assert_eq!(order(2, 2).collect::<Vec<_>>(), [(0, 0), (1, 0), (0, 1), (1, 1)]);
    }
}
