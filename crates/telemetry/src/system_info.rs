//! The description of a machine that a run folder and a recording carry.

use serde::{Deserialize, Serialize};

/// The operating system, host name and processors of a machine. A field is `None` where the system does not report it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SystemInfo {
    /// `Debian GNU/Linux`.
    pub os_name: Option<String>,
    /// `12`.
    pub os_version: Option<String>,
    /// `6.1.0-18-amd64`.
    pub kernel_version: Option<String>,
    /// The machine's name in its network.
    pub host_name: Option<String>,
    /// Logical processors.
    pub cpu_count: Option<u32>,
    /// `AMD EPYC 9654 96-Core Processor`.
    pub cpu_brand: Option<String>,
}
