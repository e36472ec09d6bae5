//! Two looks compared: the processor time of each process since the look before.
//!
//! In go the listings of the system and of the GPUs' driver; out comes a [`ProcessTable`]. A process is the same as
//! before where its id and its start are; with another start it is a new one that took the id.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ergometer_units::Seconds;

use super::gpus::{Driver, GpuWatch};
use super::listing::{Listed, Time};
use super::{GpuUse, Options, Process, ProcessTable};

#[cfg(target_os = "linux")]
type Source = super::proc_files::ProcFiles;
#[cfg(not(target_os = "linux"))]
type Source = super::system::SystemProcesses;

/// Looks at the processes of this machine.
///
/// ```
/// use ergometer_sensors::processes::ProcessWatch;
/// let mut watch = ProcessWatch::start();
/// let table = watch.look();
/// assert!(table.processes.iter().any(|process| process.id == std::process::id()));
/// ```
pub struct ProcessWatch {
    source: Source,
    gpus: GpuWatch,
    started: Instant,
    before: Option<Before>,
}

/// The look before.
struct Before {
    at: Instant,
    times: HashMap<u32, Time>,
    /// The latest start of any process there was.
    newest_start: u64,
}

impl ProcessWatch {
    /// From now on. Asks no driver yet.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&Options::default())
    }

    /// As [`start`](Self::start), with other places to look at.
    #[must_use]
    pub fn start_with(options: &Options) -> Self {
        Self::of(options, Driver::Unopened)
    }

    fn of(options: &Options, driver: Driver) -> Self {
        Self { source: Source::new(options), gpus: GpuWatch::new(driver), started: Instant::now(), before: None }
    }

    /// What processes did since the last look, or since the start.
    ///
    /// Call it on a thread of its own: on Linux it takes some 20 us a process, and where there is an NVIDIA GPU some
    /// milliseconds more. A driver that hangs, as after a fault of a GPU, holds this call for as long as it does, and
    /// nothing else.
    pub fn look(&mut self) -> ProcessTable {
        let at = Instant::now();
        let listing = self.source.list();
        let newest_start = listing.processes.iter().filter_map(|process| Some(process.time?.started)).max();
        let now = Before {
            at,
            times: listing.processes.iter().filter_map(|process| Some((process.id, process.time?))).collect(),
            newest_start: newest_start.unwrap_or(u64::MAX),
        };
        let since_before = self.before.as_ref().map(|before| Seconds::from(at - before.at));
        let gpus = self.gpus.look(since_before, micros_since_epoch());
        let before = self.before.replace(now);

        let mut uses = gpus.uses;
        let mut processes: Vec<Process> = listing
            .processes
            .into_iter()
            .map(|listed| {
                let is_same = uses.contains_key(&listed.id) && self.source.is_known_to_driver(listed.id);
                let gpus = if is_same { uses.remove(&listed.id) } else { None };
                process(listed, before.as_ref(), gpus.unwrap_or_default())
            })
            .collect();
        let unseen = uses.into_iter().chain(gpus.strangers);
        processes.extend(unseen.map(|(id, gpus)| Process { id, gpus, ..Process::default() }));
        // Stable, so that a stranger stands after a process of here with its id.
        processes.sort_by_key(|process| process.id);
        ProcessTable {
            since_last: since_before.unwrap_or_else(|| Seconds::from(at - self.started)),
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

fn process(listed: Listed, before: Option<&Before>, gpus: Vec<GpuUse>) -> Process {
    let used = listed.time.zip(before).and_then(|(now, before)| used_since(before, listed.id, now));
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

/// One that was not there before and did not start before the newest that was, is new: all it used was since. One that
/// is older was there and not readable, so that nobody knows.
fn used_since(before: &Before, id: u32, now: Time) -> Option<Duration> {
    match before.times.get(&id) {
        // The kernel may tell a tick less than before while it divides time between user and system.
        Some(then) if then.started == now.started => Some(now.used.saturating_sub(then.used)),
        _ => (now.started >= before.newest_start).then_some(now.used),
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
    use crate::nvidia::scripted::{Script, Scripted, Time as ScriptedTime};
    use crate::nvidia::{GpuProcess, ProcessSample, Utilization};

    fn watch(tree: &FakeProc) -> ProcessWatch {
        ProcessWatch::of(&tree.options(), Driver::Absent(None))
    }

    /// By id, the time since the look before, in milliseconds.
    fn times(table: &ProcessTable) -> Vec<(u32, Option<f64>)> {
        table.processes.iter().map(|process| (process.id, process.cpu.map(Seconds::as_millis))).collect()
    }

    #[test]
    fn time_is_counted_since_the_look_before() {
        let tree = FakeProc::new();
        tree.process(1, b"init", 500, 1).process(20, b"python3", 100, 900);
        let mut watch = watch(&tree);
        let first = watch.look();
        assert_eq!(times(&first), [(1, None), (20, None)], "nothing to compare with");
        assert_eq!(first.processes[1].cpu_total, Some(Seconds::new(1.0)));
        tree.process(20, b"python3", 130, 900).process(7, b"new", 5, 1000);
        let second = watch.look();
        assert_eq!(times(&second), [(1, Some(0.0)), (7, Some(50.0)), (20, Some(300.0))], "7 has started since");
        tree.end(7).process(20, b"python3", 129, 900);
        assert_eq!(times(&watch.look()), [(1, Some(0.0)), (20, Some(0.0))], "a tick back is none");
    }

    #[test]
    fn an_id_with_another_start_is_another_process() {
        let tree = FakeProc::new();
        tree.process(1, b"init", 500, 1).process(20, b"old", 4000, 900);
        let mut watch = watch(&tree);
        watch.look();
        tree.process(20, b"new", 4010, 1200);
        let table = watch.look();
        assert_eq!(times(&table), [(1, Some(0.0)), (20, Some(40_100.0))]);
        assert_eq!(table.processes[1].name.as_deref(), Some("new"));
    }

    #[test]
    fn one_that_was_there_and_not_readable_has_no_time() {
        let tree = FakeProc::new();
        tree.process(1, b"init", 500, 1).process(5, b"hidden", 9000, 300).process(20, b"python3", 1, 900);
        tree.write(5, "stat", b"fish");
        let mut watch = watch(&tree);
        watch.look();
        tree.process(5, b"hidden", 9000, 300);
        assert_eq!(times(&watch.look())[1], (5, None), "its 90 s are not of this look");
        assert_eq!(times(&watch.look())[1], (5, Some(0.0)));
    }

    #[test]
    fn a_gpus_processes_join_those_of_here_and_strangers_stand_alone() {
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
        let scripted = Scripted::new(&ScriptedTime::start(), vec![script]);
        let mut watch = ProcessWatch::of(&tree.options(), Driver::Open(scripted));
        watch.look();
        let table = watch.look();
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
    fn in_a_container_only_who_has_a_gpu_open_is_whom_the_driver_tells_of() {
        let tree = FakeProc::new();
        for id in [20, 21, 22, 23] {
            tree.process(id, b"python3", 1, 900);
        }
        tree.opens(20, "/dev/nvidiactl").opens(21, "/dev/null").opens(23, "/dev/dxg");
        let held = |id| GpuProcess { id, memory: Some(Bytes::new(916_455_424)) };
        let holders = |tree: &FakeProc| {
            let script = Script { compute: Ok((20..24).map(held).collect()), ..Script::default() };
            let scripted = Scripted::new(&ScriptedTime::start(), vec![script]);
            let table = ProcessWatch::of(&tree.options(), Driver::Open(scripted)).look();
            let holders = table.processes.into_iter().filter(|process| !process.gpus.is_empty());
            holders.map(|process| (process.id, process.name.is_some())).collect::<Vec<_>>()
        };
        tree.namespace("pid:[4026532178]");
        assert_eq!(holders(&tree), [(20, true), (21, false), (22, false), (23, true)], "22 may not be looked at");
        tree.namespace("pid:[4026531836]");
        assert_eq!(holders(&tree), [(20, true), (21, true), (22, true), (23, true)], "there is one set of ids");
    }

    #[test]
    fn this_machine_shows_this_process() {
        let mut watch = ProcessWatch::start();
        watch.look();
        let table = watch.look();
        let own = table.processes.iter().find(|process| process.id == std::process::id()).unwrap();
        assert!(own.name.is_some() && own.command.is_some() && own.user.is_some() && own.cpu.is_some());
        assert!(own.memory > Some(Bytes::new(1 << 19)), "{:?}", own.memory);
        assert!(table.processors.is_some());
    }
}
