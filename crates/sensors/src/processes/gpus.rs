//! Reads the use of NVIDIA GPUs by process through NVML.
//!
//! On an H200 with driver 580, the process lists contain only the processes of this container, with the container's
//! ids. The utilization also contains processes outside the container, with the host's ids. So a process that used the
//! GPU and is in no list is external, and must not be confused with a local process of the same id. Older drivers use
//! the host's ids in the lists too. So in a container the id is not enough to match a process: it must also have a GPU
//! open (`proc_files`).
//!
//! The driver returns one sample per process: its mean since the given time, which is zero for an idle process. It
//! drops a process when it ends. The lists take 0.3 ms and the utilization 2 ms.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use ergometer_diagnostics::{Message, command, hint};
use ergometer_telemetry::DeviceId;
use ergometer_units::{Bytes, Seconds};

use super::GpuUse;
use crate::nvidia::{Context, Nvml, NvmlError, OpenError, ProcessSample, open};

/// The longest sampling period of the utilization: 1/6 s to 1 s, depending on the product (nvidia-smi(1)). A process
/// without a sample over this time was idle. Over a shorter time its utilization is unknown.
const LONGEST_PERIOD: Seconds = Seconds::new(1.0);

/// The driver. It is opened at the first sample, because that may take seconds.
pub(super) enum Driver {
    Unopened,
    /// There is no driver, or it cannot be opened, which the message reports.
    Absent(Option<Message>),
    Open(Arc<dyn Nvml>),
}

/// The use of all GPUs by process.
#[derive(Debug, Default)]
pub(super) struct GpuUses {
    /// By local processes, with their ids.
    pub(super) local: BTreeMap<u32, Vec<GpuUse>>,
    /// By processes outside this container, with the host's ids.
    pub(super) external: BTreeMap<u32, Vec<GpuUse>>,
    pub(super) notes: Vec<Message>,
}

/// Samples the use of GPUs.
pub(super) struct GpuWatch {
    driver: Driver,
    /// The driver timestamp of the newest sample, by GPU.
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

    /// Reads the use of all GPUs. `since_last` is `None` for the first sample, which has no utilization. `now_us` is
    /// the wall clock.
    pub(super) fn sample(&mut self, since_last: Option<Seconds>, now_us: u64) -> GpuUses {
        let mut uses = GpuUses::default();
        if let Driver::Unopened = self.driver {
            self.driver = open_driver();
        }
        let nvml = match &self.driver {
            Driver::Open(nvml) => Arc::clone(nvml),
            Driver::Unopened | Driver::Absent(None) => return uses,
            Driver::Absent(Some(why)) => {
                uses.notes.push(why.clone());
                return uses;
            }
        };
        match nvml.gpu_count() {
            Ok(count) => {
                (0..count).for_each(|gpu| self.sample_gpu(nvml.as_ref(), gpu, (since_last, now_us), &mut uses));
            }
            Err(error) => uses.notes.push(format!("cannot list processes on NVIDIA GPUs: {error}").into()),
        }
        uses
    }

    fn sample_gpu(
        &mut self,
        nvml: &dyn Nvml,
        gpu: u32,
        (since_last, now_us): (Option<Seconds>, u64),
        uses: &mut GpuUses,
    ) {
        let device = DeviceId::gpu(gpu);
        let (memory, lists) = match memory_by_process(nvml, gpu) {
            Ok(memory) => (memory, ProcessLists::Complete),
            Err(error) => {
                uses.notes.push(note("processes", device, &error));
                if error == NvmlError::GpuLost {
                    self.seen_us.remove(&gpu);
                    return;
                }
                (BTreeMap::new(), ProcessLists::Unknown)
            }
        };
        // If the wall clock was set back, no sample would be newer for a while: start again.
        let seen_us = self.seen_us.get(&gpu).copied().filter(|&seen_us| seen_us <= now_us);
        let Some((since_last, seen_us)) = since_last.zip(seen_us) else {
            self.seen_us.insert(gpu, now_us);
            add(&mut uses.local, device, memory, |_| None);
            return;
        };
        match nvml.process_utilization(gpu, seen_us) {
            Ok(samples) => {
                let newest_us =
                    samples.iter().filter(|sample| is_valid(sample, seen_us)).map(|sample| sample.time_us).max();
                let sums = averages(&samples, seen_us);
                // Without any sample the driver may be late, but not by more than its period.
                let is_complete = !sums.is_empty() || since_last >= LONGEST_PERIOD;
                self.seen_us.insert(gpu, newest_us.unwrap_or(if is_complete { now_us } else { seen_us }));
                let unlisted = sums.keys().filter(|id| !memory.contains_key(id)).map(|&id| (id, None)).collect();
                let others = if lists == ProcessLists::Complete { &mut uses.external } else { &mut uses.local };
                add(others, device, unlisted, |id| sums.get(&id).copied());
                add(&mut uses.local, device, memory, |id| sums.get(&id).copied().or(is_complete.then_some((0.0, 0.0))));
            }
            Err(error) => {
                uses.notes.push(note("utilization by process", device, &error));
                add(&mut uses.local, device, memory, |_| None);
            }
        }
    }
}

