//! Samples the energy counters of one device, from RAPL or hwmon.
//!
//! Each sample gives one reading per counter. A CPU counter that does not move while the processors are busy is
//! reported as stuck, except the counter of the uncore, which may be idle. Counters of rails are never reported as
//! stuck. The sensor ends when its last counter is gone.

use std::io;
use std::time::{Duration, Instant};

use ergometer_diagnostics::Message;
use ergometer_telemetry::{Batch, Channel, Clock, Scope, Sensor, SensorError, SensorInfo};

use crate::energy_counter::{BusyProcessors, EnergyCounter, Presence, ReadCounter};

/// The energy counters of one device.
pub(super) struct Counters {
    info: SensorInfo,
    channels: Vec<Channel>,
    /// In the order of `channels`; `None` for a counter that is gone.
    meters: Vec<Option<EnergyCounter>>,
    /// Whether the counters of a CPU must move.
    processors: Option<BusyProcessors>,
    /// The error when the last counter is gone.
    gone: Message,
}

impl Counters {
    pub(super) fn new(info: SensorInfo, counters: Vec<(Channel, EnergyCounter)>, gone: impl Into<Message>) -> Self {
        let (channels, meters) = counters.into_iter().map(|(channel, meter)| (channel, Some(meter))).unzip();
        Self { info, channels, meters, processors: None, gone: gone.into() }
    }

    /// The same counters, which must move while the processors are busy.
    pub(super) fn moved_by(self, processors: BusyProcessors) -> Self {
        Self { processors: Some(processors), ..self }
    }
}

/// Whether a counter does not move for this long while the calling thread spins. A working CPU counter moves every
/// millisecond, which ends the wait. With a time of zero the counter is not judged.
pub(super) fn is_stuck(counter: &mut dyn ReadCounter, time: Duration) -> io::Result<bool> {
    let first = counter.read()?;
    let start = Instant::now();
    while start.elapsed() < time {
        if counter.read()? != first {
            return Ok(false);
        }
    }
    Ok(!time.is_zero())
}

impl Sensor for Counters {
    fn info(&self) -> &SensorInfo {
        &self.info
    }

    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn sample(&mut self, clock: &Clock, batch: &mut Batch) -> Result<(), SensorError> {
        for (index, slot) in self.meters.iter_mut().enumerate() {
            if let Some(meter) = slot
                && meter.read(index, clock, batch) == Presence::Gone
            {
                *slot = None;
            }
        }
        if self.meters.iter().all(Option::is_none) {
            return Err(SensorError::Lost { device: self.info.device, reason: self.gone.clone() });
        }
        if let Some(has_to_move) = self.processors.as_mut().and_then(BusyProcessors::check) {
            for (meter, channel) in self.meters.iter_mut().zip(&self.channels) {
                if let Some(meter) = meter {
                    meter.judge(has_to_move && channel.scope != Scope::Uncore, clock.now(), batch);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use ergometer_units::{Joules, Seconds};

    use super::*;
    use crate::energy_counter::Identity;
    use ergometer_telemetry::{CounterLimits, DeviceId, EventKind, Provenance, Signal};

    struct Script(VecDeque<u64>);

    impl ReadCounter for Script {
        fn read(&mut self) -> io::Result<u64> {
            const ENODEV: i32 = 19;
            self.0.pop_front().ok_or_else(|| io::Error::from_raw_os_error(ENODEV))
        }
    }

    fn counter(counts: &[u64]) -> (Channel, EnergyCounter) {
        let device = DeviceId::rail(0);
        let channel = Channel {
            device,
            scope: Scope::Rail,
            signal: Signal::Energy,
            provenance: Provenance::Counter,
            update_period: None,
        };
        let limits = CounterLimits {
            unit: Joules::from_micros(1.0),
            range: None,
            bound: Scope::Rail.power_bound(),
            update_period: Seconds::new(0.1),
        };
        let identity = Identity { label: "BIG".to_owned(), device };
        (channel, EnergyCounter::new(identity, limits, Box::new(Script(counts.iter().copied().collect()))))
    }

    #[test]
    fn the_sensor_ends_when_its_last_counter_is_gone() {
        let device = DeviceId::rail(0);
        let info = SensorInfo { id: "r".to_owned(), name: "r".to_owned(), device, interval: Duration::ZERO };
        // One counter advances from 12.3 kJ by 0.3 J, the other is reset.
        let counters = vec![counter(&[12_300_000_000, 12_300_300_000]), counter(&[5_000_000, 10, 20])];
        let mut sensor = Counters::new(info, counters, "the driver left");
        let clock = Clock::start();
        let mut seen = Vec::new();
        for _ in 0..3 {
            let mut batch = Batch::default();
            sensor.sample(&clock, &mut batch).unwrap();
            let kinds: Vec<EventKind> = batch.events.iter().map(|event| event.kind).collect();
            seen.push((batch.readings.iter().map(|reading| reading.value).collect::<Vec<_>>(), kinds));
        }
        assert_eq!(seen[0], (vec![12_300.0, 5.0], vec![]));
        assert_eq!(seen[1], (vec![12_300.3, 0.0], vec![EventKind::CounterReset]));
        assert_eq!((seen[2].0.len(), &seen[2].1), (1, &vec![EventKind::DeviceLost]));
        let error = sensor.sample(&clock, &mut Batch::default()).unwrap_err();
        assert!(matches!(error, SensorError::Lost { reason, .. } if reason.text == "the driver left"));
    }

    #[test]
    fn a_moving_counter_is_not_stuck_and_an_unreadable_one_is_an_error() {
        let script = |counts: &[u64]| Script(counts.iter().copied().collect());
        let hour = Duration::from_secs(3600);
        assert!(!is_stuck(&mut script(&[7, 7, 7, 8]), hour).unwrap(), "it returns at the first movement");
        assert!(is_stuck(&mut script(&[7; 1000]), Duration::from_nanos(1)).unwrap());
        assert!(!is_stuck(&mut script(&[7]), Duration::ZERO).unwrap(), "read once and not judged");
        assert!(is_stuck(&mut script(&[7, 7]), hour).is_err());
    }
}
