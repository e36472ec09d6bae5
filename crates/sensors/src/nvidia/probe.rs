//! Opens the sensors of NVIDIA GPUs, with a finding for each source.
//!
//! Each source is read once here, so a sensor has only channels that work. A GPU that does not respond is one finding
//! and does not affect the others.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use ergometer_telemetry::{DeviceId, Finding, Probe, Sensor, Status};

use super::energy::{EnergySensor, Steps};
use super::faults::lost_fix;
use super::gauges::{Gauge, GaugeSensor, Pace};
use super::library::{Nvml, NvmlError, Ring};
use super::rings::RingSensor;
use super::system::{OpenError, open};
use super::{Now, Target};

/// Opens the sensors of this machine's GPUs. A machine without an NVIDIA driver has one finding.
#[must_use]
pub fn probe_system() -> Probe {
    match open() {
        Ok(nvml) => {
            let mut found = probe(&nvml);
            if !found.sensors.is_empty() && in_container() {
                let why = "this is a container: energy and power include everything that runs on the GPU, even outside the container";
                found.find("NVIDIA GPUs", "container", Status::Limited { why: why.into(), fix: None });
            }
            found
        }
        Err(error) => {
            let mut found = Probe::default();
            found.find("NVIDIA GPUs", "NVML", open_error_status(&error));
            found
        }
    }
}

/// Opens the sensors of every GPU of a library.
#[must_use]
pub fn probe(nvml: &Arc<dyn Nvml>) -> Probe {
    probe_at(nvml, &(Arc::new(Instant::now) as Now))
}

fn probe_at(nvml: &Arc<dyn Nvml>, now: &Now) -> Probe {
    let mut found = Probe::default();
    match nvml.gpu_count() {
        Ok(0) => {
            let why = "the NVIDIA driver finds no GPU".to_owned();
            let fix = Some("check `lspci | grep -i nvidia`; start a container with `--gpus all`".to_owned());
            found.find("NVIDIA GPUs", "NVML", Status::Absent { why, fix });
        }
        Ok(count) => {
            for gpu in 0..count {
                found.extend(probe_gpu(nvml, now, DeviceId::gpu(gpu)));
            }
        }
        Err(error) => found.find("NVIDIA GPUs", "NVML", Status::Absent { why: error.to_string(), fix: None }),
    }
    found
}

/// The probe of one GPU.
struct GpuProbe<'a> {
    target: &'a Target,
    mig: bool,
    findings: Vec<Finding>,
}

fn probe_gpu(nvml: &Arc<dyn Nvml>, now: &Now, device: DeviceId) -> Probe {
    match try_gpu(nvml, now, device) {
        Ok(found) => found,
        // The findings before the GPU was lost are dropped.
        Err(error) => {
            let fix = match error {
                NvmlError::GpuLost => Some(lost_fix(device)),
                _ => permission_fix(&error),
            };
            let mut found = Probe::default();
            found.find(format!("NVIDIA GPU ({device})"), "NVML", Status::Absent { why: error.to_string(), fix });
            found
        }
    }
}

/// Opens the sensors of one GPU. Fails only if the whole GPU does not respond.
fn try_gpu(nvml: &Arc<dyn Nvml>, now: &Now, device: DeviceId) -> Result<Probe, NvmlError> {
    let name = nvml.name(device.index)?;
    let mig = nvml.mig_enabled(device.index).unwrap_or(false);
    let target = Target { nvml: nvml.clone(), now: now.clone(), device, name };
    let mut gpu_probe = GpuProbe { target: &target, mig, findings: Vec::new() };
    let mut sensors: Vec<Box<dyn Sensor>> = Vec::new();
    if mig {
        gpu_probe.add_mig_finding();
    }
    let has_energy = gpu_probe.energy()?;
    let rings = gpu_probe.rings()?;
    let has_power_ring = rings.contains(&Ring::Power);
    if has_energy {
        let steps = if has_power_ring { Steps::Few } else { Steps::Every };
        sensors.push(Box::new(EnergySensor::new(&target, steps)));
    }
    if !rings.is_empty() {
        sensors.push(Box::new(RingSensor::new(&target, &rings)));
    }
    let gauges = gpu_probe.gauges(rings.contains(&Ring::GpuUtilization))?;
    if !gauges.is_empty() {
        let pace = if has_power_ring { Pace::Slow } else { Pace::Fast };
        sensors.push(Box::new(GaugeSensor::new(&target, &gauges, pace)));
    }
    Ok(Probe { sensors, findings: gpu_probe.findings })
}

