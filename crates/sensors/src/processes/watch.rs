//! Samples processes and compares each sample with the previous one.
//!
//! A process is the same as before if both its id and its start time are. With another start time it is a new process
//! with a reused id.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ergometer_units::Seconds;

use super::gpus::{Driver, GpuWatch};
use super::listing::{ListedProcess, Time};
use super::{GpuUse, Options, Process, ProcessTable};

#[cfg(target_os = "linux")]
type Source = super::proc_files::ProcFiles;
#[cfg(not(target_os = "linux"))]
type Source = super::system::SystemProcesses;

/// Samples the processes of this machine.
///
/// ```
/// use ergometer_sensors::processes::ProcessWatch;
/// let mut watch = ProcessWatch::start();
/// let table = watch.sample();
/// assert!(table.processes.iter().any(|process| process.id == std::process::id()));
/// ```
pub struct ProcessWatch {
    source: Source,
    gpus: GpuWatch,
    started: Instant,
    previous: Option<Previous>,
}

/// The previous sample.
struct Previous {
    at: Instant,
    times: HashMap<u32, Time>,
    /// The latest start time of its processes.
    newest_start: u64,
}

impl ProcessWatch {
    /// Starts the first interval. The GPU driver is opened by the first sample.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&Options::default())
    }

    /// The same as [`start`](Self::start) with other files.
    #[must_use]
    pub fn start_with(options: &Options) -> Self {
        Self::with_driver(options, Driver::Unopened)
    }

    fn with_driver(options: &Options, driver: Driver) -> Self {
        Self { source: Source::new(options), gpus: GpuWatch::new(driver), started: Instant::now(), previous: None }
    }

    /// Lists the processes with their CPU time and GPU use since the previous sample, or since the start.
    ///
    /// Call this on a separate thread: on Linux it takes about 20 us per process, and some milliseconds more with an
    /// NVIDIA GPU. If the driver hangs, for example after a GPU fault, this call hangs too.
    pub fn sample(&mut self) -> ProcessTable {
        let at = Instant::now();
        let listing = self.source.list();
        let newest_start = listing.processes.iter().filter_map(|process| Some(process.time?.started)).max();
        let now = Previous {
            at,
            times: listing.processes.iter().filter_map(|process| Some((process.id, process.time?))).collect(),
            newest_start: newest_start.unwrap_or(u64::MAX),
        };
        let since_previous = self.previous.as_ref().map(|previous| Seconds::from(at - previous.at));
        let gpus = self.gpus.sample(since_previous, micros_since_epoch());
        let previous = self.previous.replace(now);

        let mut uses = gpus.local;
        let mut processes: Vec<Process> = listing
            .processes
            .into_iter()
            .map(|listed| {
                let is_same = uses.contains_key(&listed.id) && self.source.is_known_to_driver(listed.id);
                let gpus = if is_same { uses.remove(&listed.id) } else { None };
                process(listed, previous.as_ref(), gpus.unwrap_or_default())
            })
            .collect();
        let unmatched = uses.into_iter().chain(gpus.external);
        processes.extend(unmatched.map(|(id, gpus)| Process { id, gpus, ..Process::default() }));
        // The sort is stable, so an external process comes after the local process with its id.
        processes.sort_by_key(|process| process.id);
        ProcessTable {
            since_last: since_previous.unwrap_or_else(|| Seconds::from(at - self.started)),
            processors: listing.processors,
            processes,
            notes: listing.notes.into_iter().chain(gpus.notes).collect(),
        }
    }
}

impl Default for ProcessWatch {
    fn default() -> Self {
        Self::start()
    }
}

impl fmt::Debug for ProcessWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessWatch").field("source", &self.source).finish_non_exhaustive()
    }
}

fn process(listed: ListedProcess, previous: Option<&Previous>, gpus: Vec<GpuUse>) -> Process {
    let used = listed.time.zip(previous).and_then(|(now, previous)| used_since(previous, listed.id, now));
    Process {
        id: listed.id,
        name: listed.name,
        command: listed.command,
        user: listed.user,
        cpu: used.map(Seconds::from),
        cpu_total: listed.time.map(|time| Seconds::from(time.used)),
        memory: listed.memory,
        gpus,
    }
}

/// The CPU time since the previous sample. A process that was not in it and did not start before its newest process is
/// new: all its CPU time counts. An older one was not readable then, so its CPU time is unknown.
fn used_since(previous: &Previous, id: u32, now: Time) -> Option<Duration> {
    match previous.times.get(&id) {
        // The kernel may report a tick less than before, when it splits the time between user and system.
        Some(then) if then.started == now.started => Some(now.used.saturating_sub(then.used)),
        _ => (now.started >= previous.newest_start).then_some(now.used),
    }
}

