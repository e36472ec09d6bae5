//! A scripted NVML for tests, with controlled values and a controlled clock.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ergometer_telemetry::DeviceId;
use ergometer_units::{Bytes, Celsius, Watts};

use super::library::{
    Activity, ClockDomain, Context, GpuProcess, Memory, Nvml, NvmlError, PowerField, ProcessSample, Ring, RingSample,
    Utilization,
};
use super::{Now, Target};

/// A clock that a test controls.
#[derive(Clone)]
pub(crate) struct Time(Arc<Mutex<Instant>>);

impl Time {
    pub(crate) fn start() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    pub(crate) fn now(&self) -> Instant {
        *self.0.lock().unwrap()
    }

    pub(crate) fn pass(&self, time: Duration) {
        *self.0.lock().unwrap() += time;
    }

    pub(super) fn source(&self) -> Now {
        let time = self.clone();
        Arc::new(move || time.now())
    }
}

/// The values of one GPU.
#[derive(Clone)]
pub(crate) struct Script {
    pub(crate) name: Result<String, NvmlError>,
    pub(crate) mig: bool,
    pub(crate) energy: Result<u64, NvmlError>,
    /// How long a read of the energy counter blocks.
    pub(crate) energy_takes: Duration,
    pub(crate) power_ring: Result<Vec<RingSample>, NvmlError>,
    pub(crate) utilization_ring: Result<Vec<RingSample>, NvmlError>,
    pub(crate) power: Result<Watts, NvmlError>,
    pub(crate) memory_power: Result<Watts, NvmlError>,
    pub(crate) temperature: Result<Celsius, NvmlError>,
    pub(crate) throttle_reasons: Result<u64, NvmlError>,
    pub(crate) utilization: Result<Utilization, NvmlError>,
    pub(crate) activity: Result<Option<Activity>, NvmlError>,
    pub(crate) compute: Result<Vec<GpuProcess>, NvmlError>,
    pub(crate) graphics: Result<Vec<GpuProcess>, NvmlError>,
    pub(crate) mps: Result<Vec<GpuProcess>, NvmlError>,
    pub(crate) process_utilization: Result<Vec<ProcessSample>, NvmlError>,
}

impl Default for Script {
    /// A GPU that supports everything, at 100 W.
    fn default() -> Self {
        let activity = Activity { sm_percent: Some(80.0), tensor_percent: Some(40.0), dram_percent: None };
        Self {
            name: Ok("NVIDIA H200".into()),
            mig: false,
            energy: Ok(1_000_000),
            energy_takes: Duration::from_millis(4),
            power_ring: Ok(Vec::new()),
            utilization_ring: Ok(Vec::new()),
            power: Ok(Watts::new(100.0)),
            memory_power: Ok(Watts::new(20.0)),
            temperature: Ok(Celsius::new(40.0)),
            throttle_reasons: Ok(0x4),
            utilization: Ok(Utilization { gpu_percent: 50, memory_percent: 10 }),
            activity: Ok(Some(activity)),
            compute: Ok(Vec::new()),
            graphics: Ok(Vec::new()),
            mps: Ok(Vec::new()),
            process_utilization: Ok(Vec::new()),
        }
    }
}

impl Script {
    /// Removes the GPU from the bus: every read fails.
    pub(crate) fn lose(&mut self) {
        let lost = NvmlError::GpuLost;
        self.name = Err(lost.clone());
        self.energy = Err(lost.clone());
        self.power_ring = Err(lost.clone());
        self.utilization_ring = Err(lost.clone());
        self.power = Err(lost.clone());
        self.memory_power = Err(lost.clone());
        self.temperature = Err(lost.clone());
        self.throttle_reasons = Err(lost.clone());
        self.utilization = Err(lost.clone());
        self.activity = Err(lost.clone());
        self.compute = Err(lost.clone());
        self.graphics = Err(lost.clone());
        self.mps = Err(lost.clone());
        self.process_utilization = Err(lost);
    }
}

/// A library with several scripted GPUs.
pub(crate) struct ScriptedNvml {
    time: Time,
    scripts: Mutex<Vec<Script>>,
}

