//! Loads the real NVML (`libnvidia-ml.so.1`) at run time.
//!
//! The library is loaded once and never unloaded. So handles and counter samples are `'static`, and no thread can shut
//! NVML down while another one reads.

use std::ffi::OsStr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ergometer_units::{Bytes, Celsius, Watts};
use nvml_wrapper::enum_wrappers::device::{Clock, Sampling, TemperatureSensor};
use nvml_wrapper::enums::device::{SampleValue, UsedGpuMemory};
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError as WrapperError;
use nvml_wrapper::gpm::gpm_metrics_get;
use nvml_wrapper::struct_wrappers::device::{ProcessInfo, ProcessUtilizationSample, Sample};
use nvml_wrapper::{Device, GpmSample};

use super::library::{
    Activity, ClockDomain, Context, GpuProcess, Memory, Nvml, NvmlError, PowerField, ProcessSample, Ring, RingSample,
    Utilization,
};
use super::scoped_power;

/// The names of the library. The first comes with the driver, the second with the development package.
const NAMES: [&str; 2] = ["libnvidia-ml.so.1", "libnvidia-ml.so"];

/// The library, and the process that initialized it: a forked child must initialize it again, or NVML fails.
static LIBRARY: OnceLock<(u32, nvml_wrapper::Nvml)> = OnceLock::new();

/// Why NVML cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The library does not exist.
    #[error("no NVIDIA driver found (libnvidia-ml.so.1)")]
    NoLibrary,
    /// The library exists, but the kernel module is not loaded.
    #[error("the NVIDIA driver is installed but its kernel module is not loaded")]
    DriverNotLoaded,
    /// The library and the kernel module have different versions, for example after an update without a reboot.
    #[error("the NVIDIA library and the loaded kernel module have different versions")]
    VersionMismatch,
    /// This user has no permission to use the driver.
    #[error("this user has no permission to use the NVIDIA driver")]
    NoPermission,
    /// Any other error, with the driver's message.
    #[error("cannot initialize NVML: {0}")]
    Other(String),
}

/// Loads and initializes NVML, or shares it if that was already done.
pub fn open() -> Result<Arc<dyn Nvml>, OpenError> {
    let process = std::process::id();
    let library = match LIBRARY.get() {
        Some((owner, library)) if *owner == process => library,
        // In a forked child. No lock is taken here, because it might be held forever. Each call initializes the library
        // again, which NVML counts, and leaks some kilobytes.
        Some(_) => Box::leak(Box::new(start()?)),
        None => {
            let started = start()?;
            // If two threads initialize it, the second copy is dropped; NVML counts its users.
            &LIBRARY.get_or_init(|| (process, started)).1
        }
    };
    let count = library.device_count().map_err(|error| OpenError::Other(error.to_string()))?;
    let gpus = (0..count).map(|_| Gpu::default()).collect();
    Ok(Arc::new(System { library, gpus }))
}

fn start() -> Result<nvml_wrapper::Nvml, OpenError> {
    let mut missing = OpenError::NoLibrary;
    for name in NAMES {
        match nvml_wrapper::Nvml::builder().lib_path(OsStr::new(name)).init() {
            Ok(library) => return Ok(library),
            Err(error) => match open_error(&error) {
                // Only after this error the other name may work.
                OpenError::NoLibrary => missing = OpenError::NoLibrary,
                other => return Err(other),
            },
        }
    }
    Err(missing)
}

fn open_error(error: &WrapperError) -> OpenError {
    match error {
        WrapperError::LibloadingError(_) | WrapperError::LibraryNotFound => OpenError::NoLibrary,
        WrapperError::DriverNotLoaded => OpenError::DriverNotLoaded,
        WrapperError::LibRmVersionMismatch => OpenError::VersionMismatch,
        WrapperError::NoPermission | WrapperError::OperatingSystem => OpenError::NoPermission,
        other => OpenError::Other(other.to_string()),
    }
}

/// `NVML_ERROR_GPU_NOT_FOUND`, which nvml-wrapper 0.13 does not name.
const GPU_NOT_FOUND: u32 = 28;

impl From<WrapperError> for NvmlError {
    fn from(error: WrapperError) -> Self {
        match error {
            // A function that is missing in an old driver is also not supported.
            WrapperError::NotSupported | WrapperError::FunctionNotFound | WrapperError::FailedToLoadSymbol(_) => {
                Self::NotSupported
            }
            WrapperError::GpuLost | WrapperError::ResetRequired | WrapperError::UnexpectedVariant(GPU_NOT_FOUND) => {
                Self::GpuLost
            }
            WrapperError::NoPermission | WrapperError::OperatingSystem => Self::NoPermission,
            other => Self::Other(other.to_string()),
        }
    }
}