/// Whether the process lists of the driver could be read.
#[derive(PartialEq)]
enum ProcessLists {
    Complete,
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

/// Opens the driver. A machine without a driver has no note; a driver that cannot be opened has one.
fn open_driver() -> Driver {
    match open() {
        Ok(nvml) => Driver::Open(nvml),
        Err(OpenError::NoLibrary | OpenError::DriverNotLoaded) => Driver::Absent(None),
        Err(error) => {
            let message = Message::new(format!("cannot list processes on NVIDIA GPUs: {error}"));
            Driver::Absent(Some(message.with_hint(hint!("run ", command("doctor"), " for details"))))
        }
    }
}

/// The GPU memory of each process: the sum over MIG instances, and the maximum over the kinds of context, because a
/// process with two kinds is in both lists with all its memory.
fn memory_by_process(nvml: &dyn Nvml, gpu: u32) -> Result<BTreeMap<u32, Option<Bytes>>, NvmlError> {
    let mut all = BTreeMap::new();
    for context in [Context::Compute, Context::Graphics, Context::Mps] {
        let found = match nvml.processes(gpu, context) {
            Ok(found) => found,
            // Older GPUs and drivers do not have these two lists.
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

/// Whether a sample is valid. Some drivers leave parts of the buffer unchanged, with the id 0, a utilization of 37100 %
/// or an old timestamp, as users of nvtop reported.
fn is_valid(sample: &ProcessSample, newer_than_us: u64) -> bool {
    let used = sample.utilization;
    sample.id != 0 && sample.time_us > newer_than_us && used.gpu_percent <= 100 && used.memory_percent <= 100
}

fn averages(samples: &[ProcessSample], newer_than_us: u64) -> BTreeMap<u32, (f64, f64)> {
    let mut sums: BTreeMap<u32, Sum> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| is_valid(sample, newer_than_us)) {
        let sum = sums.entry(sample.id).or_default();
        sum.samples += 1.0;
        sum.gpu += f64::from(sample.utilization.gpu_percent);
        sum.memory += f64::from(sample.utilization.memory_percent);
    }
    sums.into_iter().map(|(id, sum)| (id, (sum.gpu / sum.samples, sum.memory / sum.samples))).collect()
}

fn note(what: &str, device: DeviceId, error: &NvmlError) -> Message {
    let hint = match error {
        NvmlError::NoPermission => Some(hint!("run as root")),
        NvmlError::GpuLost => Some(hint!("check `nvidia-smi` and `sudo dmesg | grep -i xid`")),
        NvmlError::NotSupported | NvmlError::Other(_) => None,
    };
    Message { text: format!("cannot read {what} of {device}: {error}"), hint }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvidia::scripted::{Script, ScriptedNvml, Time};
    use crate::nvidia::{GpuProcess, Utilization};

    /// The wall clock of the first sample.
    const START_US: u64 = 1_700_000_000_000_000;

    fn holds(id: u32, gib: u64) -> GpuProcess {
        GpuProcess { id, memory: Some(Bytes::new(gib << 30)) }
    }

    fn used(id: u32, after_us: u64, gpu_percent: u32) -> ProcessSample {
        ProcessSample { id, time_us: START_US + after_us, utilization: Utilization { gpu_percent, memory_percent: 10 } }
    }

    fn watch(scripts: Vec<Script>) -> (Arc<ScriptedNvml>, GpuWatch) {
        let scripted = ScriptedNvml::new(&Time::start(), scripts);
        (Arc::clone(&scripted), GpuWatch::new(Driver::Open(scripted)))
    }

    /// The second of two samples, a second apart.
    fn second_sample(watch: &mut GpuWatch) -> GpuUses {
        watch.sample(None, START_US);
        watch.sample(Some(Seconds::new(1.0)), START_US + 1_000_000)
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
        let uses = watch.sample(None, START_US);
        assert!(uses.local.values().flatten().all(|held| held.utilization_pct.is_none()), "nothing to compare with");
        let uses = watch.sample(Some(Seconds::new(1.0)), START_US + 1_000_000);
        let expected = |gpu, gib: u64, utilization, memory| GpuUse {
            device: DeviceId::gpu(gpu),
            memory: Some(Bytes::new(gib << 30)),
            utilization_pct: Some(utilization),
            memory_utilization_pct: Some(memory),
        };
        assert_eq!(uses.local[&815], [expected(0, 80, 80.0, 10.0), expected(1, 60, 0.0, 0.0)]);
        assert_eq!(uses.local[&900], [expected(0, 2, 0.0, 0.0)], "no sample over a second is idle");
        assert!(uses.notes.is_empty() && uses.external.is_empty());
    }

    #[test]
    fn memory_of_two_kinds_of_context_is_not_doubled() {
        let script = Script {
            compute: Ok(vec![holds(7, 4), holds(8, 1), holds(8, 2), GpuProcess { id: 9, memory: None }]),
            graphics: Ok(vec![holds(7, 4)]),
            mps: Ok(vec![holds(8, 3)]),
            ..Script::default()
        };
        let uses = second_sample(&mut watch(vec![script]).1);
        let memory = |id: u32| uses.local[&id].iter().map(|held| held.memory).collect::<Vec<_>>();
        assert_eq!(memory(7), [Some(Bytes::new(4 << 30))]);
        assert_eq!(memory(8), [Some(Bytes::new(3 << 30))], "two instances are summed");
        assert_eq!(memory(9), [None]);
    }

    #[test]
    fn a_process_outside_the_container_is_external() {
        let script = Script { process_utilization: Ok(vec![used(444, 900_000, 48)]), ..Script::default() };
        let uses = second_sample(&mut watch(vec![script]).1);
        assert!(uses.local.is_empty());
        assert_eq!((uses.external[&444][0].memory, uses.external[&444][0].utilization_pct), (None, Some(48.0)));
    }

    #[test]
    fn without_a_sample_utilization_over_a_short_time_is_unknown() {
        let script = Script { compute: Ok(vec![holds(7, 4), holds(8, 4)]), ..Script::default() };
        let (scripted, mut watch) = watch(vec![script]);
        watch.sample(None, START_US);
        let utilization = |uses: &GpuUses, id: u32| uses.local[&id][0].utilization_pct;
        let uses = watch.sample(Some(Seconds::new(0.2)), START_US + 200_000);
        assert_eq!(utilization(&uses, 7), None, "the driver may not have sampled yet");
        scripted.change(0, |script| script.process_utilization = Ok(vec![used(7, 150_000, 30)]));
        let uses = watch.sample(Some(Seconds::new(0.2)), START_US + 400_000);
        assert_eq!(utilization(&uses, 7), Some(30.0), "a late sample is not lost");
        assert_eq!(utilization(&uses, 8), Some(0.0), "the driver did sample");
        let uses = watch.sample(Some(Seconds::new(0.2)), START_US + 600_000);
        assert_eq!(utilization(&uses, 7), None, "and not used twice");
    }

    #[test]
    fn a_wall_clock_set_back_does_not_look_idle() {
        let script = Script { compute: Ok(vec![holds(7, 4)]), ..Script::default() };
        let (scripted, mut watch) = watch(vec![script]);
        watch.sample(None, START_US + 3_600_000_000);
        scripted.change(0, |script| script.process_utilization = Ok(vec![used(7, 1_500_000, 30)]));
        let uses = watch.sample(Some(Seconds::new(1.0)), START_US + 1_000_000);
        assert_eq!(uses.local[&7][0].utilization_pct, None);
        let uses = watch.sample(Some(Seconds::new(1.0)), START_US + 2_000_000);
        assert_eq!(uses.local[&7][0].utilization_pct, Some(30.0));
    }

    #[test]
    fn invalid_samples_are_dropped() {
        let nonsense =
            vec![used(50554, 900_000, 37100), used(0, 900_000, 5), ProcessSample { time_us: 49936, ..used(7, 0, 5) }];
        let script = Script { process_utilization: Ok(nonsense), ..Script::default() };
        let uses = second_sample(&mut watch(vec![script]).1);
        assert!(uses.local.is_empty() && uses.external.is_empty(), "{uses:?}");
    }

    #[test]
    fn a_failed_read_is_one_note_per_gpu() {
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
        let uses = second_sample(&mut watch(vec![refused, unlisted]).1);
        assert_eq!(
            uses.notes,
            [
                Message::new("cannot read utilization by process of gpu:0: not supported by this GPU or its driver"),
                Message::new("cannot read processes of gpu:1: this user has no permission")
                    .with_hint(hint!("run as root")),
            ]
        );
        let shown: Vec<_> = uses.local[&7].iter().map(|held| (held.memory.is_some(), held.utilization_pct)).collect();
        assert_eq!(shown, [(true, None), (false, Some(20.0))]);
    }

    #[test]
    fn a_lost_gpu_is_a_note_and_the_other_is_read() {
        let script = || Script { compute: Ok(vec![holds(7, 4)]), ..Script::default() };
        let (scripted, mut watch) = watch(vec![script(), script()]);
        watch.sample(None, START_US);
        scripted.change(0, Script::lose);
        let uses = watch.sample(Some(Seconds::new(1.0)), START_US + 1_000_000);
        assert_eq!(uses.local[&7].iter().map(|held| held.device).collect::<Vec<_>>(), [DeviceId::gpu(1)]);
        assert!(
            matches!(&uses.notes[..], [note] if note.text.contains("gpu:0") && note.hint.is_some()),
            "{:?}",
            uses.notes
        );
    }

    #[test]
    fn a_machine_without_a_driver_has_no_note() {
        let uses = second_sample(&mut GpuWatch::new(Driver::Absent(None)));
        assert!(uses.local.is_empty() && uses.notes.is_empty());
        let uses = second_sample(&mut GpuWatch::new(Driver::Absent(Some("two versions".into()))));
        assert_eq!(uses.notes, [Message::new("two versions")]);
    }
}
