//! Samples CPU utilization, CPU clock and memory of the machine (`host:0`), and reads its system information.
//!
//! The first utilization is meaningless and is not emitted. A value that the system does not provide has no channel.
//! Only the needed values are refreshed, which takes 0.2 ms on two processors; refreshing everything takes 3.3 ms.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ergometer_statistics::mean;
use ergometer_telemetry::{
    Batch, Channel, Clock, DeviceId, EventKind, Probe, Provenance, Reading, Scope, Sensor, SensorError, SensorInfo,
    Signal, Status, SystemInfo,
};
use ergometer_units::Timestamp;
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

use crate::processor_time::ProcessorTime;

const INTERVAL: Duration = Duration::from_millis(200);
/// The pause between two reads of the clocks, as a multiple of the time one read takes, so that they cost 0.03 % of a
/// core: sysinfo opens a file for each core (3 ms for 16 cores).
const FREQUENCY_PAUSE: u32 = 3000;

/// Reads the operating system, the host name and the processors of this machine.
///
/// ```
/// let system = ergometer_sensors::host::read_system_info();
/// assert!(system.cpu_count.is_none_or(|count| count > 0));
/// ```
#[must_use]
pub fn read_system_info() -> SystemInfo {
    let cpus = RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing());
    let system = System::new_with_specifics(cpus).ok();
    let cpus = system.as_ref().map(System::cpus).unwrap_or_default();
    SystemInfo {
        os_name: non_empty(System::name().ok()),
        os_version: non_empty(System::os_version().ok()),
        kernel_version: non_empty(System::kernel_version().ok()),
        host_name: non_empty(System::host_name().ok()),
        cpu_count: u32::try_from(cpus.len()).ok().filter(|&count| count > 0),
        cpu_brand: non_empty(cpus.first().map(|cpu| cpu.brand().to_owned())),
    }
}

fn non_empty(text: Option<String>) -> Option<String> {
    text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Options of [`probe`].
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The folder with the file `stat`.
    pub proc_root: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self { proc_root: PathBuf::from("/proc") }
    }
}

/// Opens the sensor of the machine itself.
#[must_use]
pub fn probe(options: &Options) -> Probe {
    let mut probe = Probe::default();
    match Host::new(options) {
        Ok(host) => {
            probe.find("Host (host:0)", "system", Status::Works(describe(&host.channels)));
            probe.sensors.push(Box::new(host));
        }
        Err(why) => probe.find("Host (host:0)", "system", Status::Absent { why, fix: None }),
    }
    probe
}

struct Host {
    info: SensorInfo,
    channels: Vec<Channel>,
    system: System,
    utilization: Option<Utilization>,
    next_frequency: Option<Instant>,
}

struct Utilization {
    time: ProcessorTime,
    since: Option<Timestamp>,
    failed: bool,
}

impl Host {
    fn new(options: &Options) -> Result<Self, String> {
        let wanted = RefreshKind::nothing()
            .with_cpu(CpuRefreshKind::nothing().with_frequency())
            .with_memory(MemoryRefreshKind::nothing().with_ram());
        let system = System::new_with_specifics(wanted).map_err(|error| error.to_string())?;
        let utilization =
            ProcessorTime::open(&options.proc_root).ok().map(|time| Utilization { time, since: None, failed: false });
        let has_frequency = frequency_is_real(Path::new("/sys")) && mean_frequency(&system).is_some();
        let channels: Vec<Channel> = [
            (Signal::Utilization, utilization.is_some()),
            (Signal::ClockCore, has_frequency),
            (Signal::MemoryUsed, system.total_memory() > 0),
            (Signal::MemoryTotal, system.total_memory() > 0),
        ]
        .into_iter()
        .filter(|&(_, there)| there)
        .map(|(signal, _)| channel(signal))
        .collect();
        if channels.is_empty() {
            return Err("the system provides no utilization, clocks or memory".to_owned());
        }
        let name = read_system_info().host_name.unwrap_or_else(|| "host".to_owned());
        let info = SensorInfo { id: "host".to_owned(), name, device: DeviceId::host(), interval: INTERVAL };
        Ok(Self { info, channels, system, utilization, next_frequency: None })
    }

    fn channel_index(&self, signal: Signal) -> Option<usize> {
        self.channels.iter().position(|channel| channel.signal == signal)
    }

    /// Adds the utilization since the last sample; `after` is the time of that sample.
    fn sample_utilization(&mut self, clock: &Clock, batch: &mut Batch) {
        let (Some(channel), Some(utilization)) = (self.channel_index(Signal::Utilization), self.utilization.as_mut())
        else {
            return;
        };
        let share = utilization.time.busy_share();
        let at = clock.now();
        match share {
            Ok(Some(share)) => {
                let after = utilization.since.replace(at).unwrap_or(at);
                batch.readings.push(Reading { channel, after, at, value: share * 100.0 });
                utilization.failed = false;
            }
            Ok(None) => utilization.since = utilization.since.or(Some(at)),
            Err(error) if !utilization.failed => {
                utilization.failed = true;
                batch.event(at, EventKind::ReadFailed, format!("cannot read utilization of host:0: {error}"));
            }
            Err(_) => {}
        }
    }

