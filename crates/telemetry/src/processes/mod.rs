//! Who uses the machine: processes, their processor time and memory, and what they hold of its GPUs.
//!
//! A [`ProcessWatch`] looks again and again; each look gives a [`ProcessTable`] of the time since the look before.
//! What could not be read is absent. Energy is not divided among processes here: that is a choice of whoever asks.

use ergometer_units::{Bytes, Seconds};

use crate::DeviceId;

/// Looks at the processes of this machine.
#[derive(Debug, Default)]
pub struct ProcessWatch {}

impl ProcessWatch {
    /// From now on.
    #[must_use]
    pub fn start() -> Self {
        Self {}
    }

    /// What processes did since the last look, or since the start.
    pub fn look(&mut self) -> ProcessTable {
        ProcessTable::default()
    }
}

/// The processes of a machine, and what they did since the look before.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProcessTable {
    /// The time it is about.
    pub since_last: Seconds,
    /// Logical processors of the machine, which bound how much processor time there is; `None` where unknown.
    pub processors: Option<u32>,
    /// The processes, by their ids.
    pub processes: Vec<Process>,
    /// What could not be asked and why, for people.
    pub notes: Vec<String>,
}

/// One process.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Process {
    /// Its id, as this machine (or container) counts it.
    pub id: u32,
    /// Its name, as `ps -o comm` shows it; `None` where it is not visible from here, as on the other side of a container.
    pub name: Option<String>,
    /// Its command line, words apart by spaces.
    pub command: Option<String>,
    /// The user's name, or the number where it has none.
    pub user: Option<String>,
    /// Processor time since the look before.
    pub cpu: Option<Seconds>,
    /// Processor time since it started.
    pub cpu_total: Option<Seconds>,
    /// Its resident memory.
    pub memory: Option<Bytes>,
    /// What it holds of GPUs.
    pub gpus: Vec<GpuUse>,
}

/// What a process holds of one GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuUse {
    /// The GPU.
    pub device: DeviceId,
    /// Its memory there.
    pub memory: Option<Bytes>,
    /// The share of time since the look before in which its kernels ran, in percent.
    pub utilization_pct: Option<f64>,
    /// The share of time since the look before in which it read or wrote the GPU's memory, in percent.
    pub memory_utilization_pct: Option<f64>,
}
