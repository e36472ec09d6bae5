//! Reads the power over time of each counted device from the telemetry of a run.

use std::collections::{BTreeMap, BTreeSet};

use crate::AnalysisError;
use crate::time_axis::TimeAxis;
use ergometer_runs::EnergySource;
use ergometer_runs::saved::{Channel, Run, Telemetry};

/// Power signals, best first: the power ring has the most readings, and an average lags.
const SIGNALS: [&str; 5] = ["power_ring", "power_instant", "power_average", "energy", "power_modelled"];

/// Seconds shown before the first and after the last request.
const AROUND_S: f64 = 1.0;

/// The power of one device over time. Gaps are NaN, so that no line is drawn across them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PowerCurve {
    /// The device, such as `gpu:0`.
    pub(crate) device: String,
    /// The signal, such as `power_ring`.
    pub(crate) signal: String,
    /// Seconds on the time axis of the run.
    pub(crate) at_s: Vec<f64>,
    /// Watts from each of these times on.
    pub(crate) watts: Vec<f64>,
}

impl PowerCurve {
    /// The power curves of a run, one per device; empty without readings.
    pub(crate) fn read_all(run: &Run, axis: &TimeAxis) -> Result<Vec<Self>, AnalysisError> {
        let telemetry = Telemetry::read(&run.folder, &SIGNALS)?;
        let mut curves: BTreeMap<(String, String), Self> = BTreeMap::new();
        for (device, scope) in counted(run) {
            let of_device = |channel: &&Channel| channel.device == device && channel.scope == scope;
            let sessions: BTreeSet<u32> =
                telemetry.channels.iter().filter(of_device).map(|found| found.session).collect();
            for session in sessions {
                // The best signal of the session, from the first sensor that has it.
                let best = SIGNALS.into_iter().find_map(|signal| {
                    telemetry.channels_with(signal).filter(of_device).find(|channel| channel.session == session)
                });
                let Some(channel) = best else { continue };
                let curve = curves.entry((device.clone(), scope.clone())).or_insert_with(|| Self {
                    device: if scope == "device" || scope == "package" {
                        device.clone()
                    } else {
                        format!("{device} {scope}")
                    },
                    signal: channel.signal.clone(),
                    at_s: Vec::new(),
                    watts: Vec::new(),
                });
                if channel.signal == "energy" {
                    curve.add_counter(channel, axis);
                } else {
                    curve.add_power(channel, axis);
                }
            }
        }
        Ok(curves.into_values().filter(|curve| !curve.at_s.is_empty()).collect())
    }

    fn add_power(&mut self, channel: &Channel, axis: &TimeAxis) {
        self.end_stretch();
        for (&at_ns, &watts) in channel.at_ns.iter().zip(&channel.values) {
            if let Some(at_s) = axis.place_near(channel.session, at_ns, AROUND_S) {
                self.at_s.push(at_s);
                self.watts.push(watts);
            }
        }
    }

    /// Adds power from an energy counter: the difference of neighbouring readings / the time between them. A counter that
    /// went backwards was reset, and the power is unknown.
    fn add_counter(&mut self, channel: &Channel, axis: &TimeAxis) {
        self.end_stretch();
        let readings: Vec<(i64, f64)> = channel.at_ns.iter().copied().zip(channel.values.iter().copied()).collect();
        for pair in readings.windows(2) {
            let ((from_ns, from_j), (to_ns, to_j)) = (pair[0], pair[1]);
            let Some(at_s) = axis.place_near(channel.session, from_ns, AROUND_S) else { continue };
            if to_ns > from_ns {
                self.at_s.push(at_s);
                let watts = (to_j - from_j) / (to_ns - from_ns) as f64 * 1e9;
                self.watts.push(if watts >= 0.0 { watts } else { f64::NAN });
            }
        }
    }

    fn end_stretch(&mut self) {
        if let Some(&last) = self.at_s.last() {
            self.at_s.push(last);
            self.watts.push(f64::NAN);
        }
    }

    /// The curve with at most `most` points: the minimum and maximum of each interval are kept, so peaks stay visible.
    pub(crate) fn thinned(mut self, most: usize) -> Self {
        let count = self.at_s.len();
        if count <= most || most < 4 {
            return self;
        }
        let length = count.div_ceil(most / 2);
        let mut kept = Vec::with_capacity(most);
        for start in (0..count).step_by(length) {
            let places = start..(start + length).min(count);
            // Gaps are kept only in intervals without other readings; otherwise they would hide a peak.
            let known: Vec<usize> = places.clone().filter(|place| !self.watts[*place].is_nan()).collect();
            let places = if known.is_empty() { places.take(1).collect() } else { known };
            let by_watts = |one: &usize, other: &usize| self.watts[*one].total_cmp(&self.watts[*other]);
            let (low, high) = (places.iter().copied().min_by(by_watts), places.iter().copied().max_by(by_watts));
            let (Some(low), Some(high)) = (low, high) else { continue };
            kept.push(low.min(high));
            if low != high {
                kept.push(low.max(high));
            }
        }
        (self.at_s, self.watts) = kept.into_iter().map(|place| (self.at_s[place], self.watts[place])).unzip();
        self
    }
}

/// The devices and scopes whose energy counts: the measured ones, or else the modelled ones.
fn counted(run: &Run) -> Vec<(String, String)> {
    let source = run.energy.unwrap_or(EnergySource::Measured);
    let devices = run.summary.energy.devices.iter().filter(|device| device.counts_for(source));
    devices.map(|device| (device.device.to_string(), device.scope.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(watts: &[f64]) -> PowerCurve {
        PowerCurve {
            device: String::from("gpu:0"),
            signal: String::from("power_ring"),
            at_s: (0..watts.len()).map(|place| place as f64).collect(),
            watts: watts.to_vec(),
        }
    }

    #[test]
    fn thinning_keeps_peaks() {
        let mut watts = vec![100.0; 10_000];
        (watts[777], watts[8_123]) = (700.0, 5.0);
        let thin = curve(&watts).thinned(100);
        assert!(thin.at_s.len() <= 100 && thin.at_s.is_sorted());
        assert!(thin.watts.contains(&700.0) && thin.watts.contains(&5.0));
        assert_eq!(curve(&watts[..50]).thinned(100), curve(&watts[..50]));
    }
}
