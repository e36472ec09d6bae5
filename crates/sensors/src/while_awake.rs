//! Samples the sensor of a GPU only while the GPU is awake.
//!
//! Reading a sleeping GPU wakes it, or fails (amdgpu since Linux 6.15). Sleep is reported once until the GPU wakes, and
//! gives no readings.

use std::path::PathBuf;

use ergometer_telemetry::{Batch, Channel, Clock, EventKind, Sensor, SensorError, SensorInfo};

use crate::drm::is_asleep;

/// A sensor of a GPU that may sleep.
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
                "{device} sleeps (runtime power management) and is not woken up; the readings of {id} are absent until it \
                 wakes up"
            );
            batch.event(clock.now(), EventKind::ReadFailed, message);
        }
        Ok(())
    }
}
