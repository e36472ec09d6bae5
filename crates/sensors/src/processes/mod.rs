//! Lists the processes of this machine with their CPU time, memory and GPU use.
//!
//! Each sample of a [`ProcessWatch`] is a [`ProcessTable`] of the time since the previous sample. A value that cannot
//! be read is absent. [`split_by_cpu_time`] divides an energy among the processes.
//!
//! A process that starts and ends between two samples is not listed, and the CPU time between the last sample and the
//! end of a process is lost. Threads are not listed; their time belongs to their process.

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

use ergometer_diagnostics::Message;
use ergometer_telemetry::DeviceId;
use ergometer_units::{Bytes, Seconds};

pub use split::{Share, Split, split_by_cpu_time};
pub use watch::ProcessWatch;

/// Options of [`ProcessWatch::start_with`].
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The folder of the processes, on Linux.
    pub proc_root: PathBuf,
    /// The file with the names of users.
    pub passwd: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self { proc_root: PathBuf::from("/proc"), passwd: PathBuf::from("/etc/passwd") }
    }
}

/// The processes of a machine, with their CPU time and GPU use since the previous sample.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProcessTable {
    /// The time since the previous sample.
    pub since_last: Seconds,
    /// The number of logical processors, which limits the CPU time. `None` if unknown.
    pub processors: Option<u32>,
    /// The processes, ordered by id.
    pub processes: Vec<Process>,
    /// Values that could not be read in this sample, with hints.
    pub notes: Vec<Message>,
}

/// One process.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Process {
    /// Its id on this machine (or in this container), or on the host if only the GPU driver lists the process. So a
    /// table may have an id twice, once with a name or a user and once without.
    pub id: u32,
    /// Its name, as shown by `ps -o comm`. `None` if the process is not visible, for example outside this container.
    pub name: Option<String>,
    /// Its command line, with spaces between the words.
    pub command: Option<String>,
    /// The name of its user, or the user id if there is no name.
    pub user: Option<String>,
    /// CPU time since the previous sample; all its CPU time if it started since then. `None` in the first sample.
    pub cpu: Option<Seconds>,
    /// CPU time since it started.
    pub cpu_total: Option<Seconds>,
    /// Its resident memory.
    pub memory: Option<Bytes>,
    /// Its use of GPUs.
    pub gpus: Vec<GpuUse>,
}

/// The use of one GPU by a process.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuUse {
    /// The GPU.
    pub device: DeviceId,
    /// Its GPU memory.
    pub memory: Option<Bytes>,
    /// The share of time since the previous sample in which its kernels ran, in percent.
    pub utilization_pct: Option<f64>,
    /// The share of time since the previous sample in which it accessed the GPU's memory, in percent.
    pub memory_utilization_pct: Option<f64>,
}
