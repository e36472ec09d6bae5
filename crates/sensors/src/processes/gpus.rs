//! What processes hold of NVIDIA GPUs, through NVML.
//!
//! In goes an [`Nvml`] and the time since the look before; out comes a [`GpuUse`] for each process and GPU, and notes
//! on what the driver refuses. Ids are as the driver tells them.
//!
//! Seen on an H200 with driver 580: the lists show the processes of this namespace (container) alone, by its own ids;
//! utilization shows those beyond it too, by the host's ids. So who is in no list but used the GPU is a stranger, which
//! must not be taken for a process of here that has the same id. Older drivers tell the host's ids in the lists, too, so
//! that in a container an id is not enough to join a process by: it must have a GPU open (`proc_files`).
//! The driver gives one sample a process, its average since the time asked for, zero for one that was idle, and forgets
//! a process when it ends. The lists cost 0.3 ms, utilization 2 ms.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use ergometer_units::{Bytes, Seconds};

use super::GpuUse;
use crate::nvidia::{Context, Nvml, NvmlError, OpenError, ProcessSample, open};
use ergometer_telemetry::DeviceId;

/// Utilization is sampled every sixth of a second to every second, by product (nvidia-smi(1)). Over at least that
/// time, a process without a sample was idle; over less, nobody knows.
const LONGEST_PERIOD: Seconds = Seconds::new(1.0);

/// The driver, which is looked for at the first look and not before: starting it may take seconds.
pub(super) enum Driver {
    Unopened,
    /// There is none, or it does not start, and whether that is worth a word.
    Absent(Option<String>),
    Open(Arc<dyn Nvml>),
}

/// What the processes of all GPUs hold.
#[derive(Debug, Default)]
pub(super) struct GpuLook {
    /// Of processes of here, by their ids.
    pub(super) uses: BTreeMap<u32, Vec<GpuUse>>,
    /// Of processes beyond this container, by the host's ids.
    pub(super) strangers: BTreeMap<u32, Vec<GpuUse>>,
    pub(super) notes: Vec<String>,
}

/// Looks at the GPUs again and again.
pub(super) struct GpuWatch {
    driver: Driver,
    /// By GPU, the driver's time up to which its samples were seen.
    seen_us: BTreeMap<u32, u64>,
}

/// The samples of one process, summed.
#[derive(Default)]
struct Sum {
    samples: f64,
    gpu: f64,
    memory: f64,
}

impl GpuWatch {
    pub(super) const fn new(driver: Driver) -> Self {
        Self { driver, seen_us: BTreeMap::new() }
    }

    /// `since_last` is `None` at the first look, which has no utilization. `now_us` is the wall clock.
    pub(super) fn look(&mut self, since_last: Option<Seconds>, now_us: u64) -> GpuLook {
        let mut look = GpuLook::default();
        if let Driver::Unopened = self.driver {
            self.driver = opened();
        }
        let nvml = match &self.driver {
            Driver::Open(nvml) => Arc::clone(nvml),
            Driver::Unopened | Driver::Absent(None) => return look,
            Driver::Absent(Some(why)) => {
                look.notes.push(why.clone());
                return look;
            }
        };
        match nvml.gpu_count() {
            Ok(count) => (0..count).for_each(|gpu| self.look_at(nvml.as_ref(), gpu, (since_last, now_us), &mut look)),
            Err(error) => look.notes.push(format!("cannot ask for processes on NVIDIA GPUs: {error}")),
        }
        look
    }

