//! The sensor of a GPU's energy counter, of the makes whose drivers count in a file.
//!
//! In goes a counter that is open; out come its totals, one reading per call. One that does not move for a second while
//! the GPU works is called stuck, and then its power has to speak; a step back is a reset.

use std::time::Duration;

use ergometer_units::{Joules, Seconds};

use super::counted::{CountedEnergy, Identity, Presence, ReadCounter};
use ergometer_telemetry::{
    Batch, Channel, Clock, CounterLimits, Provenance, Scope, Sensor, SensorError, SensorInfo, Signal,
};

/// So long a counter has to show that it moves.
const WATCH: Duration = Duration::from_secs(1);

/// What says that a GPU works.
pub(super) trait Working: Send {
    /// Why a counter has to move now, if it has to: `the GPU draws 142 W`.
    fn reason(&mut self) -> Option<String>;
}

/// A counter, and how it counts.
pub(super) struct GpuCounter {
    pub(super) file: Box<dyn ReadCounter>,
    /// The energy of one count.
    pub(super) unit: Joules,
    /// How often it moves, at the slowest.
    pub(super) update_period: Seconds,
    /// What says that it has to move.
    pub(super) working: Box<dyn Working>,
    /// What it counts: the GPU, or all that is on its module.
    pub(super) scope: Scope,
    /// What to look at when it is gone.
    pub(super) gone_hint: &'static str,
}

/// See the module.
pub(super) struct GpuEnergy {
    info: SensorInfo,
    channels: Vec<Channel>,
    energy: CountedEnergy,
    working: Box<dyn Working>,
    gone_hint: &'static str,
    samples_watched: u32,
}

impl GpuEnergy {
    pub(super) fn new(info: SensorInfo, counter: GpuCounter) -> Self {
        let GpuCounter { file, unit, update_period, working, scope, gone_hint } = counter;
        let limits = CounterLimits { unit, range: None, bound: scope.power_bound(), update_period };
        let channel = Channel {
            device: info.device,
            scope,
            signal: Signal::Energy,
            provenance: Provenance::Counter,
            update_period: Some(update_period),
        };
        let identity = Identity { label: info.name.clone(), device: info.device };
        let energy = CountedEnergy::new(identity, limits, file);
        Self { info, channels: vec![channel], energy, working, gone_hint, samples_watched: 0 }
    }
}

impl Sensor for GpuEnergy {
    fn info(&self) -> &SensorInfo {
        &self.info
    }

    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn sample(&mut self, clock: &Clock, batch: &mut Batch) -> Result<(), SensorError> {
        if self.energy.read(0, clock, batch) == Presence::Gone {
            return Err(SensorError::Lost { device: self.info.device, reason: self.gone_hint.to_owned() });
        }
        self.samples_watched += 1;
        if self.info.interval * self.samples_watched >= WATCH {
            self.samples_watched = 0;
            if !self.energy.take_moved()
                && let Some(reason) = self.working.reason()
            {
                self.energy.call_stuck(&reason, clock.now(), batch);
            }
        }
        Ok(())
    }
}
