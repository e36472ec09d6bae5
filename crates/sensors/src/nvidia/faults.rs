//! Turns an NVML error into an event, once until the signal works again, or into the end of the sensor.

use ergometer_diagnostics::{Hint, Message};
use ergometer_telemetry::{Batch, DeviceId, EventKind, SensorError};
use ergometer_units::Timestamp;

use super::library::NvmlError;

/// The signals of one sensor that currently fail.
#[derive(Debug)]
pub(super) struct Faults {
    device: DeviceId,
    failing: Vec<&'static str>,
}

impl Faults {
    pub(super) const fn new(device: DeviceId) -> Self {
        Self { device, failing: Vec::new() }
    }

    /// Returns the value. The first failure of `what` becomes an event, and a lost GPU ends the sensor.
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
                        "cannot read {what} of {}: {error}; its values are absent until a read works again",
                        self.device
                    );
                    batch.event(at, EventKind::ReadFailed, message);
                }
                Ok(None)
            }
        }
    }
}

/// The error of a GPU that no longer responds.
pub(super) fn lost(device: DeviceId) -> SensorError {
    let reason = Message::new(NvmlError::GpuLost.to_string()).with_hint(Hint::text(lost_fix(device)));
    SensorError::Lost { device, reason }
}

/// The hint for a lost GPU.
pub(super) fn lost_fix(device: DeviceId) -> String {
    format!(
        "check `nvidia-smi` and `sudo dmesg | grep -i xid`, then reset the GPU (`sudo nvidia-smi --gpu-reset -i {}`) or \
         reboot",
        device.index
    )
}

#[cfg(test)]
mod tests {
    use ergometer_diagnostics::Diagnostic;

    use super::*;

    #[test]
    fn a_failure_is_reported_once_until_the_signal_works_again() {
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
        let hint = error.to_message().command_line_hint().unwrap();
        assert!(hint.contains("nvidia-smi --gpu-reset -i 2"), "{hint}");
    }
}
