//! Samples sensors until the monitor is finished, and updates the data of every view: energy, processes, recording.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ergometer_diagnostics::{Diagnostic, Hint};
use ergometer_sensors::nvidia;
use ergometer_sensors::processes::{Process, ProcessTable};
use ergometer_telemetry::{Clock, DeviceId, Event, Sampler, Timeline};
use ergometer_units::Watts;

use crate::archive::Archive;
use crate::config::{Config, ConfigError};
use crate::input::Input;
use crate::ledger::Ledger;
use crate::picture::{Facts, Picture};
use crate::recorder::{RecordError, Recorded, Recorder};
use crate::source::Source;
use crate::totals::TotalEnergy;
use crate::watcher::{ProcessWatcher, SplitByCpuTime};

/// A running monitor: sensors are sampled from [`Monitor::start`] to [`Monitor::finish`], in every view.
pub struct Monitor {
    pub(crate) config: Config,
    pub(crate) source: Source,
    pub(crate) sampler: Sampler,
    pub(crate) recorder: Recorder,
    pub(crate) watcher: Option<ProcessWatcher>,
    pub(crate) ledger: Ledger,
    pub(crate) split: Option<SplitByCpuTime>,
    pub(crate) archive: Archive,
    pub(crate) started: Instant,
    pub(crate) has_gpus: bool,
    clock: Arc<Clock>,
    host: String,
    power_limits: BTreeMap<DeviceId, Watts>,
}

/// The readings and recordings of a finished monitor.
#[derive(Debug)]
pub struct Outcome {
    /// The recording that was open at the end.
    pub recorded: Result<Option<Recorded>, RecordError>,
    /// Errors of recordings that the user started or stopped with a key.
    pub lost: Vec<RecordError>,
    timeline: Timeline,
    archive: Archive,
}

impl Outcome {
    /// The energy of the whole time; `None` without readings of power or energy. Takes seconds for many devices.
    #[must_use]
    pub fn energy(&self) -> Option<TotalEnergy> {
        self.archive.total(&self.timeline)
    }

    /// The sensor events, oldest first.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.archive.events(&self.timeline)
    }
}

/// A monitor could not start.
#[derive(Debug, thiserror::Error)]
pub enum MonitorError {
    /// A setting is out of range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The recording could not be started.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The thread that lists processes could not be started.
    #[error("cannot start the thread that lists processes: {0}")]
    Thread(#[source] io::Error),
}

impl Diagnostic for MonitorError {
    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Config(error) => error.hint(),
            Self::Record(error) => error.hint(),
            Self::Thread(_) => None,
        }
    }
}

impl Monitor {
    /// Checks the settings, starts the recording and starts sampling.
    pub fn start(input: Input, config: Config) -> Result<Self, MonitorError> {
        config.check()?;
        let is_machine = input.source == Source::Machine;
        let is_split = config.split.is_some() && is_machine && input.has_cpu_energy();
        let has_gpus = input.has_gpus();
        let (tap, recorder) = Recorder::new(&input.sensors, config.record.as_deref());
        recorder.start_wanted()?;
        let clock = Arc::new(Clock::start());
        let started = Instant::now();
        let sampler = Sampler::start(input.sensors, Arc::clone(&clock), Some(tap));
        let wants_processes = config.processes || config.split.is_some();
        let watcher =
            (is_machine && wants_processes).then(ProcessWatcher::start).transpose().map_err(MonitorError::Thread)?;
        Ok(Self {
            source: input.source,
            sampler,
            recorder,
            watcher,
            ledger: Ledger::default(),
            split: is_split.then(SplitByCpuTime::default),
            archive: if is_machine { Archive::since(clock.at(started)) } else { Archive::default() },
            started,
            has_gpus,
            clock,
            host: input.host,
            power_limits: BTreeMap::new(),
            config,
        })
    }

