//! Mean power that is updated slowly, for example that of a battery.
//!
//! The input is samples of a mean power that is read more often than it is updated. The output is the power at each
//! time and the possible error of a window in joules. Repeated reads of one value are not independent samples, so
//! nothing is fitted: the curve of such a source is the last value read. The interval of a window always covers the
//! energy by which the values around its edges differ. If the window is shorter than an update period, its interval
//! covers all energy of the period, because a mean does not show when the energy was used.

use super::observations::{Observations, PowerKind, PowerSamples};

/// A mean with a longer update period than this, in seconds, is slow. Cells of the estimator are at most this long.
const SLOW: f64 = 1.0;

/// The samples of a slowly updated mean.
#[derive(Debug)]
pub(super) struct SlowMean {
    samples: PowerSamples,
    /// The typical time between two updates, in seconds.
    update_period: f64,
}

impl SlowMean {
    /// The samples of a device whose only sensor is a slow mean; `None` for other devices.
    pub(super) fn from_observations(observations: &Observations) -> Option<Self> {
        let samples = observations.power.as_ref().filter(|power| power.kind == PowerKind::Average)?;
        let update_period = samples.update_period.filter(|&period| period > SLOW)?;
        observations.counter.is_none().then(|| Self { samples: samples.clone(), update_period })
    }

    pub(super) fn update_period(&self) -> f64 {
        self.update_period
    }

    /// The mean power from `from` to `to`; each value holds until the next sample.
    pub(super) fn mean(&self, from: f64, to: f64) -> f64 {
        let (stamps, watts) = (&self.samples.stamps, &self.samples.watts);
        let first = stamps.partition_point(|&at| at <= from).saturating_sub(1);
        let mut joules = 0.0;
        for sample in first..stamps.len() {
            let start = if sample == first { from } else { stamps[sample] };
            let end = stamps.get(sample + 1).map_or(to, |&next| next.min(to));
            joules += watts[sample] * (end - start).max(0.0);
            if end >= to {
                break;
            }
        }
        joules / (to - from)
    }

    /// The possible error in joules of a window with an energy of `joules`. A value covers the time up to two update
    /// periods before the read, so the difference of the values around an edge may lie on either side of it.
    pub(super) fn error(&self, from: f64, to: f64, joules: f64) -> f64 {
        let reach = 2.0 * self.update_period;
        let around = |edge: f64| {
            let values = self.samples.watts_between(edge - reach, edge + reach);
            let (lowest, highest) = values
                .iter()
                .fold((f64::INFINITY, 0.0_f64), |(lowest, highest), &watts| (watts.min(lowest), watts.max(highest)));
            self.update_period * (highest - lowest).max(0.0)
        };
        if to - from < self.update_period {
            // Both edges are in one update period, and all of its energy may be in the window.
            return around(from).max(around(to)) + joules * (self.update_period / (to - from) - 1.0);
        }
        around(from) + around(to)
    }
}

/// Estimates the update period from the changes of the value: the median time between changes, or with fewer than three
/// changes the recorded time divided by the number of distinct values in sequence.
pub(super) fn observed_update_period(stamps: &[f64], watts: &[f64]) -> Option<f64> {
    let changes: Vec<f64> =
        (1..stamps.len()).filter(|&sample| watts[sample] != watts[sample - 1]).map(|sample| stamps[sample]).collect();
    if changes.len() > 2 {
        return super::observations::upper_median(changes.windows(2).map(|pair| pair[1] - pair[0]));
    }
    Some((stamps.last()? - stamps.first()?) / (changes.len() + 1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(watts: &[f64]) -> PowerSamples {
        let stamps: Vec<f64> = (0..watts.len()).map(|second| second as f64).collect();
        let update_period = observed_update_period(&stamps, watts);
        PowerSamples { update_period, ..PowerSamples::new(PowerKind::Average, stamps, watts.to_vec()).unwrap() }
    }

    #[test]
    fn the_update_period_is_the_time_between_changes() {
        let every_four: Vec<f64> = (0..40).map(|second| f64::from(second / 4)).collect();
        assert_eq!(samples(&every_four).update_period, Some(4.0));
        assert_eq!(samples(&[8.0; 21]).update_period, Some(20.0), "the whole recording");
    }

    #[test]
    fn the_first_and_last_values_extend_beyond_the_samples() {
        let slow = SlowMean { samples: samples(&[8.0, 8.0, 8.0, 20.0, 20.0, 20.0]), update_period: 3.0 };
        assert_eq!(slow.mean(1.0, 2.0), 8.0);
        assert_eq!(slow.mean(2.0, 4.0), 14.0);
        assert_eq!(slow.mean(-2.0, -1.0), 8.0);
        assert_eq!(slow.mean(4.5, 9.0), 20.0);
    }

    #[test]
    fn a_fast_mean_or_an_instant_power_is_not_slow() {
        let power = |watts: &[f64]| Observations { power: Some(samples(watts)), counter: None };
        assert!(SlowMean::from_observations(&power(&[8.0; 21])).is_some());
        assert!(SlowMean::from_observations(&power(&[8.0, 8.1, 8.2, 8.0, 8.1])).is_none(), "updated at every read");
        let mut instant = power(&[8.0; 21]);
        instant.power.as_mut().unwrap().kind = PowerKind::Instant;
        assert!(SlowMean::from_observations(&instant).is_none());
    }
}