struct System {
    library: &'static nvml_wrapper::Nvml,
    gpus: Vec<Gpu>,
}

#[derive(Default)]
struct Gpu {
    /// Looked up once, because the lookup takes a lock that a blocking read of another thread may hold.
    handle: OnceLock<Device<'static>>,
    /// The performance counters at the last call.
    counters: Mutex<Option<GpmSample<'static>>>,
}

impl System {
    fn gpu(&self, gpu: u32) -> Result<&Gpu, NvmlError> {
        let index = usize::try_from(gpu).unwrap_or(usize::MAX);
        self.gpus.get(index).ok_or_else(|| NvmlError::Other(format!("there is no GPU {gpu}")))
    }

    fn device(&self, gpu: u32) -> Result<&Device<'static>, NvmlError> {
        let slot = &self.gpu(gpu)?.handle;
        if let Some(device) = slot.get() {
            return Ok(device);
        }
        let device = self.library.device_by_index(gpu)?;
        Ok(slot.get_or_init(|| device))
    }
}

impl Nvml for System {
    fn driver_version(&self) -> Result<String, NvmlError> {
        Ok(self.library.sys_driver_version()?)
    }

    fn gpu_count(&self) -> Result<u32, NvmlError> {
        Ok(u32::try_from(self.gpus.len()).unwrap_or(u32::MAX))
    }

    fn name(&self, gpu: u32) -> Result<String, NvmlError> {
        Ok(self.device(gpu)?.name()?)
    }

    fn uuid(&self, gpu: u32) -> Result<String, NvmlError> {
        Ok(self.device(gpu)?.uuid()?)
    }

    fn mig_enabled(&self, gpu: u32) -> Result<bool, NvmlError> {
        match self.device(gpu)?.mig_mode().map_err(NvmlError::from) {
            Ok(mode) => Ok(mode.current != 0),
            Err(NvmlError::NotSupported) => Ok(false),
            Err(other) => Err(other),
        }
    }

    fn energy_mj(&self, gpu: u32) -> Result<u64, NvmlError> {
        Ok(self.device(gpu)?.total_energy_consumption()?)
    }

    fn ring(&self, gpu: u32, ring: Ring, newer_than_us: u64) -> Result<Vec<RingSample>, NvmlError> {
        let (kind, unit) = match ring {
            Ring::Power => (Sampling::Power, 1e-3),
            Ring::GpuUtilization => (Sampling::GpuUtilization, 1.0),
            Ring::MemoryUtilization => (Sampling::MemoryUtilization, 1.0),
        };
        match self.device(gpu)?.samples(kind, newer_than_us) {
            Ok(samples) => Ok(samples.iter().map(|sample| ring_sample(sample, unit)).collect()),
            // NVML returns these if there are no newer samples.
            Err(WrapperError::NotFound | WrapperError::NoData) => Ok(Vec::new()),
            Err(other) => Err(other.into()),
        }
    }

    fn power(&self, gpu: u32, field: PowerField) -> Result<Watts, NvmlError> {
        let power_mw = scoped_power::read_mw(self.device(gpu)?, field)?;
        Ok(Watts::from_millis(f64::from(power_mw)))
    }

    fn power_limit(&self, gpu: u32) -> Result<Watts, NvmlError> {
        let power_mw = self.device(gpu)?.enforced_power_limit()?;
        Ok(Watts::from_millis(f64::from(power_mw)))
    }

    fn memory(&self, gpu: u32) -> Result<Memory, NvmlError> {
        let memory = self.device(gpu)?.memory_info()?;
        Ok(Memory { used: Bytes::new(memory.used), total: Bytes::new(memory.total) })
    }

    fn temperature(&self, gpu: u32) -> Result<Celsius, NvmlError> {
        let degrees = self.device(gpu)?.temperature(TemperatureSensor::Gpu)?;
        Ok(Celsius::new(f64::from(degrees)))
    }

    fn clock_mhz(&self, gpu: u32, domain: ClockDomain) -> Result<u32, NvmlError> {
        let clock = match domain {
            ClockDomain::Sm => Clock::SM,
            ClockDomain::Memory => Clock::Memory,
        };
        Ok(self.device(gpu)?.clock_info(clock)?)
    }

    fn throttle_reasons(&self, gpu: u32) -> Result<u64, NvmlError> {
        // Bits that this version of the wrapper does not know are dropped.
        Ok(self.device(gpu)?.current_throttle_reasons()?.bits())
    }

