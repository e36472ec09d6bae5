//! What the sensors ask of NVML, in plain types of our own, so that a script can stand in for a GPU.
//!
//! In: the index of a GPU in the driver's order. Out: one value, or why there is none. Every method may be called from
//! any thread at any time.

use ergometer_units::{Bytes, Celsius, Watts};

/// NVML, as far as it is needed here.
pub trait Nvml: Send + Sync {
    /// The version of the driver, such as `580.159.03`.
    fn driver_version(&self) -> Result<String, NvmlError>;

    /// How many GPUs there are, also those that do not answer.
    fn gpu_count(&self) -> Result<u32, NvmlError>;

    /// The product's name, such as `NVIDIA H200`.
    fn name(&self, gpu: u32) -> Result<String, NvmlError>;

    /// The id that stays with the board, such as `GPU-5e3a…`.
    fn uuid(&self, gpu: u32) -> Result<String, NvmlError>;

    /// Whether the GPU is split into instances (MIG).
    fn mig_enabled(&self, gpu: u32) -> Result<bool, NvmlError>;

    /// The energy counter in millijoules. An integer, so that an edge is told by equality. Blocks for milliseconds.
    fn energy_mj(&self, gpu: u32) -> Result<u64, NvmlError>;

    /// The samples of a ring that are newer than a time of the driver's clock (0 for all), possibly none.
    fn ring(&self, gpu: u32, ring: Ring, newer_than_us: u64) -> Result<Vec<RingSample>, NvmlError>;

    /// A power the driver keeps.
    fn power(&self, gpu: u32, field: PowerField) -> Result<Watts, NvmlError>;

    /// The power the GPU is held to now.
    fn power_limit(&self, gpu: u32) -> Result<Watts, NvmlError>;

    /// The memory.
    fn memory(&self, gpu: u32) -> Result<Memory, NvmlError>;

    /// The temperature of the chip.
    fn temperature(&self, gpu: u32) -> Result<Celsius, NvmlError>;

    /// A clock, in megahertz.
    fn clock_mhz(&self, gpu: u32, domain: ClockDomain) -> Result<u32, NvmlError>;

    /// What holds the clocks back now: the bits of `nvmlClocksEventReasons`, 0 for nothing.
    fn throttle_reasons(&self, gpu: u32) -> Result<u64, NvmlError>;

    /// The utilization over the driver's last period.
    fn utilization(&self, gpu: u32) -> Result<Utilization, NvmlError>;

    /// The performance counters (GPM) since the call before, on Hopper and later; `None` at the first call, which only
    /// begins a period. One caller per GPU: a second would cut the first one's periods.
    fn activity(&self, gpu: u32) -> Result<Option<Activity>, NvmlError>;

    /// The processes that hold a context of this kind on the GPU, by the ids of the driver's own machine: in a container
    /// they are not those of here.
    fn processes(&self, gpu: u32, context: Context) -> Result<Vec<GpuProcess>, NvmlError>;

    /// What processes used of the GPU after a time of the driver's clock, those that used anything; possibly none.
    fn process_utilization(&self, gpu: u32, newer_than_us: u64) -> Result<Vec<ProcessSample>, NvmlError>;
}

/// Why NVML gave no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NvmlError {
    /// This GPU or this driver does not have it.
    #[error("not supported by this GPU or its driver")]
    NotSupported,
    /// The GPU has fallen off the bus, is gone, or needs a reset.
    #[error("the GPU has fallen off the bus or needs a reset")]
    GpuLost,
    /// This user may not read it.
    #[error("this user has no permission")]
    NoPermission,
    /// Anything else, in the driver's words.
    #[error("{0}")]
    Other(String),
}

/// A ring of samples that the driver takes at its own times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ring {
    /// Power of the board.
    Power,
    /// Share of time in which a kernel ran.
    GpuUtilization,
    /// Share of time in which memory was read or written.
    MemoryUtilization,
}

/// One sample of a ring.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RingSample {
    /// When the driver took it, in microseconds since the Unix epoch by the system's wall clock.
    pub time_us: u64,
    /// Watts for [`Ring::Power`], percent for the others.
    pub value: f64,
}

/// A power the driver keeps and renews every 100 ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerField {
    /// Of the board now; a window of about 25 ms on an H200.
    Instant,
    /// Of the board, averaged over about a second on Ampere and later.
    Average,
    /// Of the memory, averaged likewise.
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
    /// In use, without what the driver keeps for itself.
    pub used: Bytes,
    /// All there is.
    pub total: Bytes,
}

/// Utilization, both in percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Utilization {
    /// Share of time in which a kernel ran.
    pub gpu_percent: u32,
    /// Share of time in which memory was read or written.
    pub memory_percent: u32,
}

/// Performance counters over a period, in percent; what the GPU does not count is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Activity {
    /// Multiprocessors with at least one warp.
    pub sm_percent: Option<f64>,
    /// Tensor cores at work.
    pub tensor_percent: Option<f64>,
    /// Memory bandwidth used.
    pub dram_percent: Option<f64>,
}

/// What a process holds on a GPU to work on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Context {
    /// To compute, as a CUDA program does.
    Compute,
    /// To draw.
    Graphics,
    /// To compute through the multi-process service (MPS).
    Mps,
}

/// A process that holds a context on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuProcess {
    /// Its id on the driver's machine.
    pub id: u32,
    /// Its memory there; `None` where the driver does not tell it, as on Windows.
    pub memory: Option<Bytes>,
}

/// What a process used of a GPU over the driver's period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessSample {
    /// Its id on the driver's machine.
    pub id: u32,
    /// When the driver took it, in microseconds since the Unix epoch by the system's wall clock.
    pub time_us: u64,
    /// Both in percent.
    pub utilization: Utilization,
}
