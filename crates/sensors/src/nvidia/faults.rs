//! What becomes of an error of NVML: an event, said once until the signal works again, or the end of the sensor.

use ergometer_units::Timestamp;

use super::library::NvmlError;
use ergometer_telemetry::{Batch, DeviceId, EventKind, SensorError};

/// The signals of one sensor that do not work at present.
#[derive(Debug)]
pub(super) struct Faults {
    device: DeviceId,
    failing: Vec<&'static str>,
}

impl Faults {
    pub(super) const fn new(device: DeviceId) -> Self {
        Self { device, failing: Vec::new() }
    }

    /// Passes a value on. The first failure of `what` becomes an event, and a lost GPU ends the sensor.
    pub(super) fn settle<T>(
        &mut self,
        what: &'static str,
        outcome: Result<T, NvmlError>,
        at: Timestamp,
        batch: &mut Batch,
    ) -> Result<Option<T>, SensorError> {
        match outcome {
            Ok(value) => {
                self.failing.retain(|&failing| failing != what);
                Ok(Some(value))
            }
            Err(NvmlError::GpuLost) => Err(lost(self.device)),
            Err(error) => {
                if !self.failing.contains(&what) {
                    self.failing.push(what);
                    let message = format!(
                        "cannot read {what} of {}: {error}. It is tried again; until it works, its values are absent",
                        self.device
                    );
                    batch.event(at, EventKind::ReadFailed, message);
                }
                Ok(None)
            }
        }
    }
}

/// The end of a sensor whose GPU no longer answers.
pub(super) fn lost(device: DeviceId) -> SensorError {
    SensorError::Lost { device, reason: format!("{}. hint: {}", NvmlError::GpuLost, lost_fix(device)) }
}

/// What to do about a lost GPU.
pub(super) fn lost_fix(device: DeviceId) -> String {
    format!(
        "look at `nvidia-smi` and `sudo dmesg | grep -i xid`, then reset it (`sudo nvidia-smi --gpu-reset -i {}`) or \
         reboot",
        device.index
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_said_once_until_the_signal_works_again() {
        let mut faults = Faults::new(DeviceId::gpu(2));
        let mut batch = Batch::default();
        let at = Timestamp::from_nanos_since_epoch(1);
        let broken = || Err::<(), _>(NvmlError::Other("timeout".into()));
        for outcome in [broken(), broken(), Ok(()), broken()] {
            faults.settle("temperature", outcome, at, &mut batch).unwrap();
        }
        faults.settle("memory", broken(), at, &mut batch).unwrap();
        assert_eq!(batch.events.len(), 3);
        assert!(batch.events[0].message.starts_with("cannot read temperature of gpu:2: timeout"));
        let error = faults.settle("memory", Err::<(), _>(NvmlError::GpuLost), at, &mut batch).unwrap_err();
        assert!(matches!(&error, SensorError::Lost { reason, .. } if reason.contains("nvidia-smi --gpu-reset -i 2")));
    }
}
