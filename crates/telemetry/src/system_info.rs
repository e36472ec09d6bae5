//! The description of a machine in a run folder or a recording.

use serde::{Deserialize, Serialize};

/// The operating system, host name and processors of a machine. A field is `None` if the system does not report it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SystemInfo {
    /// The name of the operating system: `Debian GNU/Linux`.
    pub os_name: Option<String>,
    /// The version of the operating system: `12`.
    pub os_version: Option<String>,
    /// The version of the kernel: `6.1.0-18-amd64`.
    pub kernel_version: Option<String>,
    /// The host name.
    pub host_name: Option<String>,
    /// The number of logical processors.
    pub cpu_count: Option<u32>,
    /// The name of the processor: `AMD EPYC 9654 96-Core Processor`.
    pub cpu_brand: Option<String>,
}