    fn sample_frequency(&mut self, clock: &Clock, batch: &mut Batch) {
        let start = Instant::now();
        let Some(channel) = self.channel_index(Signal::ClockCore) else { return };
        if self.next_frequency.is_some_and(|next| start < next) {
            return;
        }
        self.system.refresh_cpu_frequency();
        self.next_frequency = Some(start + start.elapsed() * FREQUENCY_PAUSE);
        if let Some(frequency_mhz) = mean_frequency(&self.system) {
            batch.push(channel, clock.now(), frequency_mhz);
        }
    }
}

impl Sensor for Host {
    fn info(&self) -> &SensorInfo {
        &self.info
    }

    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn sample(&mut self, clock: &Clock, batch: &mut Batch) -> Result<(), SensorError> {
        self.sample_utilization(clock, batch);
        self.sample_frequency(clock, batch);
        if let (Some(used), Some(total)) =
            (self.channel_index(Signal::MemoryUsed), self.channel_index(Signal::MemoryTotal))
        {
            self.system.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
            let at = clock.now();
            batch.push(used, at, self.system.used_memory() as f64);
            batch.push(total, at, self.system.total_memory() as f64);
        }
        Ok(())
    }
}

/// The signals, and how often they are read: the clocks less often than the others, see [`FREQUENCY_PAUSE`].
fn describe(channels: &[Channel]) -> String {
    let (clocks, others): (Vec<Signal>, Vec<Signal>) =
        channels.iter().map(|channel| channel.signal).partition(|&signal| signal == Signal::ClockCore);
    let names = |signals: &[Signal]| signals.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let others = (!others.is_empty()).then(|| format!("{} every {} ms", names(&others), INTERVAL.as_millis()));
    let clocks =
        (!clocks.is_empty()).then(|| format!("{} less often, because reading it takes longer", names(&clocks)));
    others.into_iter().chain(clocks).collect::<Vec<_>>().join("; ")
}

fn channel(signal: Signal) -> Channel {
    Channel {
        device: DeviceId::host(),
        scope: Scope::Device,
        signal,
        provenance: Provenance::Gauge,
        update_period: None,
    }
}

/// The mean clock in megahertz of the cores with a known clock.
fn mean_frequency(system: &System) -> Option<f64> {
    mean(system.cpus().iter().map(sysinfo::Cpu::frequency).filter(|&clock| clock > 0).map(|clock| clock as f64))
}

/// Whether sysinfo reports a clock. On Linux without cpufreq it uses `cpu MHz` on x86, but `BogoMIPS` on other
/// machines.
fn frequency_is_real(sys_root: &Path) -> bool {
    !cfg!(target_os = "linux")
        || cfg!(any(target_arch = "x86_64", target_arch = "x86"))
        || sys_root.join("devices/system/cpu/cpu0/cpufreq/scaling_cur_freq").exists()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn values(host: &Host, batch: &Batch, signal: Signal) -> Vec<f64> {
        let place = host.channel_index(signal);
        batch.readings.iter().filter(|reading| Some(reading.channel) == place).map(|reading| reading.value).collect()
    }

    #[test]
    fn the_finding_says_how_often_the_signals_are_read() {
        let found = |signals: &[Signal]| describe(&signals.iter().map(|&signal| channel(signal)).collect::<Vec<_>>());
        assert_eq!(found(&[Signal::Utilization, Signal::MemoryUsed]), "utilization, memory_used every 200 ms");
        assert_eq!(
            found(&[Signal::Utilization, Signal::ClockCore, Signal::MemoryUsed]),
            "utilization, memory_used every 200 ms; clock_core less often, because reading it takes longer"
        );
    }

    #[test]
    fn the_first_utilization_is_not_emitted() {
        let folder = tempfile::tempdir().unwrap();
        let stat = folder.path().join("stat");
        fs::write(&stat, "cpu 10 0 0 10\n").unwrap();
        let mut host = Host::new(&Options { proc_root: folder.path().to_owned() }).unwrap();
        let clock = Clock::start();
        let mut batch = Batch::default();
        host.sample(&clock, &mut batch).unwrap();
        assert!(values(&host, &batch, Signal::Utilization).is_empty());
        fs::write(&stat, "cpu 40 0 0 20\n").unwrap();
        batch.clear();
        host.sample(&clock, &mut batch).unwrap();
        assert_eq!(values(&host, &batch, Signal::Utilization), [75.0]);
        let reading = batch.readings[0];
        assert!(reading.after < reading.at, "it covers the time since the last sample");

        fs::write(&stat, "fish\n").unwrap();
        batch.clear();
        host.sample(&clock, &mut batch).unwrap();
        host.sample(&clock, &mut batch).unwrap();
        assert_eq!(batch.events.len(), 1, "reported once");
    }

    #[test]
    fn used_memory_is_at_most_the_total() {
        let mut host = Host::new(&Options::default()).unwrap();
        let mut batch = Batch::default();
        host.sample(&Clock::start(), &mut batch).unwrap();
        let (used, total) =
            (values(&host, &batch, Signal::MemoryUsed)[0], values(&host, &batch, Signal::MemoryTotal)[0]);
        assert!(used > 0.0 && used <= total, "{used} of {total}");
    }

    #[test]
    fn the_finding_lists_the_signals() {
        let probe = probe(&Options::default());
        assert_eq!(probe.sensors.len(), 1);
        assert!(matches!(&probe.findings[0].status, Status::Works(text) if text.contains("memory_used")));
        assert_eq!(non_empty(Some("  ".to_owned())), None);
    }
}
