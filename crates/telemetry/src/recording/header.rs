//! Defines the lines of a recording that are JSON objects: the header, events and the end.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Channel, DeviceId, Event, SensorInfo};

/// The value of `format` in the header.
pub(super) const FORMAT: &str = "ergometer-recording";

/// Line 1: the recorded sensors. Readings refer to channels by their index among the channels of all sensors.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) format: String,
    pub(super) version: u64,
    pub(super) sensors: Vec<RecordedSensor>,
}

/// One sensor of the header.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RecordedSensor {
    id: String,
    name: String,
    device: DeviceId,
    interval_ms: f64,
    pub(super) channels: Vec<Channel>,
}

/// A line that is an object: an event, or the end. Unknown keys are ignored.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Note<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) event: Option<Cow<'a, Event>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) end: Option<End>,
}

/// The last line.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct End {
    pub(super) readings: u64,
}

impl RecordedSensor {
    pub(super) fn new(info: &SensorInfo, channels: &[Channel]) -> Self {
        Self {
            id: info.id.clone(),
            name: info.name.clone(),
            device: info.device,
            interval_ms: info.interval.as_secs_f64() * 1e3,
            channels: channels.to_vec(),
        }
    }

    /// The sensor's description, or why it is invalid.
    pub(super) fn info(&self) -> Result<SensorInfo, String> {
        let interval = Duration::try_from_secs_f64(self.interval_ms / 1e3).map_err(|_| {
            format!("the interval of {} is {} ms, which is not a valid duration", self.id, self.interval_ms)
        })?;
        Ok(SensorInfo { id: self.id.clone(), name: self.name.clone(), device: self.device, interval })
    }
}
