//! Models CPU power where no sensor measures it: idle W + (TDP - idle W) x utilization.
//!
//! The inputs are the processor's name, the number of its threads that this machine has, and its utilization.
//! Modelled power always has the signal `power_modelled` and the provenance `modelled`, so it is never added to
//! measured power. The model is not used if a CPU package is measured, or if it is switched off.

mod processor;

use std::path::PathBuf;
use std::time::Duration;

use ergometer_telemetry::SystemInfo;
use ergometer_telemetry::{
    Batch, Channel, Clock, DeviceId, DeviceKind, Probe, Provenance, Reading, Scope, Sensor, SensorError, SensorInfo,
    Signal, Status,
};
use ergometer_units::{Seconds, Timestamp};

use crate::processor_time::ProcessorTime;

pub use self::processor::PowerModel;

/// Ten ticks of `/proc/stat`: the utilization has steps of 10 % on one processor, and smaller steps on more.
const INTERVAL: Duration = Duration::from_millis(100);
const DEVICE: DeviceId = DeviceId::cpu(0);
const SOURCE: &str = "modelled power";

/// Whether to model CPU power.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ModelPolicy {
    /// Model it if no CPU package is measured.
    #[default]
    WhereUnmeasured,
    /// Never model it.
    Off,
}

/// Options of [`probe`].
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Whether to model power.
    pub policy: ModelPolicy,
    /// The folder with the file `stat`.
    pub proc_root: PathBuf,
    /// The machine, with its processor's name and number of threads.
    pub system: SystemInfo,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            policy: ModelPolicy::default(),
            proc_root: PathBuf::from("/proc"),
            system: crate::host::read_system_info(),
        }
    }
}

/// Creates the sensor of the model, unless one of these sensors measures a CPU package.
///
/// ```
/// use ergometer_sensors::{modelled, rapl};
/// let mut probe = rapl::probe(&Default::default());
/// probe.extend(modelled::probe(&Default::default(), &probe.sensors));
/// ```
#[must_use]
pub fn probe(options: &Options, sensors: &[Box<dyn Sensor>]) -> Probe {
    let mut probe = Probe::default();
    if options.policy == ModelPolicy::Off || sensors.iter().any(|sensor| measures_package(&**sensor)) {
        return probe;
    }
    let model = PowerModel::for_system(&options.system);
    let device = format!("{} ({DEVICE})", model.brand());
    match ProcessorTime::open(&options.proc_root) {
        Ok(time) => {
            let why = format!("not measured, but modelled as {model}");
            probe.find(device, SOURCE, Status::Limited { why, fix: None });
            probe.sensors.push(Box::new(ModelledPower::new(model, time)));
        }
        Err(error) => {
            let why = format!("cannot read {}: {error}", options.proc_root.join("stat").display());
            probe.find(device, SOURCE, Status::Absent { why, fix: None });
        }
    }
    probe
}

/// Whether the sensor measures the energy or power of a CPU package. The scope psys does not count: it is the whole
/// machine, with fans and disks.
fn measures_package(sensor: &dyn Sensor) -> bool {
    sensor.channels().iter().any(|channel| {
        let is_power =
            matches!(channel.signal, Signal::Energy | Signal::PowerRing | Signal::PowerInstant | Signal::PowerAverage);
        is_power
            && channel.device.kind == DeviceKind::Cpu
            && channel.scope == Scope::Package
            && channel.provenance != Provenance::Modelled
    })
}

struct ModelledPower {
    info: SensorInfo,
    channels: Vec<Channel>,
    model: PowerModel,
    time: ProcessorTime,
    since: Option<Timestamp>,
}

impl ModelledPower {
    fn new(model: PowerModel, time: ProcessorTime) -> Self {
        let name = model.brand().to_owned();
        let info = SensorInfo { id: "modelled:0".to_owned(), name, device: DEVICE, interval: INTERVAL };
        let channel = Channel {
            device: DEVICE,
            scope: Scope::Package,
            signal: Signal::PowerModelled,
            provenance: Provenance::Modelled,
            update_period: Some(Seconds::from(INTERVAL)),
        };
        Self { info, channels: vec![channel], model, time, since: None }
    }
}

