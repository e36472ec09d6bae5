//! A GPU that sleeps is let sleep.
//!
//! In goes a sensor of a GPU; out comes one that asks it only while the GPU is awake. Reads of a sleeping GPU wake it,
//! ten times a second, or fail (amdgpu since Linux 6.15). What always holds: sleep is told once
//! until the GPU wakes, and there is no reading in it.

use std::path::PathBuf;

use super::drm::is_asleep;
use ergometer_telemetry::{Batch, Channel, Clock, EventKind, Sensor, SensorError, SensorInfo};

/// See the module.
pub(super) struct WhileAwake {
    inner: Box<dyn Sensor>,
    runtime_status: PathBuf,
    sleeps: bool,
}

impl WhileAwake {
    pub(super) fn new(inner: Box<dyn Sensor>, runtime_status: PathBuf) -> Self {
        Self { inner, runtime_status, sleeps: false }
    }
}

impl Sensor for WhileAwake {
    fn info(&self) -> &SensorInfo {
        self.inner.info()
    }

    fn channels(&self) -> &[Channel] {
        self.inner.channels()
    }

    fn sample(&mut self, clock: &Clock, batch: &mut Batch) -> Result<(), SensorError> {
        let slept = std::mem::replace(&mut self.sleeps, is_asleep(&self.runtime_status));
        if !self.sleeps {
            return self.inner.sample(clock, batch);
        }
        if !slept {
            let SensorInfo { id, device, .. } = self.info();
            let message = format!(
                "{device} sleeps (runtime power management): the readings of {id} are absent until it wakes. It is \
                 not woken to be measured"
            );
            batch.event(clock.now(), EventKind::ReadFailed, message);
        }
        Ok(())
    }
}
