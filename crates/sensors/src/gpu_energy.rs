//! Samples the energy counter of a GPU whose driver shows it in a file.
//!
//! Each sample gives one reading of the total. A counter that does not move for a second while the GPU is busy is
//! reported as stuck, and the GPU's power is used instead. A step backwards is a reset.

use std::time::Duration;

use ergometer_diagnostics::Message;
use ergometer_telemetry::{
    Batch, Channel, Clock, CounterLimits, Provenance, Scope, Sensor, SensorError, SensorInfo, Signal,
};
use ergometer_units::{Joules, Seconds};

use crate::energy_counter::{EnergyCounter, Identity, Presence, ReadCounter};

/// How long a counter may stay unchanged while the GPU is busy.
const WATCH: Duration = Duration::from_secs(1);

/// Detects whether a GPU is busy.
pub(super) trait Activity: Send {
    /// Why the counter must move now, if it must: `the GPU draws 142 W`.
    fn busy_reason(&mut self) -> Option<String>;
}

/// An open counter and its properties.
pub(super) struct GpuCounter {
    pub(super) file: Box<dyn ReadCounter>,
    /// The energy of one count.
    pub(super) unit: Joules,
    /// The longest time between two updates.
    pub(super) update_period: Seconds,
    /// Whether the counter must move.
    pub(super) activity: Box<dyn Activity>,
    /// The part whose energy it counts: the GPU, or the whole module.
    pub(super) scope: Scope,
    /// The error when the counter is gone.
    pub(super) gone: Message,
}

/// The energy counter of one GPU.
pub(super) struct GpuEnergy {
    info: SensorInfo,
    channels: Vec<Channel>,
    energy: EnergyCounter,
    activity: Box<dyn Activity>,
    gone: Message,
    samples_watched: u32,
}

impl GpuEnergy {
    pub(super) fn new(info: SensorInfo, counter: GpuCounter) -> Self {
        let GpuCounter { file, unit, update_period, activity, scope, gone } = counter;
        let limits = CounterLimits { unit, range: None, bound: scope.power_bound(), update_period };
        let channel = Channel {
            device: info.device,
            scope,
            signal: Signal::Energy,
            provenance: Provenance::Counter,
            update_period: Some(update_period),
        };
        let identity = Identity { label: info.name.clone(), device: info.device };
        let energy = EnergyCounter::new(identity, limits, file);
        Self { info, channels: vec![channel], energy, activity, gone, samples_watched: 0 }
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
            return Err(SensorError::Lost { device: self.info.device, reason: self.gone.clone() });
        }
        self.samples_watched += 1;
        if self.info.interval * self.samples_watched >= WATCH {
            self.samples_watched = 0;
            if !self.energy.take_moved()
                && let Some(reason) = self.activity.busy_reason()
            {
                self.energy.report_stuck(&reason, clock.now(), batch);
            }
        }
        Ok(())
    }
}
