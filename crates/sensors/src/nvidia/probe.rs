//! What of this machine's NVIDIA GPUs can be read, and what to do about the rest.
//!
//! In: an [`Nvml`]. Out: the sensors of what works and a finding for each source, with the reason where it does not.
//! Every source is tried once, here; a sensor then has only channels that answered.
//!
//! Always: a GPU that does not answer is one finding, and the others are probed all the same.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::energy::{EnergySensor, Steps};
use super::faults::lost_fix;
use super::gauges::{Gauge, GaugeSensor, Pace};
use super::library::{Nvml, NvmlError, Ring};
use super::rings::RingSensor;
use super::system::{OpenError, open};
use super::{Now, Target};
use ergometer_telemetry::{DeviceId, Finding, Probe, Sensor, Status};

/// Probes this machine. A machine without an NVIDIA driver is one finding and no error.
#[must_use]
pub fn probe_system() -> Probe {
    match open() {
        Ok(nvml) => {
            let mut found = probe(&nvml);
            if !found.sensors.is_empty() && in_container() {
                let why =
                    "this is a container: energy and power are those of the whole GPU, with all that others run on it";
                found.find("NVIDIA GPUs", "container", Status::Limited { why: why.into(), fix: None });
            }
            found
        }
        Err(error) => {
            let mut found = Probe::default();
            found.find("NVIDIA GPUs", "NVML", not_open(&error));
            found
        }
    }
}

/// Probes every GPU of a library.
#[must_use]
pub fn probe(nvml: &Arc<dyn Nvml>) -> Probe {
    probe_at(nvml, &(Arc::new(Instant::now) as Now))
}

