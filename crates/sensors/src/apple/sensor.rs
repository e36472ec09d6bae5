//! The sensor of one device's energy counters.
//!
//! In go samples of all channels; out come the totals of this device's parts. A sample that cannot be read is told once
//! until one can.

use std::time::Duration;

use super::meter::Meter;
use super::samples::Choice;
use super::shared::SharedSamples;
use ergometer_telemetry::{
    Batch, Channel, Clock, DeviceId, EventKind, Provenance, Sensor, SensorError, SensorInfo, Signal,
};

/// Short against a query, long against the 3.5 to 9 ms that a sample takes.
pub(super) const INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Works,
    /// The last read failed, and an event has said so.
    Fails,
}

/// See the module.
pub(super) struct EnergyModel {
    info: SensorInfo,
    channels: Vec<Channel>,
    /// In the order of `channels`.
    meters: Vec<Meter>,
    samples: SharedSamples,
    state: State,
}

/// Who a sensor is.
pub(super) struct Identity {
    pub(super) id: &'static str,
    pub(super) name: String,
    pub(super) device: DeviceId,
}

impl EnergyModel {
    pub(super) fn new(identity: Identity, choices: Vec<Choice>, samples: SharedSamples) -> Self {
        let Identity { id, name, device } = identity;
        let channel = |choice: &Choice| Channel {
            device,
            scope: choice.part.scope(),
            signal: Signal::Energy,
            provenance: Provenance::Counter,
            // Differs with chip and system; the driver's own times tell.
            update_period: None,
        };
        Self {
            info: SensorInfo { id: id.to_owned(), name, device, interval: INTERVAL },
            channels: choices.iter().map(channel).collect(),
            meters: choices.into_iter().map(|choice| Meter::new(choice, device)).collect(),
            samples,
            state: State::Works,
        }
    }
}

impl Sensor for EnergyModel {
    fn info(&self) -> &SensorInfo {
        &self.info
    }

    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn sample(&mut self, clock: &Clock, batch: &mut Batch) -> Result<(), SensorError> {
        let taken = match self.samples.latest() {
            Ok(taken) => taken,
            Err(error) => {
                if self.state == State::Works {
                    self.state = State::Fails;
                    let message = format!("cannot read the energy of {} by IOReport: {error}", self.info.device);
                    batch.event(clock.now(), EventKind::ReadFailed, message);
                }
                return Ok(());
            }
        };
        self.state = State::Works;
        for (channel, meter) in self.meters.iter_mut().enumerate() {
            meter.read(channel, &taken, clock, batch);
        }
        Ok(())
    }
}
