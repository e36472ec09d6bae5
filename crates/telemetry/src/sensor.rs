//! Defines the [`Sensor`] trait and the result of probing a machine for sensors.

use std::time::Duration;

use ergometer_diagnostics::{Diagnostic, Hint, Message};

use crate::{Batch, Channel, Clock, DeviceId};

/// A source of readings. It is probed once, at construction; after that [`channels`](Self::channels) never changes.
/// The sampler runs each sensor on its own thread, so a blocking read does not delay other sensors.
pub trait Sensor: Send {
    /// The sensor's id, name, device and interval.
    fn info(&self) -> &SensorInfo;

    /// The channels it reads. A [`Reading`](crate::Reading) refers to a channel by its index in this list.
    fn channels(&self) -> &[Channel];

    /// Reads once and adds readings and events to `batch`.
    fn sample(&mut self, clock: &Clock, batch: &mut Batch) -> Result<(), SensorError>;

    /// Reads for the last time, including everything a sensor would otherwise defer to a later sample.
    fn sample_last(&mut self, clock: &Clock, batch: &mut Batch) -> Result<(), SensorError> {
        self.sample(clock, batch)
    }

    /// Adds readings that the source has buffered for a later sample, while sampling continues. Sources without a
    /// buffer add nothing.
    fn drain(&mut self, _clock: &Clock, _batch: &mut Batch) -> Result<(), SensorError> {
        Ok(())
    }

    /// The time between the starts of two calls of [`sample`](Self::sample).
    fn interval(&self) -> Duration {
        self.info().interval
    }
}

/// The description of a sensor.
#[derive(Debug, Clone, PartialEq)]
pub struct SensorInfo {
    /// A short id, as `ergo doctor` prints it and `--device` takes it: `nvml-energy:0`, `rapl:0`, `host`.
    pub id: String,
    /// The device name, as shown to users: `NVIDIA H200`.
    pub name: String,
    /// The device.
    pub device: DeviceId,
    /// How often to sample it.
    pub interval: Duration,
}

/// Why a sensor gave no reading.
#[derive(Debug, thiserror::Error)]
pub enum SensorError {
    /// The device is permanently gone; its sensor stops, the others continue.
    #[error("{device} is lost: {reason}")]
    Lost {
        /// The device.
        device: DeviceId,
        /// The cause, and what to do about it.
        reason: Message,
    },
    /// This read failed; the next may work.
    #[error("cannot read {what} of {device}: {reason}")]
    Read {
        /// The device.
        device: DeviceId,
        /// The quantity that was read.
        what: &'static str,
        /// The error of the driver or the operating system.
        reason: String,
    },
    /// The source has no more readings: the end of a replayed recording.
    #[error("no more readings")]
    Ended,
}

impl Diagnostic for SensorError {
    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Lost { reason, .. } => reason.hint.clone(),
            Self::Read { .. } | Self::Ended => None,
        }
    }
}

/// The result of probing one source, shown by `ergo doctor`.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The device, as shown to users: `NVIDIA H200 (gpu:0)`, `CPU package 0`.
    pub device: String,
    /// The source: `energy counter`, `power ring`, `RAPL`.
    pub source: String,
    /// Whether the source works.
    pub status: Status,
}

/// The state of one source.
#[derive(Debug, Clone, PartialEq)]
pub enum Status {
    /// It works. The text describes its readings.
    Works(String),
    /// It works with limitations.
    Limited {
        /// The limitation and its reason.
        why: String,
        /// The exact command or step that fixes it, if there is one.
        fix: Option<String>,
    },
    /// It does not exist or does not work.
    Absent {
        /// The reason.
        why: String,
        /// The exact command or step that fixes it, if there is one.
        fix: Option<String>,
    },
}

/// The sensors found by probing a machine.
#[derive(Default)]
pub struct Probe {
    /// The sensors that work.
    pub sensors: Vec<Box<dyn Sensor>>,
    /// The result for each probed source, working or not.
    pub findings: Vec<Finding>,
}

impl Probe {
    /// Adds a line for `ergo doctor`.
    pub fn find(&mut self, device: impl Into<String>, source: impl Into<String>, status: Status) {
        self.findings.push(Finding { device: device.into(), source: source.into(), status });
    }

    /// Adds the sensors and findings of another probe.
    pub fn extend(&mut self, other: Self) {
        self.sensors.extend(other.sensors);
        self.findings.extend(other.findings);
    }
}