fn probe_at(nvml: &Arc<dyn Nvml>, now: &Now) -> Probe {
    let mut found = Probe::default();
    match nvml.gpu_count() {
        Ok(0) => {
            let why = "the NVIDIA driver finds no GPU".to_owned();
            let fix = Some("`lspci | grep -i nvidia`; in a container, start it with `--gpus all`".to_owned());
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

/// What trying the sources of one GPU gathers.
struct Trial<'a> {
    target: &'a Target,
    mig: bool,
    findings: Vec<Finding>,
}

fn probe_gpu(nvml: &Arc<dyn Nvml>, now: &Now, device: DeviceId) -> Probe {
    match try_gpu(nvml, now, device) {
        Ok(found) => found,
        // Whatever of it was found before it went is of no use.
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

/// Fails only where the GPU as a whole does not answer.
fn try_gpu(nvml: &Arc<dyn Nvml>, now: &Now, device: DeviceId) -> Result<Probe, NvmlError> {
    let name = nvml.name(device.index)?;
    let mig = nvml.mig_enabled(device.index).unwrap_or(false);
    let target = Target { nvml: nvml.clone(), now: now.clone(), device, name };
    let mut trial = Trial { target: &target, mig, findings: Vec::new() };
    let mut sensors: Vec<Box<dyn Sensor>> = Vec::new();
    if mig {
        trial.say_mig();
    }
    let has_energy = trial.energy()?;
    let rings = trial.rings()?;
    let has_power_ring = rings.contains(&Ring::Power);
    if has_energy {
        let steps = if has_power_ring { Steps::Few } else { Steps::Every };
        sensors.push(Box::new(EnergySensor::new(&target, steps)));
    }
    if !rings.is_empty() {
        sensors.push(Box::new(RingSensor::new(&target, &rings)));
    }
    let gauges = trial.gauges(rings.contains(&Ring::GpuUtilization))?;
    if !gauges.is_empty() {
        let pace = if has_power_ring { Pace::Calm } else { Pace::Brisk };
        sensors.push(Box::new(GaugeSensor::new(&target, &gauges, pace)));
    }
    Ok(Probe { sensors, findings: trial.findings })
}

impl Trial<'_> {
    fn find(&mut self, source: &str, status: Status) {
        let device = format!("{} ({})", self.target.name, self.target.device);
        self.findings.push(Finding { device, source: source.into(), status });
    }

    /// Judges one source; a lost GPU ends the trial.
    fn judge<T>(&mut self, source: &str, gives: &str, outcome: Result<T, NvmlError>) -> Result<bool, NvmlError> {
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

    fn say_mig(&mut self) {
        let why = "MIG is enabled: energy and power are those of the whole GPU, not of one instance; utilization and GPM \
                   are per instance and not available";
        let fix = format!(
            "to measure the GPU as one, turn MIG off: `sudo nvidia-smi -i {} -mig 0`",
            self.target.device.index
        );
        self.find("MIG", Status::Limited { why: why.into(), fix: Some(fix) });
    }

    fn energy(&mut self) -> Result<bool, NvmlError> {
        let outcome = self.target.nvml.energy_mj(self.target.device.index);
        self.judge("energy counter", "millijoules, timed on the edges of its steps", outcome)
    }

    fn rings(&mut self) -> Result<Vec<Ring>, NvmlError> {
        let gpu = self.target.device.index;
        let mut rings = Vec::new();
        if self.judge(
            "power ring",
            "power about every 20 ms, at the driver's times",
            self.target.nvml.ring(gpu, Ring::Power, 0),
        )? {
            rings.push(Ring::Power);
        }
        if !self.mig {
            // Not findings of their own: where there is no ring, the gauge takes its place.
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
                Gauge::PowerInstant => self.judge(gauge.what(), "power every 100 ms", outcome)?,
                Gauge::MemoryPower => self.judge(gauge.what(), "power of the memory every 100 ms", outcome)?,
                Gauge::Activity => self.judge(gauge.what(), "activity of SMs, tensor cores and memory", outcome)?,
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
        "`ls -l /dev/nvidia*` shows who may; run as that user or group, and in a container pass the GPU in with `--gpus`"
            .to_owned()
    })
}

/// The driver lets only the administrator read performance counters unless told otherwise.
fn counter_fix(error: &NvmlError) -> Option<String> {
    (*error == NvmlError::NoPermission).then(|| {
        "run as root, or `echo options nvidia NVreg_RestrictProfilingToAdminUsers=0 | sudo tee \
         /etc/modprobe.d/nvidia-profiling.conf` and reboot"
            .to_owned()
    })
}

fn not_open(error: &OpenError) -> Status {
    let fix = match error {
        OpenError::NoLibrary => Some(
            "with an NVIDIA GPU: install its driver (https://www.nvidia.com/drivers); in a container, start it with \
             `--gpus all`",
        ),
        OpenError::DriverNotLoaded => Some("`sudo modprobe nvidia`, then `nvidia-smi`"),
        OpenError::VersionMismatch => Some("reboot, so that the new driver's kernel module is loaded"),
        OpenError::NoPermission => {
            Some("`ls -l /dev/nvidia*` shows who may; in a container, start it with `--gpus all`")
        }
        OpenError::Other(_) => Some("`nvidia-smi` may say more"),
    };
    Status::Absent { why: error.to_string(), fix: fix.map(str::to_owned) }
}

fn in_container() -> bool {
    ["/.dockerenv", "/run/.containerenv"].iter().any(|mark| Path::new(mark).exists())
}

#[cfg(test)]
mod tests {
    use super::super::gpu_info::gpus;
    use super::super::scripted::{Script, Scripted, Time};
    use super::*;
    use ergometer_telemetry::{Batch, Clock, SensorError, Signal};

    fn probe_scripts(scripts: Vec<Script>) -> (Arc<Scripted>, Probe) {
        let time = Time::start();
        let scripted = Scripted::new(&time, scripts);
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
        for source in ["energy counter", "power ring", "instant power", "memory power", "GPM"] {
            assert!(matches!(status(&found, source), Status::Works(_)), "{source}");
        }
        assert!(found.findings.iter().all(|finding| finding.device == "NVIDIA H200 (gpu:0)"));
        let gauges = found.sensors[2].channels();
        assert!(!gauges.iter().any(|channel| channel.signal == Signal::Utilization), "its ring is better");
    }

    #[test]
    fn what_is_not_supported_has_no_channel() {
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
        assert!(has(&found, Signal::Utilization), "without a ring it is a gauge");
        assert!(!has(&found, Signal::SmActivity) && !has(&found, Signal::ThrottleReasons));
        assert!(has(&found, Signal::ClockCore));
        assert!(matches!(status(&found, "energy counter"), Status::Absent { fix: None, .. }));
    }

    #[test]
    fn mig_is_explained_and_leaves_what_covers_the_whole_gpu() {
        let (_, found) = probe_scripts(vec![Script { mig: true, ..Script::default() }]);
        let Status::Limited { why, fix } = status(&found, "MIG") else { panic!("{:?}", found.findings) };
        assert!(why.contains("whole GPU") && fix.as_ref().is_some_and(|fix| fix.contains("-mig 0")));
        assert!(has(&found, Signal::Energy) && has(&found, Signal::PowerRing));
        assert!(!has(&found, Signal::Utilization) && !has(&found, Signal::SmActivity));
    }

    #[test]
    fn a_gpu_that_is_lost_is_a_finding_and_the_others_go_on() {
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
    fn a_gpu_that_falls_off_the_bus_ends_its_own_sensors_only() {
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
    fn a_missing_permission_comes_with_its_fix() {
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
        let Status::Absent { why, fix } = not_open(&OpenError::NoLibrary) else { panic!("absent") };
        assert_eq!(why, "no NVIDIA driver found (libnvidia-ml.so.1)");
        assert!(fix.is_some());
        let (_, found) = probe_scripts(Vec::new());
        assert_eq!((found.sensors.len(), found.findings.len()), (0, 1));
    }
}
