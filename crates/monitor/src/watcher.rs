//! Lists processes on a separate thread, so that a hanging driver blocks nothing else.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use ergometer_sensors::processes::{ProcessTable, ProcessWatch, split_by_cpu_time};
use ergometer_units::Joules;
use ergometer_units::format::quantity;

/// How often processes are listed: reading `/proc` of a large machine takes tens of milliseconds.
pub(crate) const LIST_INTERVAL: Duration = Duration::from_millis(1500);

/// The latest list of processes.
#[derive(Debug, Default, Clone)]
pub(crate) struct ProcessWatcher(Arc<Mutex<LatestTable>>);

#[derive(Debug, Default)]
struct LatestTable {
    /// How many tables there have been.
    count: u64,
    table: ProcessTable,
}

impl ProcessWatcher {
    /// Starts the thread. It ends when the watcher is dropped.
    pub(crate) fn start() -> std::io::Result<Self> {
        let watcher = Self::default();
        let shared = Arc::clone(&watcher.0);
        thread::Builder::new().name(String::from("ergo-processes")).spawn(move || {
            let mut watch = ProcessWatch::start();
            loop {
                let mut table = watch.sample();
                // Our own command line may contain a password, in the command of a user's meter.
                for ours in table.processes.iter_mut().filter(|process| process.id == std::process::id()) {
                    ours.command.clone_from(&ours.name);
                }
                {
                    let mut latest = shared.lock().unwrap_or_else(PoisonError::into_inner);
                    latest.count += 1;
                    latest.table = table;
                }
                if Arc::strong_count(&shared) == 1 {
                    return;
                }
                thread::sleep(LIST_INTERVAL);
            }
        })?;
        Ok(watcher)
    }

    /// The number of tables so far, and the latest.
    pub(crate) fn last(&self) -> (u64, ProcessTable) {
        let latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (latest.count, latest.table.clone())
    }
}

/// Divides the energy of the CPU since the start among processes, in proportion to CPU time.
#[derive(Debug, Default)]
pub(crate) struct SplitByCpuTime {
    /// The number of tables so far.
    tables: u64,
    energy: Joules,
    /// The latest energy of the CPU.
    latest: Joules,
    shares: BTreeMap<u32, f64>,
}

/// The energy of the CPU, in total and by process.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Shares {
    pub(crate) all_j: f64,
    pub(crate) by_process: BTreeMap<u32, f64>,
}

impl Shares {
    pub(crate) fn share(&self, id: u32) -> Option<String> {
        self.by_process.get(&id).map(|&joules| quantity(joules, "J"))
    }

    /// The energy that no process of a table has, so that all shares sum to the energy of the CPU.
    pub(crate) fn rest_j(&self, table: &ProcessTable) -> f64 {
        let known = table.processes.iter().filter_map(|process| self.by_process.get(&process.id));
        (self.all_j - known.sum::<f64>()).max(0.0)
    }

    pub(crate) fn rest(&self, table: &ProcessTable) -> String {
        quantity(self.rest_j(table), "J")
    }
}

impl SplitByCpuTime {
    /// Divides the energy since the last table. A table counts once.
    pub(crate) fn update(&mut self, (tables, table): (u64, &ProcessTable), energy: Option<Joules>) {
        self.latest = energy.unwrap_or(self.latest);
        let Some(energy) = energy.filter(|_| tables != self.tables) else { return };
        // The first table has no time before it.
        if self.tables > 0 && energy > self.energy {
            let split = split_by_cpu_time(energy - self.energy, table);
            for share in split.into_iter().flat_map(|split| split.processes) {
                *self.shares.entry(share.id).or_default() += share.energy.get();
            }
        }
        self.tables = tables;
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
    fn idle_time_belongs_to_no_process() {
        let process = |id, cpu: Option<f64>| Process { id, cpu: cpu.map(Seconds::new), ..Process::default() };
        let table = ProcessTable {
            since_last: Seconds::new(2.0),
            processors: Some(4),
            processes: vec![process(1, Some(4.0)), process(2, Some(1.0)), process(3, None)],
            notes: Vec::new(),
        };
        let mut split = SplitByCpuTime::default();
        split.update((1, &table), Some(Joules::new(100.0)));
        assert!(split.shares().by_process.is_empty(), "energy before the first table belongs to no process");
        split.update((2, &table), Some(Joules::new(180.0)));
        split.update((2, &table), Some(Joules::new(200.0)));
        let shares = split.shares();
        assert_eq!(shares.by_process, BTreeMap::from([(1, 40.0), (2, 10.0)]), "a table counts once");
        assert_eq!((shares.all_j, shares.rest_j(&table)), (200.0, 150.0), "shares and rest sum to the total");
        let left = ProcessTable { processes: vec![process(2, None)], ..table };
        split.update((3, &left), Some(Joules::new(200.0)));
        assert_eq!(split.shares().rest_j(&left), 190.0, "the share of an ended process goes to the rest");
    }
}