    fn utilization(&self, gpu: u32) -> Result<Utilization, NvmlError> {
        let rates = self.device(gpu)?.utilization_rates()?;
        Ok(Utilization { gpu_percent: rates.gpu, memory_percent: rates.memory })
    }

    fn activity(&self, gpu: u32) -> Result<Option<Activity>, NvmlError> {
        const METRICS: [GpmMetricId; 3] = [GpmMetricId::SmUtil, GpmMetricId::AnyTensorUtil, GpmMetricId::DramBwUtil];
        let device = self.device(gpu)?;
        let mut counters = self.gpu(gpu)?.counters.lock().unwrap_or_else(PoisonError::into_inner);
        if counters.is_none() && !device.gpm_support()? {
            return Err(NvmlError::NotSupported);
        }
        let now = device.gpm_sample()?;
        let activity = match counters.as_ref() {
            None => None,
            Some(before) => {
                let found = gpm_metrics_get(self.library, before, &now, &METRICS)?;
                // A metric that the GPU does not support is an error or NaN.
                let mut values = found.into_iter().map(|metric| metric.ok().map(|metric| metric.value));
                let mut next = || values.next().flatten().filter(|value| value.is_finite());
                Some(Activity { sm_percent: next(), tensor_percent: next(), dram_percent: next() })
            }
        };
        *counters = Some(now);
        Ok(activity)
    }

    fn processes(&self, gpu: u32, context: Context) -> Result<Vec<GpuProcess>, NvmlError> {
        let device = self.device(gpu)?;
        let found = match context {
            Context::Compute => device.running_compute_processes()?,
            Context::Graphics => device.running_graphics_processes()?,
            Context::Mps => device.mps_running_compute_processes()?,
        };
        Ok(found.iter().map(gpu_process).collect())
    }

    fn process_utilization(&self, gpu: u32, newer_than_us: u64) -> Result<Vec<ProcessSample>, NvmlError> {
        match self.device(gpu)?.process_utilization_stats(newer_than_us) {
            Ok(samples) => Ok(samples.iter().map(process_sample).collect()),
            // NVML returns these if no process used the GPU.
            Err(WrapperError::NotFound | WrapperError::NoData) => Ok(Vec::new()),
            Err(other) => Err(other.into()),
        }
    }
}

fn gpu_process(found: &ProcessInfo) -> GpuProcess {
    let memory = match found.used_gpu_memory {
        UsedGpuMemory::Used(bytes) => Some(Bytes::new(bytes)),
        UsedGpuMemory::Unavailable => None,
    };
    GpuProcess { id: found.pid, memory }
}

fn process_sample(sample: &ProcessUtilizationSample) -> ProcessSample {
    let utilization = Utilization { gpu_percent: sample.sm_util, memory_percent: sample.mem_util };
    ProcessSample { id: sample.pid, time_us: sample.timestamp, utilization }
}

fn ring_sample(sample: &Sample, unit: f64) -> RingSample {
    let value = match sample.value {
        SampleValue::F64(value) => value,
        SampleValue::U32(value) => f64::from(value),
        SampleValue::U64(value) => value as f64,
        SampleValue::I64(value) => value as f64,
    };
    RingSample { time_us: sample.timestamp, value: value * unit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn driver_errors_are_distinguished() {
        assert_eq!(NvmlError::from(WrapperError::NotSupported), NvmlError::NotSupported);
        for lost in [WrapperError::GpuLost, WrapperError::ResetRequired, WrapperError::from(28)] {
            assert_eq!(NvmlError::from(lost), NvmlError::GpuLost);
        }
        assert_eq!(NvmlError::from(WrapperError::NoPermission), NvmlError::NoPermission);
        assert!(matches!(NvmlError::from(WrapperError::Unknown), NvmlError::Other(_)));
    }

    #[test]
    fn memory_that_the_driver_does_not_report_is_absent() {
        let found = |used_gpu_memory| {
            let (gpu_instance_id, compute_instance_id) = (None, None);
            gpu_process(&ProcessInfo { pid: 4711, used_gpu_memory, gpu_instance_id, compute_instance_id })
        };
        assert_eq!(found(UsedGpuMemory::from(u64::MAX)), GpuProcess { id: 4711, memory: None });
        assert_eq!(found(UsedGpuMemory::Used(1 << 30)).memory, Some(Bytes::new(1 << 30)));
    }

    #[test]
    fn a_missing_library_is_its_own_error() {
        let error = nvml_wrapper::Nvml::builder().lib_path(OsStr::new("libno-such-library.so.1")).init().unwrap_err();
        assert_eq!(open_error(&error), OpenError::NoLibrary);
        assert_eq!(open_error(&WrapperError::DriverNotLoaded), OpenError::DriverNotLoaded);
    }
}
