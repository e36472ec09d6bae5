//! Who uses the machine, looked at on a thread of its own: a driver that hangs holds up nobody but this thread.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use ergometer_sensors::processes::{ProcessTable, ProcessWatch, split_by_cpu_time};
use ergometer_units::Joules;
use ergometer_units::format::quantity;

/// How often processes are looked at: `/proc` of a large machine takes some tens of milliseconds.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(1500);

/// The processes as they were last seen.
#[derive(Debug, Default, Clone)]
pub(crate) struct Watcher(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    looks: u64,
    table: ProcessTable,
}

impl Watcher {
    /// Looks until the program ends. Nothing waits for it.
    pub(crate) fn start() -> std::io::Result<Self> {
        let watcher = Self::default();
        let shared = Arc::clone(&watcher.0);
        thread::Builder::new().name(String::from("ergo-processes")).spawn(move || {
            let mut watch = ProcessWatch::start();
            loop {
                let mut table = watch.sample();
                // A command of `--sensor` may hold a password.
                for ours in table.processes.iter_mut().filter(|process| process.id == std::process::id()) {
                    ours.command.clone_from(&ours.name);
                }
                {
                    let mut seen = shared.lock().unwrap_or_else(PoisonError::into_inner);
                    seen.looks += 1;
                    seen.table = table;
                }
                if Arc::strong_count(&shared) == 1 {
                    return;
                }
                thread::sleep(LOOK_EVERY);
            }
        })?;
        Ok(watcher)
    }

    /// The last table, and how many there were.
    pub(crate) fn last(&self) -> (u64, ProcessTable) {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (seen.looks, seen.table.clone())
    }
}

/// The energy of the CPU since the start, divided among processes by their processor time: a convention.
#[derive(Debug, Default)]
pub(crate) struct SplitByCpuTime {
    looks: u64,
    energy: Joules,
    /// What the CPU had used when it was last asked.
    latest: Joules,
    shares: BTreeMap<u32, f64>,
}

/// The energy of the CPU by process, and all of it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Shares {
    pub(crate) all_j: f64,
    pub(crate) by_process: BTreeMap<u32, f64>,
}

impl Shares {
    pub(crate) fn share(&self, id: u32) -> Option<String> {
        self.by_process.get(&id).map(|&joules| quantity(joules, "J"))
    }

    /// What none of the processes of a table has: with it they add up to the energy of the CPU.
    pub(crate) fn rest_j(&self, table: &ProcessTable) -> f64 {
        let known = table.processes.iter().filter_map(|process| self.by_process.get(&process.id));
        (self.all_j - known.sum::<f64>()).max(0.0)
    }

    pub(crate) fn rest(&self, table: &ProcessTable) -> String {
        quantity(self.rest_j(table), "J")
    }
}

impl SplitByCpuTime {
    /// Takes in a new table, and what the CPU has used by now.
    pub(crate) fn update(&mut self, (looks, table): (u64, &ProcessTable), energy: Option<Joules>) {
        self.latest = energy.unwrap_or(self.latest);
        let Some(energy) = energy.filter(|_| looks != self.looks) else { return };
        // The first look has no time before it.
        if self.looks > 0 && energy > self.energy {
            let split = split_by_cpu_time(energy - self.energy, table);
            for share in split.into_iter().flat_map(|split| split.processes) {
                *self.shares.entry(share.id).or_default() += share.energy.get();
            }
        }
        self.looks = looks;
        self.energy = energy;
        let is_there = |id: &u32| table.processes.iter().any(|process| process.id == *id);
        self.shares.retain(|id, _| is_there(id));
    }

    pub(crate) fn shares(&self) -> Shares {
        Shares { all_j: self.latest.get(), by_process: self.shares.clone() }
    }
}

#[cfg(test)]
mod tests {
    use ergometer_sensors::processes::Process;
    use ergometer_units::Seconds;

    use super::*;

    #[test]
    fn idle_processors_are_nobodys() {
        let process = |id, cpu: Option<f64>| Process { id, cpu: cpu.map(Seconds::new), ..Process::default() };
        let table = ProcessTable {
            since_last: Seconds::new(2.0),
            processors: Some(4),
            processes: vec![process(1, Some(4.0)), process(2, Some(1.0)), process(3, None)],
            notes: Vec::new(),
        };
        let mut split = SplitByCpuTime::default();
        split.update((1, &table), Some(Joules::new(100.0)));
        assert!(split.shares().by_process.is_empty(), "what came before the first look is nobody's");
        split.update((2, &table), Some(Joules::new(180.0)));
        split.update((2, &table), Some(Joules::new(200.0)));
        let shares = split.shares();
        assert_eq!(shares.by_process, BTreeMap::from([(1, 40.0), (2, 10.0)]), "one look counts once");
        assert_eq!((shares.all_j, shares.rest_j(&table)), (200.0, 150.0), "all of it is somebody's or the rest's");
        let left = ProcessTable { processes: vec![process(2, None)], ..table };
        split.update((3, &left), Some(Joules::new(200.0)));
        assert_eq!(split.shares().rest_j(&left), 190.0, "what an ended process had goes to the rest");
    }
}
