//! Who uses the machine: processes, their processor time and memory, and what they hold of its GPUs.
//!
//! A [`ProcessWatch`] looks again and again; each look gives a [`ProcessTable`] of the time since the look before.
//! What could not be read is absent. Energy is not divided among processes here: that is a choice of whoever asks, with
//! [`split_by_cpu_time`].
//!
//! A process that starts and ends between two looks is not seen, and what one used after the last look before its end is
//! lost. Threads are not listed; their time is their process's.

#[cfg(all(test, target_os = "linux"))]
mod fake;
mod gpus;
mod listing;
#[cfg(target_os = "linux")]
mod proc_files;
mod split;
#[cfg(target_os = "linux")]
mod stat_line;
#[cfg(any(test, not(target_os = "linux")))]
mod system;
mod users;
mod watch;

use std::path::PathBuf;

use ergometer_units::{Bytes, Seconds};

use ergometer_telemetry::DeviceId;

pub use split::{Share, Split, split_by_cpu_time};
pub use watch::ProcessWatch;

/// Where to look.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The folder of the processes, on Linux.
    pub proc_root: PathBuf,
    /// The names of users.
    pub passwd: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self { proc_root: PathBuf::from("/proc"), passwd: PathBuf::from("/etc/passwd") }
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
    /// What could not be asked at this look and why, for people; each thing once.
    pub notes: Vec<String>,
}

/// One process.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Process {
    /// Its id, as this machine (or container) counts it; the host's where only a GPU's driver knows of it. So an id may
    /// stand in a table twice, once with a name or a user and once without.
    pub id: u32,
    /// Its name, as `ps -o comm` shows it; `None` where it is not visible from here, as on the other side of a container.
    pub name: Option<String>,
    /// Its command line, words apart by spaces.
    pub command: Option<String>,
    /// The user's name, or the number where it has none.
    pub user: Option<String>,
    /// Processor time since the look before; all it used where it started since. `None` at the first look.
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
