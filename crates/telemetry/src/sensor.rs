//! The one trait every source of readings stands behind, and what probing a machine finds.

use std::time::Duration;

use ergometer_diagnostics::{Diagnostic, Hint, Message};

use crate::{Batch, Channel, Clock, DeviceId};

/// A source of readings. It is probed once, when it is made; after that [`channels`](Self::channels) never changes.
/// The sampler gives each sensor a thread, so a read that blocks delays nobody else.
pub trait Sensor: Send {
    /// Who it is.
    fn info(&self) -> &SensorInfo;

    /// What it reads. A [`Reading`](crate::Reading) names its channel by the place in this list.
    fn channels(&self) -> &[Channel];

    /// Reads once and adds what it found to `batch`.
    fn sample(&mut self, clock: &Clock, batch: &mut Batch) -> Result<(), SensorError>;

    /// Reads for the last time: what a sensor leaves for later must come now.
    fn sample_last(&mut self, clock: &Clock, batch: &mut Batch) -> Result<(), SensorError> {
        self.sample(clock, batch)
    }

    /// Hands out what its source holds and a later sample would bring. For who wants what was read until now while
    /// sampling goes on; of a source that holds nothing back, nothing comes.
    fn drain(&mut self, _clock: &Clock, _batch: &mut Batch) -> Result<(), SensorError> {
        Ok(())
    }

    /// How long from the start of one call of [`sample`](Self::sample) to the start of the next.
    fn interval(&self) -> Duration {
        self.info().interval
    }
}

/// Who a sensor is.
#[derive(Debug, Clone, PartialEq)]
pub struct SensorInfo {
    /// A short id, as `ergo doctor` prints it and `--device` takes it: `nvml-energy:0`, `rapl:0`, `host`.
    pub id: String,
    /// The device's name, for people: `NVIDIA H200`.
    pub name: String,
    /// The device.
    pub device: DeviceId,
    /// How often to sample it.
    pub interval: Duration,
}

/// Why a sensor gave no reading.
#[derive(Debug, thiserror::Error)]
pub enum SensorError {
    /// The device is gone for good; its sensor ends, the others go on.
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
        /// Which device.
        device: DeviceId,
        /// What was read.
        what: &'static str,
        /// What the driver or the system said.
        reason: String,
    },
    /// The source came to its end: a recording was played.
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

/// One line of what probing found, for `ergo doctor`.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The device it is about, for people: `NVIDIA H200 (gpu:0)`, `CPU package 0`.
    pub device: String,
    /// The source: `energy counter`, `power ring`, `RAPL`.
    pub source: String,
    /// What was found.
    pub status: Status,
}

/// The state of one source.
#[derive(Debug, Clone, PartialEq)]
pub enum Status {
    /// It works. The text says what it gives.
    Works(String),
    /// It is there and of less use than it could be.
    Limited {
        /// What is missing, and why.
        why: String,
        /// The exact command or step that mends it, where there is one.
        fix: Option<String>,
    },
    /// It is not there or does not work.
    Absent {
        /// Why not.
        why: String,
        /// The exact command or step that mends it, where there is one.
        fix: Option<String>,
    },
}

/// What probing a machine found.
#[derive(Default)]
pub struct Probe {
    /// The sensors that work.
    pub sensors: Vec<Box<dyn Sensor>>,
    /// What was found, and what was not.
    pub findings: Vec<Finding>,
}

impl Probe {
    /// Adds a line for `ergo doctor`.
    pub fn find(&mut self, device: impl Into<String>, source: impl Into<String>, status: Status) {
        self.findings.push(Finding { device: device.into(), source: source.into(), status });
    }

    /// Adds what another probe found.
    pub fn extend(&mut self, other: Self) {
        self.sensors.extend(other.sensors);
        self.findings.extend(other.findings);
    }
}