impl ScriptedNvml {
    pub(crate) fn new(time: &Time, scripts: Vec<Script>) -> Arc<Self> {
        Arc::new(Self { time: time.clone(), scripts: Mutex::new(scripts) })
    }

    /// Changes the values of a GPU.
    pub(crate) fn change(&self, gpu: usize, change: impl FnOnce(&mut Script)) {
        change(&mut self.scripts()[gpu]);
    }

    /// The target of a sensor for one of the GPUs.
    pub(super) fn target(self: &Arc<Self>, gpu: u32) -> Target {
        let (device, name) = (DeviceId::gpu(gpu), String::from("NVIDIA H200"));
        Target { nvml: self.clone(), now: self.time.source(), device, name }
    }

    fn scripts(&self) -> MutexGuard<'_, Vec<Script>> {
        self.scripts.lock().unwrap()
    }

    fn script(&self, gpu: u32) -> Script {
        self.scripts()[usize::try_from(gpu).unwrap()].clone()
    }
}

impl Nvml for ScriptedNvml {
    fn driver_version(&self) -> Result<String, NvmlError> {
        Ok("580.159.03".into())
    }

    fn gpu_count(&self) -> Result<u32, NvmlError> {
        Ok(u32::try_from(self.scripts().len()).unwrap())
    }

    fn name(&self, gpu: u32) -> Result<String, NvmlError> {
        self.script(gpu).name
    }

    fn uuid(&self, gpu: u32) -> Result<String, NvmlError> {
        Ok(format!("GPU-{gpu}"))
    }

    fn mig_enabled(&self, gpu: u32) -> Result<bool, NvmlError> {
        Ok(self.script(gpu).mig)
    }

    fn energy_mj(&self, gpu: u32) -> Result<u64, NvmlError> {
        let script = self.script(gpu);
        self.time.pass(script.energy_takes);
        script.energy
    }

    fn ring(&self, gpu: u32, ring: Ring, newer_than_us: u64) -> Result<Vec<RingSample>, NvmlError> {
        let script = self.script(gpu);
        let samples = if ring == Ring::Power { script.power_ring } else { script.utilization_ring };
        Ok(samples?.into_iter().filter(|sample| sample.time_us > newer_than_us).collect())
    }

    fn power(&self, gpu: u32, field: PowerField) -> Result<Watts, NvmlError> {
        let script = self.script(gpu);
        if field == PowerField::MemoryAverage { script.memory_power } else { script.power }
    }

    fn power_limit(&self, _gpu: u32) -> Result<Watts, NvmlError> {
        Ok(Watts::new(700.0))
    }

    fn memory(&self, _gpu: u32) -> Result<Memory, NvmlError> {
        Ok(Memory { used: Bytes::new(1 << 30), total: Bytes::new(139 << 30) })
    }

    fn temperature(&self, gpu: u32) -> Result<Celsius, NvmlError> {
        self.script(gpu).temperature
    }

    fn clock_mhz(&self, _gpu: u32, domain: ClockDomain) -> Result<u32, NvmlError> {
        Ok(if domain == ClockDomain::Sm { 1980 } else { 3201 })
    }

    fn throttle_reasons(&self, gpu: u32) -> Result<u64, NvmlError> {
        self.script(gpu).throttle_reasons
    }

    fn utilization(&self, gpu: u32) -> Result<Utilization, NvmlError> {
        self.script(gpu).utilization
    }

    fn activity(&self, gpu: u32) -> Result<Option<Activity>, NvmlError> {
        self.script(gpu).activity
    }

    fn processes(&self, gpu: u32, context: Context) -> Result<Vec<GpuProcess>, NvmlError> {
        let script = self.script(gpu);
        match context {
            Context::Compute => script.compute,
            Context::Graphics => script.graphics,
            Context::Mps => script.mps,
        }
    }

    fn process_utilization(&self, gpu: u32, newer_than_us: u64) -> Result<Vec<ProcessSample>, NvmlError> {
        let samples = self.script(gpu).process_utilization?;
        Ok(samples.into_iter().filter(|sample| sample.time_us > newer_than_us).collect())
    }
}
