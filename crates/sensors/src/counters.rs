//! The sensor of the energy counters of one device, RAPL's or hwmon's.
//!
//! In go open counters; out come their totals, one reading each and call. A counter of a CPU that stands still while the
//! processors work is called stuck, but for its uncore, which may rest; nothing says when a rail has to draw. When the last
//! is gone, the sensor ends.

use std::io;
use std::time::{Duration, Instant};

use crate::counted::{BusyProcessors, CountedEnergy, Presence, ReadCounter};
use ergometer_telemetry::{Batch, Channel, Clock, Scope, Sensor, SensorError, SensorInfo};

/// See the module.
pub(super) struct Counters {
    info: SensorInfo,
    channels: Vec<Channel>,
    /// In the order of `channels`; `None` once one is gone.
    meters: Vec<Option<CountedEnergy>>,
    /// What says that the counters of a CPU have to move.
    processors: Option<BusyProcessors>,
    gone_hint: &'static str,
}

impl Counters {
    pub(super) fn new(info: SensorInfo, counters: Vec<(Channel, CountedEnergy)>, gone_hint: &'static str) -> Self {
        let (channels, meters) = counters.into_iter().map(|(channel, meter)| (channel, Some(meter))).unzip();
        Self { info, channels, meters, processors: None, gone_hint }
    }

    /// Counters that have to move while these are busy.
    pub(super) fn moved_by(self, processors: BusyProcessors) -> Self {
        Self { processors: Some(processors), ..self }
    }
}

/// Whether a counter stands still for this long while the calling thread spins. A live one of a CPU moves every
/// millisecond and takes no longer. No time is no judgement.
pub(super) fn stands_still(counter: &mut dyn ReadCounter, time: Duration) -> io::Result<bool> {
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
            return Err(SensorError::Lost { device: self.info.device, reason: self.gone_hint.to_owned() });
        }
        if let Some(has_to_move) = self.processors.as_mut().and_then(BusyProcessors::look) {
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
    use crate::counted::Identity;
    use ergometer_telemetry::{CounterLimits, DeviceId, EventKind, Provenance, Signal};

    struct Script(VecDeque<u64>);

    impl ReadCounter for Script {
        fn read(&mut self) -> io::Result<u64> {
            const ENODEV: i32 = 19;
            self.0.pop_front().ok_or_else(|| io::Error::from_raw_os_error(ENODEV))
        }
    }

    fn counter(counts: &[u64]) -> (Channel, CountedEnergy) {
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
        (channel, CountedEnergy::new(identity, limits, Box::new(Script(counts.iter().copied().collect()))))
    }

    #[test]
    fn one_that_goes_back_or_is_gone_leaves_the_others_and_the_last_ends_the_sensor() {
        let device = DeviceId::rail(0);
        let info = SensorInfo { id: "r".to_owned(), name: "r".to_owned(), device, interval: Duration::ZERO };
        // 12.3 kJ, and 0.3 J more; the other starts again.
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
        assert!(matches!(error, SensorError::Lost { reason, .. } if reason == "the driver left"));
    }

    #[test]
    fn a_counter_that_moves_is_alive_and_one_that_cannot_be_read_is_an_error() {
        let script = |counts: &[u64]| Script(counts.iter().copied().collect());
        let hour = Duration::from_secs(3600);
        assert!(!stands_still(&mut script(&[7, 7, 7, 8]), hour).unwrap(), "it does not wait on");
        assert!(stands_still(&mut script(&[7; 1000]), Duration::from_nanos(1)).unwrap());
        assert!(!stands_still(&mut script(&[7]), Duration::ZERO).unwrap(), "read once and not judged");
        assert!(stands_still(&mut script(&[7, 7]), hour).is_err());
    }
}
