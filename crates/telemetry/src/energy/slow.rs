//! A power that is renewed seldom, as a battery's: what its figures say of a window, and what they cannot.
//!
//! In go the samples of a mean power, read more often than they are renewed; out come the power that was shown at each
//! time and the joules by which a window may be off. The same figure read ten times is one figure, so nothing is fitted
//! to it: the curve of such a source is what was shown. What always holds: a window's interval reaches over all energy
//! by which the figures around it differ, and that of a window shorter than a renewal over all of the renewal's energy,
//! since a mean does not say when.

use super::observations::{Observations, PowerKind, PowerSamples};

/// From this time between two renewals on, in seconds, a mean is slow: cells of the estimator are no longer.
const SLOW: f64 = 1.0;

/// The samples of a slow source.
#[derive(Debug)]
pub(super) struct SlowMean {
    samples: PowerSamples,
    /// The typical time between two renewals.
    renewal: f64,
}

impl SlowMean {
    /// The samples of a device with only a slow mean; `None` for other devices.
    pub(super) fn from_observations(observations: &Observations) -> Option<Self> {
        let samples = observations.power.as_ref().filter(|power| power.kind == PowerKind::Average)?;
        let renewal = samples.renewal.filter(|&renewal| renewal > SLOW)?;
        observations.counter.is_none().then(|| Self { samples: samples.clone(), renewal })
    }

    pub(super) fn renewal(&self) -> f64 {
        self.renewal
    }

    /// The mean of what was shown from `from` to `to`: each figure until the next.
    pub(super) fn mean(&self, from: f64, to: f64) -> f64 {
        let (stamps, watts) = (&self.samples.stamps, &self.samples.watts);
        let first = stamps.partition_point(|&at| at <= from).saturating_sub(1);
        let mut joules = 0.0;
        for place in first..stamps.len() {
            let start = if place == first { from } else { stamps[place] };
            let end = stamps.get(place + 1).map_or(to, |&next| next.min(to));
            joules += watts[place] * (end - start).max(0.0);
            if end >= to {
                break;
            }
        }
        joules / (to - from)
    }

    /// The joules by which the energy of a window may be off, with `joules` in it. A figure is about the time up to two
    /// renewals before it was read: what differs between those around an edge may lie on either side of it.
    pub(super) fn doubt(&self, from: f64, to: f64, joules: f64) -> f64 {
        let reach = 2.0 * self.renewal;
        let around = |edge: f64| {
            let shown = self.samples.shown(edge - reach, edge + reach);
            let (lowest, highest) = shown
                .iter()
                .fold((f64::INFINITY, 0.0_f64), |(lowest, highest), &watts| (watts.min(lowest), watts.max(highest)));
            self.renewal * (highest - lowest).max(0.0)
        };
        if to - from < self.renewal {
            // Both edges are in one renewal, and so is what may be in the window or not.
            return around(from).max(around(to)) + joules * (self.renewal / (to - from) - 1.0);
        }
        around(from) + around(to)
    }
}

/// The time between two renewals as it shows: that between changes of the figure. Where it changed less than three times,
/// the figures last as long as they were seen to.
pub(super) fn seen_renewal(stamps: &[f64], watts: &[f64]) -> Option<f64> {
    let changes: Vec<f64> =
        (1..stamps.len()).filter(|&place| watts[place] != watts[place - 1]).map(|place| stamps[place]).collect();
    if changes.len() > 2 {
        return super::observations::upper_median(changes.windows(2).map(|pair| pair[1] - pair[0]));
    }
    Some((stamps.last()? - stamps.first()?) / (changes.len() + 1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(watts: &[f64]) -> PowerSamples {
        let stamps: Vec<f64> = (0..watts.len()).map(|place| place as f64).collect();
        let renewal = seen_renewal(&stamps, watts);
        PowerSamples { renewal, ..PowerSamples::new(PowerKind::Average, stamps, watts.to_vec()).unwrap() }
    }

    #[test]
    fn renewals_are_changes_of_the_figure() {
        let every_four: Vec<f64> = (0..40).map(|second| f64::from(second / 4)).collect();
        assert_eq!(samples(&every_four).renewal, Some(4.0));
        assert_eq!(samples(&[8.0; 21]).renewal, Some(20.0), "as long as it was seen");
    }

    #[test]
    fn the_mean_is_of_what_was_shown_and_goes_on_at_the_ends() {
        let slow = SlowMean { samples: samples(&[8.0, 8.0, 8.0, 20.0, 20.0, 20.0]), renewal: 3.0 };
        assert_eq!(slow.mean(1.0, 2.0), 8.0);
        assert_eq!(slow.mean(2.0, 4.0), 14.0);
        assert_eq!(slow.mean(-2.0, -1.0), 8.0);
        assert_eq!(slow.mean(4.5, 9.0), 20.0);
    }

    #[test]
    fn only_a_slow_mean_that_is_alone_is_one() {
        let power = |watts: &[f64]| Observations { power: Some(samples(watts)), counter: None };
        assert!(SlowMean::from_observations(&power(&[8.0; 21])).is_some());
        assert!(SlowMean::from_observations(&power(&[8.0, 8.1, 8.2, 8.0, 8.1])).is_none(), "new at every read");
        let mut instant = power(&[8.0; 21]);
        instant.power.as_mut().unwrap().kind = PowerKind::Instant;
        assert!(SlowMean::from_observations(&instant).is_none());
    }
}