    fn look_at(&mut self, nvml: &dyn Nvml, gpu: u32, (since_last, now_us): (Option<Seconds>, u64), look: &mut GpuLook) {
        let device = DeviceId::gpu(gpu);
        let (memory, listed) = match memory_by_process(nvml, gpu) {
            Ok(memory) => (memory, Listed::All),
            Err(error) => {
                look.notes.push(note("processes", device, &error));
                if error == NvmlError::GpuLost {
                    self.seen_us.remove(&gpu);
                    return;
                }
                (BTreeMap::new(), Listed::Unknown)
            }
        };
        // Where the wall clock was set back, nothing would be newer for a while: begin anew.
        let seen_us = self.seen_us.get(&gpu).copied().filter(|&seen_us| seen_us <= now_us);
        let Some((since_last, seen_us)) = since_last.zip(seen_us) else {
            self.seen_us.insert(gpu, now_us);
            add(&mut look.uses, device, memory, |_| None);
            return;
        };
        match nvml.process_utilization(gpu, seen_us) {
            Ok(samples) => {
                let newest_us =
                    samples.iter().filter(|sample| is_sound(sample, seen_us)).map(|sample| sample.time_us).max();
                let sums = averages(&samples, seen_us);
                // Where the driver has told nothing it may be late, but never by more than its period.
                let tells_all = !sums.is_empty() || since_last >= LONGEST_PERIOD;
                self.seen_us.insert(gpu, newest_us.unwrap_or(if tells_all { now_us } else { seen_us }));
                let unlisted = sums.keys().filter(|id| !memory.contains_key(id)).map(|&id| (id, None)).collect();
                let others = if listed == Listed::All { &mut look.strangers } else { &mut look.uses };
                add(others, device, unlisted, |id| sums.get(&id).copied());
                add(&mut look.uses, device, memory, |id| sums.get(&id).copied().or(tells_all.then_some((0.0, 0.0))));
            }
            Err(error) => {
                look.notes.push(note("utilization by process", device, &error));
                add(&mut look.uses, device, memory, |_| None);
            }
        }
    }
}

/// Whether the driver's lists of processes are known.
#[derive(PartialEq)]
enum Listed {
    All,
    Unknown,
}

fn add(
    uses: &mut BTreeMap<u32, Vec<GpuUse>>,
    device: DeviceId,
    memory: BTreeMap<u32, Option<Bytes>>,
    used: impl Fn(u32) -> Option<(f64, f64)>,
) {
    for (id, memory) in memory {
        let (utilization_pct, memory_utilization_pct) = used(id).unzip();
        uses.entry(id).or_default().push(GpuUse { device, memory, utilization_pct, memory_utilization_pct });
    }
}

/// A machine without the driver is an ordinary one; a driver that does not start is worth a word.
fn opened() -> Driver {
    match open() {
        Ok(nvml) => Driver::Open(nvml),
        Err(OpenError::NoLibrary | OpenError::DriverNotLoaded) => Driver::Absent(None),
        Err(error) => {
            Driver::Absent(Some(format!("no processes of NVIDIA GPUs: {error}. hint: `ergo doctor` says more")))
        }
    }
}

/// By process, what it holds: the sum over instances (MIG) of one kind of context, and the most of any kind, since one
/// with two kinds is told in both lists with all it has.
fn memory_by_process(nvml: &dyn Nvml, gpu: u32) -> Result<BTreeMap<u32, Option<Bytes>>, NvmlError> {
    let mut all = BTreeMap::new();
    for context in [Context::Compute, Context::Graphics, Context::Mps] {
        let found = match nvml.processes(gpu, context) {
            Ok(found) => found,
            // Older GPUs and drivers lack these two lists, which are empty for who computes.
            Err(NvmlError::NotSupported) if context != Context::Compute => continue,
            Err(error) => return Err(error),
        };
        let mut of_kind: BTreeMap<u32, Option<Bytes>> = BTreeMap::new();
        for process in found {
            match of_kind.entry(process.id) {
                Entry::Vacant(entry) => _ = entry.insert(process.memory),
                Entry::Occupied(mut entry) => {
                    let sum = entry.get().zip(process.memory).map(|(a, b)| Bytes::new(a.get().saturating_add(b.get())));
                    entry.insert(sum.or(*entry.get()).or(process.memory));
                }
            }
        }
        for (id, memory) in of_kind {
            let most = all.entry(id).or_insert(None);
            *most = memory.max(*most);
        }
    }
    Ok(all)
}

/// Some drivers leave entries of the buffer as they were, with ids of nobody, shares of 37100 % and times of long ago, as
/// users of nvtop saw.
fn is_sound(sample: &ProcessSample, newer_than_us: u64) -> bool {
    let used = sample.utilization;
    sample.id != 0 && sample.time_us > newer_than_us && used.gpu_percent <= 100 && used.memory_percent <= 100
}

fn averages(samples: &[ProcessSample], newer_than_us: u64) -> BTreeMap<u32, (f64, f64)> {
    let mut sums: BTreeMap<u32, Sum> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| is_sound(sample, newer_than_us)) {
        let sum = sums.entry(sample.id).or_default();
        sum.samples += 1.0;
        sum.gpu += f64::from(sample.utilization.gpu_percent);
        sum.memory += f64::from(sample.utilization.memory_percent);
    }
    sums.into_iter().map(|(id, sum)| (id, (sum.gpu / sum.samples, sum.memory / sum.samples))).collect()
}

