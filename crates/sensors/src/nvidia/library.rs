//! The functions of NVML that the sensors use, as a trait, so that tests can replace the GPU.
//!
//! GPUs are identified by their index in the driver's order. Every method may be called from any thread at any time.

use ergometer_units::{Bytes, Celsius, Watts};

/// The functions of NVML that are used here.
pub trait Nvml: Send + Sync {
    /// The driver version, such as `580.159.03`.
    fn driver_version(&self) -> Result<String, NvmlError>;

    /// The number of GPUs, including GPUs that do not respond.
    fn gpu_count(&self) -> Result<u32, NvmlError>;

    /// The product name, such as `NVIDIA H200`.
    fn name(&self, gpu: u32) -> Result<String, NvmlError>;

    /// The unique id of the board, such as `GPU-5e3a…`.
    fn uuid(&self, gpu: u32) -> Result<String, NvmlError>;

    /// Whether the GPU is split into instances (MIG).
    fn mig_enabled(&self, gpu: u32) -> Result<bool, NvmlError>;

    /// The energy counter in millijoules. It is an integer, so that a step is detected by equality. Blocks for
    /// milliseconds.
    fn energy_mj(&self, gpu: u32) -> Result<u64, NvmlError>;

    /// The samples of a ring after a timestamp of the driver (0 for all); possibly none.
    fn ring(&self, gpu: u32, ring: Ring, newer_than_us: u64) -> Result<Vec<RingSample>, NvmlError>;

    /// The current value of a power field.
    fn power(&self, gpu: u32, field: PowerField) -> Result<Watts, NvmlError>;

    /// The current power limit.
    fn power_limit(&self, gpu: u32) -> Result<Watts, NvmlError>;

    /// The memory.
    fn memory(&self, gpu: u32) -> Result<Memory, NvmlError>;

    /// The temperature of the chip.
    fn temperature(&self, gpu: u32) -> Result<Celsius, NvmlError>;

    /// A clock, in megahertz.
    fn clock_mhz(&self, gpu: u32, domain: ClockDomain) -> Result<u32, NvmlError>;

    /// The current throttle reasons: the bits of `nvmlClocksEventReasons`, 0 for nothing.
    fn throttle_reasons(&self, gpu: u32) -> Result<u64, NvmlError>;

    /// The utilization over the driver's last period.
    fn utilization(&self, gpu: u32) -> Result<Utilization, NvmlError>;

    /// The performance counters (GPM) since the previous call, on Hopper and later. The first call only starts a period
    /// and returns `None`. Use one caller per GPU: a second one would shorten the periods of the first.
    fn activity(&self, gpu: u32) -> Result<Option<Activity>, NvmlError>;

    /// The processes that have a context of this kind on the GPU. Their ids are those of the host: inside a container
    /// the same processes have other ids.
    fn processes(&self, gpu: u32, context: Context) -> Result<Vec<GpuProcess>, NvmlError>;

    /// The utilization of the GPU by process after a timestamp of the driver. Idle processes are not included.
    fn process_utilization(&self, gpu: u32, newer_than_us: u64) -> Result<Vec<ProcessSample>, NvmlError>;
}

/// Why NVML returned no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NvmlError {
    /// The GPU or its driver does not support it.
    #[error("not supported by this GPU or its driver")]
    NotSupported,
    /// The GPU has fallen off the bus, was removed, or needs a reset.
    #[error("the GPU has fallen off the bus or needs a reset")]
    GpuLost,
    /// This user has no permission to read it.
    #[error("this user has no permission")]
    NoPermission,
    /// Any other error, with the driver's message.
    #[error("{0}")]
    Other(String),
}

/// A ring of samples that the driver fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ring {
    /// The power of the board.
    Power,
    /// The share of time in which a kernel ran.
    GpuUtilization,
    /// The share of time in which memory was read or written.
    MemoryUtilization,
}

/// One sample of a ring.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RingSample {
    /// The driver's timestamp: microseconds since the Unix epoch by the system's wall clock.
    pub time_us: u64,
    /// Watts for [`Ring::Power`], percent for the others.
    pub value: f64,
}

/// A power field that the driver updates every 100 ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerField {
    /// The current power of the board; a window of about 25 ms on an H200.
    Instant,
    /// The mean power of the board over about a second, on Ampere and later.
    Average,
    /// The mean power of the memory over the same time.
    MemoryAverage,
}

/// A clock of the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockDomain {
    /// The streaming multiprocessors.
    Sm,
    /// The memory.
    Memory,
}

/// The GPU's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// The used memory, without the driver's reserve.
    pub used: Bytes,
    /// The total memory.
    pub total: Bytes,
}

/// Utilization in percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Utilization {
    /// The share of time in which a kernel ran.
    pub gpu_percent: u32,
    /// The share of time in which memory was read or written.
    pub memory_percent: u32,
}

/// Performance counters over a period, in percent. A counter that the GPU does not have is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Activity {
    /// The share of multiprocessors with at least one warp.
    pub sm_percent: Option<f64>,
    /// The utilization of the tensor cores.
    pub tensor_percent: Option<f64>,
    /// The used share of the memory bandwidth.
    pub dram_percent: Option<f64>,
}

/// The kind of context that a process has on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Context {
    /// A compute context, for example of a CUDA program.
    Compute,
    /// A graphics context.
    Graphics,
    /// A compute context through the multi-process service (MPS).
    Mps,
}

/// A process with a context on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuProcess {
    /// Its process id on the host.
    pub id: u32,
    /// Its GPU memory. `None` if the driver does not report it, as on Windows.
    pub memory: Option<Bytes>,
}

/// The utilization of a GPU by one process over the driver's period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessSample {
    /// Its process id on the host.
    pub id: u32,
    /// The driver's timestamp: microseconds since the Unix epoch by the system's wall clock.
    pub time_us: u64,
    /// The utilization in percent.
    pub utilization: Utilization,
}
