//! Computes the Pareto front of points with several objectives.
//!
//! A point dominates another if it is at least as good in every objective and better in one. Equal points do not
//! dominate each other, so either all or none of them are on the front.

use std::cmp::Ordering;

/// The direction of an objective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aim {
    /// Higher values are better.
    Higher,
    /// Lower values are better.
    Lower,
}

/// For each point, the indices of the points that dominate it; empty for a point on the front.
///
/// A point with a NaN, or with fewer values than objectives, is not compared, and has `None`.
///
/// ```
/// # use ergometer_statistics::{Aim, pareto_front};
/// // Accuracy and joules.
/// let front = pareto_front(&[&[0.8, 1.0], &[0.9, 5.0], &[0.7, 2.0]], &[Aim::Higher, Aim::Lower]);
/// assert_eq!(front, [Some(vec![]), Some(vec![]), Some(vec![0])]);
/// ```
#[must_use]
pub fn pareto_front(points: &[&[f64]], aims: &[Aim]) -> Vec<Option<Vec<usize>>> {
    let is_usable =
        |point: &[f64]| point.len() >= aims.len() && !point.iter().take(aims.len()).any(|value| value.is_nan());
    let dominators = |target: &[f64]| {
        let others = points.iter().enumerate().filter(|(_, point)| is_usable(point));
        others.filter(|(_, point)| dominates(point, target, aims)).map(|(index, _)| index).collect()
    };
    points.iter().map(|point| is_usable(point).then(|| dominators(point))).collect()
}

fn dominates(one: &[f64], other: &[f64], aims: &[Aim]) -> bool {
    let compared = one.iter().zip(other).zip(aims).map(|((one, other), aim)| match aim {
        Aim::Higher => one.total_cmp(other),
        Aim::Lower => other.total_cmp(one),
    });
    let mut is_better = false;
    for order in compared {
        match order {
            Ordering::Less => return false,
            Ordering::Greater => is_better = true,
            Ordering::Equal => {}
        }
    }
    is_better
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AIMS: [Aim; 3] = [Aim::Higher, Aim::Lower, Aim::Lower];

    #[test]
    fn ties_and_missing_values() {
        let points: [&[f64]; 4] = [&[1.0, 2.0, 2.0], &[1.0, 2.0, 2.0], &[f64::NAN, 0.0, 0.0], &[1.0]];
        assert_eq!(pareto_front(&points, &AIMS), [Some(vec![]), Some(vec![]), None, None]);
        assert!(pareto_front(&[], &AIMS).is_empty());
        assert_eq!(pareto_front(&[&[1.0], &[2.0]], &[]), [Some(vec![]), Some(vec![])], "without an aim none is better");
    }

    proptest! {
        #[test]
        fn every_point_off_the_front_is_dominated_by_one_on_it(
            points in prop::collection::vec(prop::array::uniform3(0_u8..6), 0..40))
        {
            let points: Vec<Vec<f64>> = points.iter().map(|point| point.map(f64::from).to_vec()).collect();
            let points: Vec<&[f64]> = points.iter().map(Vec::as_slice).collect();
            let front = pareto_front(&points, &AIMS);
            let is_member = |index: usize| front[index].as_ref().is_some_and(Vec::is_empty);
            for (index, dominators) in front.iter().enumerate() {
                let dominators = dominators.as_ref().unwrap();
                for &other in dominators {
                    prop_assert!(points[other][0] >= points[index][0] && points[other][1] <= points[index][1]);
                    prop_assert!(points[other] != points[index]);
                }
                prop_assert!(is_member(index) || dominators.iter().any(|&other| is_member(other)));
            }
            prop_assert!(points.is_empty() || (0..points.len()).any(is_member));
        }
    }
}
