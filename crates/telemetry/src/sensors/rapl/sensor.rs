//! The sensor of one device's zones.
//!
//! In go open counters; out come their unwrapped totals in joules, one reading per zone and call, also where the
//! counter stood still. `after` is one update (1 ms) before the start of the read, the oldest the count can be, and `at`
//! its end. After a reset the totals start from zero again, so that whoever reads them sees it. A zone whose counter stands still while the processors work gives an event and then no reading
//! until it moves: a stuck counter is not zero watts.

use std::time::Duration;

use ergometer_units::{Joules, Seconds};

use super::OpenZone;
use super::counter_file::{ReadCounter, is_gone};
use super::zone::Zone;
use crate::sensors::processor_time::ProcessorTime;
use crate::{
    Batch, Channel, Clock, Counter, CounterLimits, DeviceId, EventKind, Provenance, Reading, Scope, Sensor,
    SensorError, SensorInfo, Signal, Step,
};

/// Often against a wrap (65 kJ at 500 W is two minutes), seldom against the cost of a read.
const INTERVAL: Duration = Duration::from_millis(50);
/// Intel's manual (Software Developer's Manual, volume 3B, 16.10): updated every 1 ms or so.
pub(super) const UPDATE_PERIOD: Seconds = Seconds::new(0.001);
/// Every so many samples (1 s) each counter is asked whether it moved.
const WATCH_SAMPLES: u32 = 20;
/// From this busy share of all processors on, a counter that stands still is stuck.
const BUSY_SHARE: f64 = 0.5;

/// The counters of one CPU package (or die), or of the platform.
pub(super) struct Rapl {
    info: SensorInfo,
    channels: Vec<Channel>,
    /// In the order of `channels`; `None` once a zone is gone.
    meters: Vec<Option<Meter>>,
    activity: Option<ProcessorTime>,
    samples_watched: u32,
}

/// One zone while it is read.
struct Meter {
    zone: Zone,
    counter: Counter,
    /// The total at the last reset.
    start: Joules,
    file: Box<dyn ReadCounter>,
    state: State,
    moved: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Works,
    /// It stands still, and an event has said so.
    Stuck,
    /// The last read failed, and an event has said so.
    Fails,
}

impl Rapl {
    /// The sensor of the zones of this device.
    pub(super) fn new(device: DeviceId, zones: Vec<OpenZone>, mut activity: Option<ProcessorTime>) -> Self {
        // The first look only starts the measure of activity.
        if activity.as_mut().is_some_and(|activity| activity.busy_share().is_err()) {
            activity = None;
        }
        let channels = zones.iter().map(|(zone, _)| channel(zone)).collect();
        let name = zones.first().map(|(zone, _)| zone.label.clone()).unwrap_or_default();
        let id = if device == DeviceId::host() { "rapl:psys".to_owned() } else { format!("rapl:{}", device.index) };
        let info = SensorInfo { id, name: format!("CPU {name}"), device, interval: INTERVAL };
        let meters = zones.into_iter().map(|(zone, file)| Some(Meter::new(zone, file))).collect();
        Self { info, channels, meters, activity, samples_watched: 0 }
    }

    /// Once a second: which counters stood still while the processors worked?
    fn watch(&mut self, clock: &Clock, batch: &mut Batch) {
        self.samples_watched += 1;
        if self.samples_watched < WATCH_SAMPLES {
            return;
        }
        self.samples_watched = 0;
        let busy = self.activity.as_mut().and_then(|activity| activity.busy_share().ok().flatten());
        for meter in self.meters.iter_mut().flatten() {
            let stands_still = !std::mem::take(&mut meter.moved) && meter.zone.scope != Scope::Uncore;
            if stands_still && meter.state == State::Works && busy.is_some_and(|share| share >= BUSY_SHARE) {
                meter.state = State::Stuck;
                batch.event(
                    clock.now(),
                    EventKind::CounterStuck,
                    format!(
                        "the energy counter of {} ({}) does not move though the processors are busy: its energy is absent until it does",
                        meter.zone.label, meter.zone.device
                    ),
                );
            }
        }
    }
}

impl Sensor for Rapl {
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
            let reason = "its energy counters are gone (was the driver intel_rapl_msr unloaded?)".to_owned();
            return Err(SensorError::Lost { device: self.info.device, reason });
        }
        self.watch(clock, batch);
        Ok(())
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Presence {
    There,
    Gone,
}

impl Meter {
    fn new(zone: Zone, file: Box<dyn ReadCounter>) -> Self {
        let limits = CounterLimits {
            unit: Joules::from_micros(1.0),
            range: zone.range_uj,
            bound: zone.scope.power_bound(),
            update_period: UPDATE_PERIOD,
        };
        Self { zone, counter: Counter::new(limits), start: Joules::ZERO, file, state: State::Works, moved: false }
    }

    fn read(&mut self, channel: usize, clock: &Clock, batch: &mut Batch) -> Presence {
        let after = clock.now() - UPDATE_PERIOD;
        let count = self.file.read();
        let at = clock.now();
        let count = match count {
            Ok(count) => count,
            Err(error) => {
                let message = format!("cannot read energy of {} ({}): {error}", self.zone.label, self.zone.device);
                if is_gone(&error) {
                    batch.event(at, EventKind::DeviceLost, message);
                    return Presence::Gone;
                }
                // Said once, not twenty times a second.
                if self.state != State::Fails {
                    self.state = State::Fails;
                    batch.event(at, EventKind::ReadFailed, message);
                }
                return Presence::There;
            }
        };
        if self.state == State::Fails {
            self.state = State::Works;
        }
        let step = self.counter.update(at, count);
        self.tell(step, at, batch);
        if step == Step::Reset {
            self.start = self.counter.total();
        }
        if step != Step::Advance(Joules::ZERO) {
            self.moved = true;
            self.state = State::Works;
        }
        if self.state == State::Works && !matches!(step, Step::Impossible { .. }) {
            batch.readings.push(Reading { channel, after, at, value: (self.counter.total() - self.start).get() });
        }
        Presence::There
    }

    fn tell(&self, step: Step, at: ergometer_units::Timestamp, batch: &mut Batch) {
        let (label, device) = (&self.zone.label, self.zone.device);
        match step {
            Step::First | Step::Advance(_) | Step::Wrapped(_) => {}
            Step::Reset => batch.event(
                at,
                EventKind::CounterReset,
                format!("the energy counter of {label} ({device}) started again: the energy since its last reading is not counted"),
            ),
            Step::Impossible { power } => batch.event(
                at,
                EventKind::ImpossibleStep,
                format!("a step of the energy counter of {label} ({device}) would mean {:.0} W and is left out", power.get()),
            ),
        }
    }
}

fn channel(zone: &Zone) -> Channel {
    Channel {
        device: zone.device,
        scope: zone.scope,
        signal: Signal::Energy,
        provenance: Provenance::Counter,
        update_period: Some(UPDATE_PERIOD),
    }
}
