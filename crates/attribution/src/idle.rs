//! Computes idle power at any time from measurements before and after the requests.

use ergometer_telemetry::{DeviceId, EnergyMeter, Scope};
use ergometer_units::{Seconds, Timestamp, Watts, Window};

/// The idle power of one device and scope, interpolated linearly between measurements.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct IdlePower {
    rests: Vec<IdleMeasurement>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct IdleMeasurement {
    middle: Timestamp,
    power: Watts,
    /// Half the width of its 95 % interval.
    margin: Watts,
}

impl IdlePower {
    /// Computes the idle power in the idle windows of a session.
    #[must_use]
    pub fn new(meter: &EnergyMeter, rests: &[Window], device: DeviceId, scope: Scope) -> Self {
        let rest = |&window: &Window| {
            let devices = meter.energy(window).devices;
            let found = devices.into_iter().find(|energy| (energy.device, energy.scope) == (device, scope))?;
            let estimate = found.estimate.ok().filter(|_| window.length() > Seconds::ZERO)?;
            Some(IdleMeasurement {
                middle: window.start() + Seconds::new(window.length().get() / 2.0),
                power: estimate.joules / window.length(),
                margin: (estimate.high - estimate.joules) / window.length(),
            })
        };
        Self { rests: rests.iter().filter_map(rest).collect() }
    }

    /// The idle power at a time, with half the width of its interval; `None` if it was not measured.
    #[must_use]
    pub fn at(&self, time: Timestamp) -> Option<(Watts, Watts)> {
        let (first, last) = (self.rests.first()?, self.rests.last()?);
        let length = last.middle - first.middle;
        let share = if length > Seconds::ZERO { ((time - first.middle) / length).clamp(0.0, 1.0) } else { 0.0 };
        let between = |from: Watts, to: Watts| Watts::new(from.get() + (to.get() - from.get()) * share);
        Some((between(first.power, last.power), between(first.margin, last.margin)))
    }

    /// Each measured idle power, in order of time.
    pub fn powers(&self) -> impl Iterator<Item = Watts> {
        self.rests.iter().map(|rest| rest.power)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_power_is_interpolated_linearly() {
        let at = Timestamp::from_nanos_since_epoch;
        let rest =
            |time, power| IdleMeasurement { middle: at(time), power: Watts::new(power), margin: Watts::new(1.0) };
        let idle = IdlePower { rests: vec![rest(0, 80.0), rest(10, 120.0)] };
        assert_eq!(idle.at(at(5)), Some((Watts::new(100.0), Watts::new(1.0))));
        assert_eq!(idle.at(at(-5)).unwrap().0, Watts::new(80.0));
        assert_eq!(idle.at(at(50)).unwrap().0, Watts::new(120.0));
        assert_eq!(IdlePower { rests: vec![rest(0, 80.0)] }.at(at(7)).unwrap().0, Watts::new(80.0));
        assert_eq!(IdlePower::default().at(at(7)), None);
    }
}