impl Sensor for ModelledPower {
    fn info(&self) -> &SensorInfo {
        &self.info
    }

    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    /// Adds the mean power since the last sample (`after`).
    fn sample(&mut self, clock: &Clock, batch: &mut Batch) -> Result<(), SensorError> {
        let share = self.time.busy_share().map_err(|error| SensorError::Read {
            device: DEVICE,
            what: "utilization",
            reason: error.to_string(),
        })?;
        let at = clock.now();
        match share {
            Some(share) => {
                let after = self.since.replace(at).unwrap_or(at);
                let value = self.model.power(share).get();
                batch.readings.push(Reading { channel: 0, after, at, value });
            }
            None => self.since = self.since.or(Some(at)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    fn options(stat: &str) -> (TempDir, Options) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("stat"), stat).unwrap();
        let system = SystemInfo {
            cpu_brand: Some("AMD EPYC 7763 64-Core Processor".to_owned()),
            cpu_count: Some(128),
            ..SystemInfo::default()
        };
        let proc_root = folder.path().to_owned();
        (folder, Options { policy: ModelPolicy::WhereUnmeasured, proc_root, system })
    }

    #[test]
    fn power_follows_utilization_and_is_labelled() {
        let (folder, options) = options("cpu 0 0 0 0\n");
        let mut probe = probe(&options, &[]);
        let sensor = &mut *probe.sensors[0];
        let channel = &sensor.channels()[0];
        assert_eq!((channel.signal, channel.provenance), (Signal::PowerModelled, Provenance::Modelled));
        assert_eq!((channel.device, channel.scope), (DeviceId::cpu(0), Scope::Package));
        let clock = Clock::start();
        let mut batch = Batch::default();
        sensor.sample(&clock, &mut batch).unwrap();
        assert!(batch.readings.is_empty(), "nothing to compare with yet");
        for (stat, power_w) in [("cpu 0 0 0 10\n", 70.0), ("cpu 10 0 0 10\n", 280.0), ("cpu 15 0 0 15\n", 175.0)] {
            fs::write(folder.path().join("stat"), stat).unwrap();
            batch.clear();
            sensor.sample(&clock, &mut batch).unwrap();
            assert_eq!(batch.readings[0].value, power_w);
            assert!(batch.readings[0].after <= batch.readings[0].at);
        }
        fs::write(folder.path().join("stat"), "fish").unwrap();
        assert!(matches!(sensor.sample(&clock, &mut batch), Err(SensorError::Read { .. })));
    }

    #[test]
    fn the_finding_states_the_formula() {
        let (_folder, options) = options("cpu 0 0 0 0\n");
        let finding = probe(&options, &[]).findings.remove(0);
        assert_eq!(finding.device, "AMD EPYC 7763 64-Core Processor (cpu:0)");
        let Status::Limited { why, .. } = finding.status else { panic!("{finding:?}") };
        assert_eq!(
            why,
            "not measured, but modelled as 70.0 W + 210.0 W x utilization, based on EPYC 7763 (TDP 280 W for \
             128 threads); idle power is assumed to be 25 % of TDP"
        );
    }

    #[test]
    fn there_is_no_model_if_it_is_off_or_a_package_is_measured() {
        let (_folder, options) = options("cpu 0 0 0 0\n");
        let off = Options { policy: ModelPolicy::Off, ..options.clone() };
        assert!(probe(&off, &[]).sensors.is_empty());
        let modelled = probe(&options, &[]).sensors;
        assert_eq!(probe(&options, &modelled).sensors.len(), 1, "a model is not a measurement");
        let mut measured = ModelledPower::new(
            PowerModel::for_system(&options.system),
            ProcessorTime::open(&options.proc_root).unwrap(),
        );
        measured.channels[0].signal = Signal::Energy;
        measured.channels[0].provenance = Provenance::Counter;
        assert!(probe(&options, &[Box::new(measured)]).sensors.is_empty());
    }

    #[test]
    fn without_processor_times_there_is_a_finding() {
        let (folder, options) = options("");
        fs::remove_file(folder.path().join("stat")).unwrap();
        if cfg!(target_os = "linux") {
            let found = probe(&options, &[]);
            assert!(found.sensors.is_empty() && matches!(found.findings[0].status, Status::Absent { .. }));
        }
    }
}
