//! Counts the energy of every channel since the start, incrementally.
//!
//! The energy is provisional: counter differences and summed power, without an interval. Each reading is counted once,
//! so the cost does not grow with time, and the timeline may drop readings that were counted.

use std::collections::BTreeMap;

use ergometer_telemetry::{
    ChannelId, Counter, CounterLimits, DeviceId, DeviceKind, MeteredScope, Point, Provenance, Scope, Signal, Timeline,
};
use ergometer_units::{Joules, Seconds, Watts, Window};

/// The energy of each channel of energy or power.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    accounts: BTreeMap<ChannelId, Account>,
}

#[derive(Debug)]
struct Account {
    last: Option<Point>,
    counter: Option<Counter>,
    joules: Joules,
    /// The energy at the last reset.
    base: Joules,
    steps: u64,
}

impl Ledger {
    /// Counts the readings since the last update.
    pub(crate) fn update(&mut self, timeline: &Timeline) {
        for (id, channel) in timeline.channels().filter(|(_, channel)| channel.provenance != Provenance::Gauge) {
            let account = self.accounts.entry(id).or_insert_with(|| Account::new(channel.signal, channel.scope));
            let column = timeline.column(id);
            let Some(end) = column.last() else { continue };
            match account.last {
                None => column.readings().points().for_each(|point| account.take(point)),
                Some(last) if last.at < end.at => {
                    let Ok(window) = Window::new(last.at, end.at) else { continue };
                    let new = column.within(window).points().chain([end]).filter(|point| point.at > last.at);
                    new.for_each(|point| account.take(point));
                }
                Some(_) => {}
            }
        }
    }

    /// Resets the energy of every channel to zero.
    pub(crate) fn reset(&mut self) {
        self.accounts.values_mut().for_each(|account| account.base = account.joules);
    }

    /// The energy of a device and scope, from the best of its channels with readings.
    pub(crate) fn energy(&self, timeline: &Timeline, device: DeviceId, scope: Scope) -> Option<(Signal, Joules)> {
        let signals =
            [Signal::Energy, Signal::PowerRing, Signal::PowerInstant, Signal::PowerAverage, Signal::PowerModelled];
        signals.into_iter().find_map(|signal| {
            let account = self.accounts.get(&timeline.find(device, scope, signal)?)?;
            (account.steps > 0).then(|| (signal, account.joules - account.base))
        })
    }

    /// The energy of the CPU packages: measured or, if not measured, modelled.
    pub(crate) fn cpu_energy(&self, timeline: &Timeline) -> Option<Joules> {
        let parts = MeteredScope::all(timeline);
        let cpu_parts = || parts.iter().filter(|part| part.device.kind == DeviceKind::Cpu);
        let is_measured = cpu_parts().any(|part| part.summed);
        let counted = cpu_parts().filter(|part| part.summed || !is_measured);
        counted
            .filter_map(|part| Some(self.energy(timeline, part.device, part.scope)?.1))
            .reduce(|one, other| one + other)
    }
}

impl Account {
    fn new(signal: Signal, scope: Scope) -> Self {
        let limits = CounterLimits {
            unit: Joules::from_micros(1.0),
            range: None,
            bound: scope.power_bound(),
            update_period: Seconds::ZERO,
        };
        let counter = (signal == Signal::Energy).then(|| Counter::new(limits));
        Self { last: None, counter, joules: Joules::ZERO, base: Joules::ZERO, steps: 0 }
    }

    /// Adds a reading: the step of a counter, or power times the time since the last reading.
    fn take(&mut self, point: Point) {
        if let Some(counter) = &mut self.counter {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count saturates")]
            counter.update(point.at, (point.value * 1e6).round() as u64);
            self.joules = counter.total();
            // Energy from before the first reading does not count.
            if self.last.is_none() {
                self.base = self.joules;
            }
        } else if let Some(last) = self.last {
            self.joules += Watts::new(point.value) * (point.at - last.at);
        }
        self.steps += u64::from(self.last.is_some());
        self.last = Some(point);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ergometer_telemetry::{Batch, Channel, SensorInfo, SensorKey};
    use ergometer_units::Timestamp;

    use super::*;

    const DEVICE: DeviceId = DeviceId::gpu(0);

    fn timeline(signal: Signal, provenance: Provenance) -> (Timeline, SensorKey) {
        let mut timeline = Timeline::default();
        let channel = Channel { device: DEVICE, scope: Scope::Device, signal, provenance, update_period: None };
        let interval = Duration::from_millis(100);
        let info = SensorInfo { id: String::from("a"), name: String::from("a"), device: DEVICE, interval };
        let key = timeline.add_sensor(&info, &[channel]);
        (timeline, key)
    }

    fn read(timeline: &mut Timeline, key: SensorKey, rows: &[(i64, f64)]) {
        let mut batch = Batch::default();
        for &(second, value) in rows {
            batch.push(0, Timestamp::from_nanos_since_epoch(second * 1_000_000_000), value);
        }
        timeline.append(key, &batch);
    }

    fn joules(ledger: &Ledger, timeline: &Timeline) -> Option<f64> {
        ledger.energy(timeline, DEVICE, Scope::Device).map(|(_, joules)| (joules.get() * 1e6).round() / 1e6)
    }

    #[test]
    fn a_counter_counts_from_the_first_reading_and_through_a_reset() {
        let (mut timeline, key) = timeline(Signal::Energy, Provenance::Counter);
        let mut ledger = Ledger::default();
        read(&mut timeline, key, &[(1, 22_954.0)]);
        ledger.update(&timeline);
        assert_eq!(joules(&ledger, &timeline), None, "energy from before the start does not count");
        read(&mut timeline, key, &[(2, 23_054.0), (3, 10.0), (4, 60.0)]);
        ledger.update(&timeline);
        let counted = joules(&ledger, &timeline).unwrap();
        assert!((150.0..=160.0).contains(&counted), "{counted}: the energy around the reset is unknown");
    }

    #[test]
    fn each_reading_is_counted_once_even_if_old_readings_are_dropped() {
        let (mut timeline, key) = timeline(Signal::PowerInstant, Provenance::SampledPower);
        let mut ledger = Ledger::default();
        read(&mut timeline, key, &[(1, 100.0), (2, 50.0), (4, 10.0)]);
        ledger.update(&timeline);
        ledger.update(&timeline);
        assert_eq!(joules(&ledger, &timeline), Some(70.0));
        timeline.forget_before(Timestamp::from_nanos_since_epoch(100_000_000_000));
        read(&mut timeline, key, &[(5, 30.0)]);
        ledger.update(&timeline);
        assert_eq!(joules(&ledger, &timeline), Some(100.0));
        ledger.reset();
        assert_eq!(joules(&ledger, &timeline), Some(0.0));
    }
}
