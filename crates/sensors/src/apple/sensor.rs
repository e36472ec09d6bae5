//! Samples the energy counters of one device.
//!
//! A failed read is reported once until a read works again.

use std::time::Duration;

use ergometer_telemetry::{
    Batch, Channel, Clock, DeviceId, EventKind, Provenance, Sensor, SensorError, SensorInfo, Signal,
};

use super::meter::Meter;
use super::sample_cache::SampleCache;
use super::samples::ComponentChannels;

/// Short compared to a query, and long compared to the 3.5 to 9 ms of a sample.
pub(super) const INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Works,
    /// The last read failed, which an event has reported.
    Fails,
}

/// The energy counters of one device.
pub(super) struct EnergyModel {
    info: SensorInfo,
    channels: Vec<Channel>,
    /// In the order of `channels`.
    meters: Vec<Meter>,
    samples: SampleCache,
    state: State,
}

/// The id, name and device of a sensor.
pub(super) struct Identity {
    pub(super) id: &'static str,
    pub(super) name: String,
    pub(super) device: DeviceId,
}

impl EnergyModel {
    pub(super) fn new(identity: Identity, components: Vec<ComponentChannels>, samples: SampleCache) -> Self {
        let Identity { id, name, device } = identity;
        let channel = |channels: &ComponentChannels| Channel {
            device,
            scope: channels.component.scope(),
            signal: Signal::Energy,
            provenance: Provenance::Counter,
            // It depends on the chip and the system. The driver's timestamps show it.
            update_period: None,
        };
        Self {
            info: SensorInfo { id: id.to_owned(), name, device, interval: INTERVAL },
            channels: components.iter().map(channel).collect(),
            meters: components.into_iter().map(|channels| Meter::new(channels, device)).collect(),
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
        let sample = match self.samples.latest() {
            Ok(sample) => sample,
            Err(error) => {
                if self.state == State::Works {
                    self.state = State::Fails;
                    let message = format!("cannot read the energy of {} from IOReport: {error}", self.info.device);
                    batch.event(clock.now(), EventKind::ReadFailed, message);
                }
                return Ok(());
            }
        };
        self.state = State::Works;
        for (channel, meter) in self.meters.iter_mut().enumerate() {
            meter.read(channel, &sample, clock, batch);
        }
        Ok(())
    }
}