fn note(what: &str, device: DeviceId, error: &NvmlError) -> String {
    let hint = match error {
        NvmlError::NoPermission => ". hint: run as root",
        NvmlError::GpuLost => ". hint: look at `nvidia-smi` and `sudo dmesg | grep -i xid`",
        NvmlError::NotSupported | NvmlError::Other(_) => "",
    };
    format!("cannot ask for {what} of {device}: {error}{hint}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvidia::scripted::{Script, Scripted, Time};
    use crate::nvidia::{GpuProcess, Utilization};

    /// The wall clock of the first look.
    const START_US: u64 = 1_700_000_000_000_000;

    fn holds(id: u32, gib: u64) -> GpuProcess {
        GpuProcess { id, memory: Some(Bytes::new(gib << 30)) }
    }

    fn used(id: u32, after_us: u64, gpu_percent: u32) -> ProcessSample {
        ProcessSample { id, time_us: START_US + after_us, utilization: Utilization { gpu_percent, memory_percent: 10 } }
    }

    fn watch(scripts: Vec<Script>) -> (Arc<Scripted>, GpuWatch) {
        let scripted = Scripted::new(&Time::start(), scripts);
        (Arc::clone(&scripted), GpuWatch::new(Driver::Open(scripted)))
    }

    /// A first look and one a second later.
    fn second_look(watch: &mut GpuWatch) -> GpuLook {
        watch.look(None, START_US);
        watch.look(Some(Seconds::new(1.0)), START_US + 1_000_000)
    }

    #[test]
    fn a_process_on_two_gpus_has_two_entries() {
        let first = Script {
            compute: Ok(vec![holds(815, 80), holds(900, 2)]),
            process_utilization: Ok(vec![used(815, 300_000, 90), used(815, 600_000, 70)]),
            ..Script::default()
        };
        let second = Script { compute: Ok(vec![holds(815, 60)]), ..Script::default() };
        let (_, mut watch) = watch(vec![first, second]);
        let look = watch.look(None, START_US);
        assert!(look.uses.values().flatten().all(|held| held.utilization_pct.is_none()), "nothing to compare with");
        let look = watch.look(Some(Seconds::new(1.0)), START_US + 1_000_000);
        let expected = |gpu, gib: u64, utilization, memory| GpuUse {
            device: DeviceId::gpu(gpu),
            memory: Some(Bytes::new(gib << 30)),
            utilization_pct: Some(utilization),
            memory_utilization_pct: Some(memory),
        };
        assert_eq!(look.uses[&815], [expected(0, 80, 80.0, 10.0), expected(1, 60, 0.0, 0.0)]);
        assert_eq!(look.uses[&900], [expected(0, 2, 0.0, 0.0)], "no sample over a second is idle");
        assert!(look.notes.is_empty() && look.strangers.is_empty());
    }

    #[test]
    fn memory_of_two_kinds_of_context_is_not_doubled() {
        let script = Script {
            compute: Ok(vec![holds(7, 4), holds(8, 1), holds(8, 2), GpuProcess { id: 9, memory: None }]),
            graphics: Ok(vec![holds(7, 4)]),
            mps: Ok(vec![holds(8, 3)]),
            ..Script::default()
        };
        let look = second_look(&mut watch(vec![script]).1);
        let memory = |id: u32| look.uses[&id].iter().map(|held| held.memory).collect::<Vec<_>>();
        assert_eq!(memory(7), [Some(Bytes::new(4 << 30))]);
        assert_eq!(memory(8), [Some(Bytes::new(3 << 30))], "two instances are summed");
        assert_eq!(memory(9), [None]);
    }

    #[test]
    fn a_process_beyond_the_container_is_a_stranger() {
        let script = Script { process_utilization: Ok(vec![used(444, 900_000, 48)]), ..Script::default() };
        let look = second_look(&mut watch(vec![script]).1);
        assert!(look.uses.is_empty());
        assert_eq!((look.strangers[&444][0].memory, look.strangers[&444][0].utilization_pct), (None, Some(48.0)));
    }

    #[test]
    fn without_a_sample_a_short_time_tells_nothing() {
        let script = Script { compute: Ok(vec![holds(7, 4), holds(8, 4)]), ..Script::default() };
        let (scripted, mut watch) = watch(vec![script]);
        watch.look(None, START_US);
        let utilization = |look: &GpuLook, id: u32| look.uses[&id][0].utilization_pct;
        let look = watch.look(Some(Seconds::new(0.2)), START_US + 200_000);
        assert_eq!(utilization(&look, 7), None, "the driver may not have sampled yet");
        scripted.change(0, |script| script.process_utilization = Ok(vec![used(7, 150_000, 30)]));
        let look = watch.look(Some(Seconds::new(0.2)), START_US + 400_000);
        assert_eq!(utilization(&look, 7), Some(30.0), "a late sample is not lost");
        assert_eq!(utilization(&look, 8), Some(0.0), "the driver did sample");
        let look = watch.look(Some(Seconds::new(0.2)), START_US + 600_000);
        assert_eq!(utilization(&look, 7), None, "and not told twice");
    }

    #[test]
    fn a_wall_clock_set_back_is_not_idleness() {
        let script = Script { compute: Ok(vec![holds(7, 4)]), ..Script::default() };
        let (scripted, mut watch) = watch(vec![script]);
        watch.look(None, START_US + 3_600_000_000);
        scripted.change(0, |script| script.process_utilization = Ok(vec![used(7, 1_500_000, 30)]));
        let look = watch.look(Some(Seconds::new(1.0)), START_US + 1_000_000);
        assert_eq!(look.uses[&7][0].utilization_pct, None);
        let look = watch.look(Some(Seconds::new(1.0)), START_US + 2_000_000);
        assert_eq!(look.uses[&7][0].utilization_pct, Some(30.0));
    }

    #[test]
    fn samples_that_are_none_are_dropped() {
        let nonsense =
            vec![used(50554, 900_000, 37100), used(0, 900_000, 5), ProcessSample { time_us: 49936, ..used(7, 0, 5) }];
        let script = Script { process_utilization: Ok(nonsense), ..Script::default() };
        let look = second_look(&mut watch(vec![script]).1);
        assert!(look.uses.is_empty() && look.strangers.is_empty(), "{look:?}");
    }

    #[test]
    fn what_the_driver_refuses_is_said_once_a_gpu() {
        let refused = Script {
            compute: Ok(vec![holds(7, 4)]),
            mps: Err(NvmlError::NotSupported),
            process_utilization: Err(NvmlError::NotSupported),
            ..Script::default()
        };
        let unlisted = Script {
            compute: Err(NvmlError::NoPermission),
            process_utilization: Ok(vec![used(7, 500_000, 20)]),
            ..Script::default()
        };
        let look = second_look(&mut watch(vec![refused, unlisted]).1);
        assert_eq!(
            look.notes,
            [
                "cannot ask for utilization by process of gpu:0: not supported by this GPU or its driver",
                "cannot ask for processes of gpu:1: this user has no permission. hint: run as root",
            ]
        );
        let shown: Vec<_> = look.uses[&7].iter().map(|held| (held.memory.is_some(), held.utilization_pct)).collect();
        assert_eq!(shown, [(true, None), (false, Some(20.0))]);
    }

    #[test]
    fn a_lost_gpu_is_said_and_the_other_goes_on() {
        let script = || Script { compute: Ok(vec![holds(7, 4)]), ..Script::default() };
        let (scripted, mut watch) = watch(vec![script(), script()]);
        watch.look(None, START_US);
        scripted.change(0, Script::lose);
        let look = watch.look(Some(Seconds::new(1.0)), START_US + 1_000_000);
        assert_eq!(look.uses[&7].iter().map(|held| held.device).collect::<Vec<_>>(), [DeviceId::gpu(1)]);
        assert!(
            matches!(&look.notes[..], [note] if note.contains("gpu:0") && note.contains("xid")),
            "{:?}",
            look.notes
        );
    }

    #[test]
    fn a_machine_without_a_driver_has_nothing_to_say() {
        let look = second_look(&mut GpuWatch::new(Driver::Absent(None)));
        assert!(look.uses.is_empty() && look.notes.is_empty());
        let look = second_look(&mut GpuWatch::new(Driver::Absent(Some("two versions".into()))));
        assert_eq!(look.notes, ["two versions"]);
    }
}