    /// A warning to show before the view starts.
    #[must_use]
    pub fn warning(&self) -> Option<&'static str> {
        let is_unsplit = self.config.split.is_some() && self.split.is_none();
        is_unsplit.then_some("the CPU's energy is neither measured nor modelled, so it is not split among processes")
    }

    /// Stops sampling and recording.
    #[must_use]
    pub fn finish(self) -> Outcome {
        let timeline = self.sampler.stop();
        let recorded = self.recorder.stop();
        Outcome { recorded, lost: self.recorder.into_lost(), timeline, archive: self.archive }
    }

    /// When the duration ends.
    pub(crate) fn end(&self) -> Option<Instant> {
        self.config.duration.map(|duration| self.started + duration)
    }

    /// How long the monitor has run, in the time of the recording where one is played.
    pub(crate) fn elapsed(&self) -> Duration {
        self.source.elapsed(self.started)
    }

    /// Whether a recording is played and has ended.
    pub(crate) fn is_played(&self) -> bool {
        self.source != Source::Machine && self.sampler.running() == 0
    }

    /// Reads the power limits of the GPUs from their driver. A recording has none.
    pub(crate) fn read_power_limits(&mut self) {
        if self.source == Source::Machine {
            let gpus = nvidia::system_gpus().into_iter();
            self.power_limits = gpus.filter_map(|gpu| Some((gpu.device, gpu.power_limit?))).collect();
        }
    }

    /// Updates energy and shares from the latest readings, then calls `view` with the timeline, the ledger, and the
    /// latest list of processes.
    pub(crate) fn update<T>(&mut self, view: impl FnOnce(&Timeline, &Ledger) -> T) -> (T, Option<ProcessTable>) {
        let (ledger, split) = (&mut self.ledger, &mut self.split);
        let processes = self.watcher.as_ref().map(ProcessWatcher::last);
        let viewed = self.sampler.with_timeline(|timeline| {
            ledger.update(timeline);
            if let (Some(split), Some((count, table))) = (split.as_mut(), &processes) {
                split.update((*count, table), ledger.cpu_energy(timeline));
            }
            view(timeline, ledger)
        });
        (viewed, processes.map(|(_, table)| table))
    }

    /// The machine at this moment, with graphs of this time span and number of cells.
    pub(crate) fn picture(&mut self, span: Duration, cells: usize) -> Picture {
        let (source, clock, elapsed) = (self.source, Arc::clone(&self.clock), self.elapsed());
        let (host, power_limits) = (self.host.clone(), self.power_limits.clone());
        let (mut picture, processes) = self.update(|timeline, ledger| {
            let now = source.now(timeline, &clock);
            let facts = Facts { host: &host, now, elapsed, span, cells, power_limits: &power_limits, ledger };
            Picture::new(timeline, &facts)
        });
        picture.events = self.sampler.with_timeline(|timeline| self.archive.events(timeline));
        picture.playback = self.source.playback();
        picture.processes = processes.map(|mut table| {
            table.processes.retain(is_of_interest);
            table
        });
        picture.split = self.split.as_ref().map(SplitByCpuTime::shares);
        picture
    }

    pub(crate) fn clock(&self) -> &Arc<Clock> {
        &self.clock
    }
}

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monitor").field("config", &self.config).field("source", &self.source).finish_non_exhaustive()
    }
}

/// Excludes kernel threads that used no CPU time: a machine has hundreds of them.
fn is_of_interest(process: &Process) -> bool {
    let is_kernel = process.command.is_none() && process.memory.is_some_and(|memory| memory.get() == 0);
    !is_kernel || !process.gpus.is_empty() || process.cpu.is_some_and(|cpu| cpu.get() > 0.0)
}

#[cfg(test)]
mod tests {
    use ergometer_units::{Bytes, Seconds};

    use super::*;

    #[test]
    fn only_idle_kernel_threads_are_left_out() {
        let kernel = Process { id: 2, memory: Some(Bytes::new(0)), cpu: Some(Seconds::ZERO), ..Process::default() };
        assert!(!is_of_interest(&kernel));
        assert!(is_of_interest(&Process { cpu: Some(Seconds::new(0.01)), ..kernel.clone() }), "it used CPU time");
        assert!(is_of_interest(&Process { command: Some(String::from("bash")), ..kernel.clone() }));
        assert!(is_of_interest(&Process { memory: None, ..kernel }), "its memory is unknown");
    }
}