fn micros_since_epoch() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).ok().and_then(|time| u64::try_from(time.as_micros()).ok()).unwrap_or(0)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use ergometer_units::Bytes;

    use super::super::fake::FakeProc;
    use super::*;
    use crate::nvidia::scripted::{Script, ScriptedNvml, Time as ScriptedTime};
    use crate::nvidia::{GpuProcess, ProcessSample, Utilization};

    fn watch(tree: &FakeProc) -> ProcessWatch {
        ProcessWatch::with_driver(&tree.options(), Driver::Absent(None))
    }

    /// The CPU time since the previous sample in milliseconds, by id.
    fn times(table: &ProcessTable) -> Vec<(u32, Option<f64>)> {
        table.processes.iter().map(|process| (process.id, process.cpu.map(Seconds::as_millis))).collect()
    }

    #[test]
    fn cpu_time_is_counted_since_the_previous_sample() {
        let tree = FakeProc::new();
        tree.process(1, b"init", 500, 1).process(20, b"python3", 100, 900);
        let mut watch = watch(&tree);
        let first = watch.sample();
        assert_eq!(times(&first), [(1, None), (20, None)], "nothing to compare with");
        assert_eq!(first.processes[1].cpu_total, Some(Seconds::new(1.0)));
        tree.process(20, b"python3", 130, 900).process(7, b"new", 5, 1000);
        let second = watch.sample();
        assert_eq!(
            times(&second),
            [(1, Some(0.0)), (7, Some(50.0)), (20, Some(300.0))],
            "7 started since the first sample"
        );
        tree.end(7).process(20, b"python3", 129, 900);
        assert_eq!(times(&watch.sample()), [(1, Some(0.0)), (20, Some(0.0))], "a decrease by a tick is zero");
    }

    #[test]
    fn an_id_with_another_start_is_another_process() {
        let tree = FakeProc::new();
        tree.process(1, b"init", 500, 1).process(20, b"old", 4000, 900);
        let mut watch = watch(&tree);
        watch.sample();
        tree.process(20, b"new", 4010, 1200);
        let table = watch.sample();
        assert_eq!(times(&table), [(1, Some(0.0)), (20, Some(40_100.0))]);
        assert_eq!(table.processes[1].name.as_deref(), Some("new"));
    }

    #[test]
    fn a_process_that_was_not_readable_before_has_no_cpu_time() {
        let tree = FakeProc::new();
        tree.process(1, b"init", 500, 1).process(5, b"hidden", 9000, 300).process(20, b"python3", 1, 900);
        tree.write(5, "stat", b"fish");
        let mut watch = watch(&tree);
        watch.sample();
        tree.process(5, b"hidden", 9000, 300);
        assert_eq!(times(&watch.sample())[1], (5, None), "its 90 s are not from this interval");
        assert_eq!(times(&watch.sample())[1], (5, Some(0.0)));
    }

    #[test]
    fn gpu_processes_match_local_ones_and_external_ones_are_separate() {
        let tree = FakeProc::new();
        tree.process(1, b"init", 500, 1).process(444, b"bash", 1, 900).process(815, b"python3", 1, 900);
        let utilization = Utilization { gpu_percent: 48, memory_percent: 12 };
        let sample = |id| ProcessSample { id, time_us: u64::MAX, utilization };
        let held = |id| GpuProcess { id, memory: Some(Bytes::new(916_455_424)) };
        let script = Script {
            compute: Ok(vec![held(815), held(90_001)]),
            process_utilization: Ok(vec![sample(815), sample(444)]),
            ..Script::default()
        };
        let scripted = ScriptedNvml::new(&ScriptedTime::start(), vec![script]);
        let mut watch = ProcessWatch::with_driver(&tree.options(), Driver::Open(scripted));
        watch.sample();
        let table = watch.sample();
        let shown: Vec<_> = table
            .processes
            .iter()
            .map(|process| (process.id, process.name.as_deref(), process.gpus.first().map(|gpu| gpu.utilization_pct)))
            .collect();
        let expected = [
            (1, Some("init"), None),
            (444, Some("bash"), None),
            (444, None, Some(Some(48.0))),
            (815, Some("python3"), Some(Some(48.0))),
            (90_001, None, Some(Some(0.0))),
        ];
        assert_eq!(shown, expected);
        assert!(table.notes.is_empty());
    }

    #[test]
    fn in_a_container_a_process_must_have_a_gpu_open_to_match() {
        let tree = FakeProc::new();
        for id in [20, 21, 22, 23] {
            tree.process(id, b"python3", 1, 900);
        }
        tree.opens(20, "/dev/nvidiactl").opens(21, "/dev/null").opens(23, "/dev/dxg");
        let held = |id| GpuProcess { id, memory: Some(Bytes::new(916_455_424)) };
        let holders = |tree: &FakeProc| {
            let script = Script { compute: Ok((20..24).map(held).collect()), ..Script::default() };
            let scripted = ScriptedNvml::new(&ScriptedTime::start(), vec![script]);
            let table = ProcessWatch::with_driver(&tree.options(), Driver::Open(scripted)).sample();
            let holders = table.processes.into_iter().filter(|process| !process.gpus.is_empty());
            holders.map(|process| (process.id, process.name.is_some())).collect::<Vec<_>>()
        };
        tree.namespace("pid:[4026532178]");
        assert_eq!(
            holders(&tree),
            [(20, true), (21, false), (22, false), (23, true)],
            "the open files of 22 cannot be read"
        );
        tree.namespace("pid:[4026531836]");
        assert_eq!(holders(&tree), [(20, true), (21, true), (22, true), (23, true)], "there is one set of ids");
    }

    #[test]
    fn this_process_is_listed() {
        let mut watch = ProcessWatch::start();
        watch.sample();
        let table = watch.sample();
        let own = table.processes.iter().find(|process| process.id == std::process::id()).unwrap();
        assert!(own.name.is_some() && own.command.is_some() && own.user.is_some() && own.cpu.is_some());
        assert!(own.memory > Some(Bytes::new(1 << 19)), "{:?}", own.memory);
        assert!(table.processors.is_some());
    }
}