impl GpuProbe<'_> {
    fn find(&mut self, source: &str, status: Status) {
        let device = format!("{} ({})", self.target.name, self.target.device);
        self.findings.push(Finding { device, source: source.into(), status });
    }

    /// Adds the finding of a source. Returns whether it works; a lost GPU is an error.
    fn add_finding<T>(&mut self, source: &str, gives: &str, outcome: Result<T, NvmlError>) -> Result<bool, NvmlError> {
        match outcome {
            Ok(_) => {
                self.find(source, Status::Works(gives.into()));
                Ok(true)
            }
            Err(NvmlError::GpuLost) => Err(NvmlError::GpuLost),
            Err(error) => {
                let fix = if source == Gauge::Activity.what() { counter_fix(&error) } else { permission_fix(&error) };
                self.find(source, Status::Absent { why: error.to_string(), fix });
                Ok(false)
            }
        }
    }

    fn add_mig_finding(&mut self) {
        let why = "MIG is enabled: energy and power are those of the whole GPU, not of one instance; utilization and GPU \
                   performance metrics (GPM) are unavailable";
        let fix =
            format!("turn MIG off to measure the whole GPU: `sudo nvidia-smi -i {} -mig 0`", self.target.device.index);
        self.find("MIG", Status::Limited { why: why.into(), fix: Some(fix) });
    }

    fn energy(&mut self) -> Result<bool, NvmlError> {
        let outcome = self.target.nvml.energy_mj(self.target.device.index);
        self.add_finding("energy counter", "energy in millijoules, updated every 100 ms", outcome)
    }

    fn rings(&mut self) -> Result<Vec<Ring>, NvmlError> {
        let gpu = self.target.device.index;
        let mut rings = Vec::new();
        if self.add_finding(
            "power samples",
            "power about every 20 ms, with the driver's timestamps",
            self.target.nvml.ring(gpu, Ring::Power, 0),
        )? {
            rings.push(Ring::Power);
        }
        if !self.mig {
            // Without findings: if there is no ring, the gauge is used instead.
            for ring in [Ring::GpuUtilization, Ring::MemoryUtilization] {
                match self.target.nvml.ring(gpu, ring, 0) {
                    Ok(_) => rings.push(ring),
                    Err(NvmlError::GpuLost) => return Err(NvmlError::GpuLost),
                    Err(_) => {}
                }
            }
        }
        Ok(rings)
    }

    fn gauges(&mut self, utilization_ring: bool) -> Result<Vec<Gauge>, NvmlError> {
        let mut gauges = Vec::new();
        for gauge in Gauge::ALL {
            let per_instance = matches!(gauge, Gauge::Utilization | Gauge::Activity);
            if (self.mig && per_instance) || (utilization_ring && gauge == Gauge::Utilization) {
                continue;
            }
            let outcome = gauge.read(self.target.nvml.as_ref(), self.target.device.index);
            let works = match gauge {
                Gauge::PowerInstant => self.add_finding(gauge.what(), "power every 100 ms", outcome)?,
                Gauge::MemoryPower => self.add_finding(gauge.what(), "power of the memory every 100 ms", outcome)?,
                Gauge::Activity => {
                    self.add_finding(gauge.what(), "activity of SMs, tensor cores and memory", outcome)?
                }
                _ => match outcome {
                    Ok(_) => true,
                    Err(NvmlError::GpuLost) => return Err(NvmlError::GpuLost),
                    Err(_) => false,
                },
            };
            if works {
                gauges.push(gauge);
            }
        }
        Ok(gauges)
    }
}

fn permission_fix(error: &NvmlError) -> Option<String> {
    (*error == NvmlError::NoPermission).then(|| {
        "run as a user or group with access to `/dev/nvidia*` (see `ls -l /dev/nvidia*`); start a container with `--gpus`"
            .to_owned()
    })
}

/// The fix for performance counters, which by default only root may read.
fn counter_fix(error: &NvmlError) -> Option<String> {
    (*error == NvmlError::NoPermission).then(|| {
        "run as root, or `echo options nvidia NVreg_RestrictProfilingToAdminUsers=0 | sudo tee \
         /etc/modprobe.d/nvidia-profiling.conf` and reboot"
            .to_owned()
    })
}

fn open_error_status(error: &OpenError) -> Status {
    let fix = match error {
        OpenError::NoLibrary => Some(
            "if this machine has an NVIDIA GPU, install its driver (https://www.nvidia.com/drivers); start a container \
             with `--gpus all`",
        ),
        OpenError::DriverNotLoaded => Some("run `sudo modprobe nvidia`, then `nvidia-smi`"),
        OpenError::VersionMismatch => Some("reboot to load the kernel module of the new driver"),
        OpenError::NoPermission => {
            Some("run as a user with access to `/dev/nvidia*`; start a container with `--gpus all`")
        }
        OpenError::Other(_) => Some("run `nvidia-smi` for details"),
    };
    Status::Absent { why: error.to_string(), fix: fix.map(str::to_owned) }
}

fn in_container() -> bool {
    ["/.dockerenv", "/run/.containerenv"].iter().any(|mark| Path::new(mark).exists())
}

#[cfg(test)]
mod tests {
    use super::super::gpu_info::gpus;
    use super::super::scripted::{Script, ScriptedNvml, Time};
    use super::*;
    use ergometer_telemetry::{Batch, Clock, SensorError, Signal};

    fn probe_scripts(scripts: Vec<Script>) -> (Arc<ScriptedNvml>, Probe) {
        let time = Time::start();
        let scripted = ScriptedNvml::new(&time, scripts);
        let nvml: Arc<dyn Nvml> = scripted.clone();
        let found = probe_at(&nvml, &time.source());
        (scripted, found)
    }

    fn ids(found: &Probe) -> Vec<&str> {
        found.sensors.iter().map(|sensor| sensor.info().id.as_str()).collect()
    }

    fn status<'a>(found: &'a Probe, source: &str) -> &'a Status {
        &found.findings.iter().find(|finding| finding.source == source).unwrap().status
    }

    fn has(found: &Probe, signal: Signal) -> bool {
        found.sensors.iter().flat_map(|sensor| sensor.channels()).any(|channel| channel.signal == signal)
    }

    #[test]
    fn a_gpu_with_everything_has_three_sensors() {
        let (_, found) = probe_scripts(vec![Script::default()]);
        assert_eq!(ids(&found), ["nvml-energy:0", "nvml-power:0", "nvml-gauges:0"]);
        for source in ["energy counter", "power samples", "instant power", "memory power", "GPM"] {
            assert!(matches!(status(&found, source), Status::Works(_)), "{source}");
        }
        assert!(found.findings.iter().all(|finding| finding.device == "NVIDIA H200 (gpu:0)"));
        let gauges = found.sensors[2].channels();
        assert!(!gauges.iter().any(|channel| channel.signal == Signal::Utilization), "its ring is used");
    }

    #[test]
    fn an_unsupported_source_has_no_channel() {
        let script = Script {
            energy: Err(NvmlError::NotSupported),
            power_ring: Err(NvmlError::NotSupported),
            utilization_ring: Err(NvmlError::NotSupported),
            memory_power: Err(NvmlError::NotSupported),
            throttle_reasons: Err(NvmlError::NotSupported),
            activity: Err(NvmlError::NotSupported),
            ..Script::default()
        };
        let (_, found) = probe_scripts(vec![script]);
        assert_eq!(ids(&found), ["nvml-gauges:0"]);
        assert!(has(&found, Signal::Utilization), "without a ring, the gauge is used");
        assert!(!has(&found, Signal::SmActivity) && !has(&found, Signal::ThrottleReasons));
        assert!(has(&found, Signal::ClockCore));
        assert!(matches!(status(&found, "energy counter"), Status::Absent { fix: None, .. }));
    }

    #[test]
    fn with_mig_only_sources_of_the_whole_gpu_are_used() {
        let (_, found) = probe_scripts(vec![Script { mig: true, ..Script::default() }]);
        let Status::Limited { why, fix } = status(&found, "MIG") else { panic!("{:?}", found.findings) };
        assert!(why.contains("whole GPU") && fix.as_ref().is_some_and(|fix| fix.contains("-mig 0")));
        assert!(has(&found, Signal::Energy) && has(&found, Signal::PowerRing));
        assert!(!has(&found, Signal::Utilization) && !has(&found, Signal::SmActivity));
    }

    #[test]
    fn a_lost_gpu_is_a_finding_and_the_others_are_used() {
        let mut lost = Script::default();
        lost.lose();
        let half_lost = Script { activity: Err(NvmlError::GpuLost), ..Script::default() };
        let (scripted, found) = probe_scripts(vec![lost, half_lost, Script::default()]);
        assert_eq!(ids(&found), ["nvml-energy:2", "nvml-power:2", "nvml-gauges:2"]);
        assert_eq!(found.findings[0].device, "NVIDIA GPU (gpu:0)");
        assert!(matches!(&found.findings[0].status, Status::Absent { fix: Some(fix), .. } if fix.contains("xid")));
        assert_eq!(found.findings[1].device, "NVIDIA GPU (gpu:1)");
        assert_eq!(gpus(scripted.as_ref()).unwrap().len(), 2);
    }

    #[test]
    fn a_lost_gpu_ends_only_its_own_sensors() {
        let (scripted, mut found) = probe_scripts(vec![Script::default(), Script::default()]);
        scripted.change(0, Script::lose);
        let (clock, mut batch) = (Clock::start(), Batch::default());
        for sensor in &mut found.sensors {
            let outcome = sensor.sample(&clock, &mut batch);
            if sensor.info().device == DeviceId::gpu(0) {
                assert!(matches!(outcome, Err(SensorError::Lost { .. })), "{}", sensor.info().id);
            } else {
                outcome.unwrap();
            }
        }
        assert!(!batch.readings.is_empty());
    }

    #[test]
    fn a_missing_permission_has_a_fix() {
        let script = Script {
            energy: Err(NvmlError::NoPermission),
            activity: Err(NvmlError::NoPermission),
            ..Script::default()
        };
        let (_, found) = probe_scripts(vec![script]);
        assert!(
            matches!(status(&found, "energy counter"), Status::Absent { fix: Some(fix), .. } if fix.contains("/dev/nvidia"))
        );
        assert!(
            matches!(status(&found, "GPM"), Status::Absent { fix: Some(fix), .. } if fix.contains("NVreg_Restrict"))
        );
    }

    #[test]
    fn a_machine_without_a_driver_is_one_finding() {
        let Status::Absent { why, fix } = open_error_status(&OpenError::NoLibrary) else { panic!("absent") };
        assert_eq!(why, "no NVIDIA driver found (libnvidia-ml.so.1)");
        assert!(fix.is_some());
        let (_, found) = probe_scripts(Vec::new());
        assert_eq!((found.sensors.len(), found.findings.len()), (0, 1));
    }
}
