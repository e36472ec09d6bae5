//! A fake event source `power` with controlled counts, for tests.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Event, OpenEvent};
use crate::energy_counter::ReadCounter;
use crate::rapl::Options;
use crate::rapl::fake::FakeTree;

/// The kernel's scale: 2^-32 J.
const SCALE: &str = "2.3283064365386962890625e-10";

/// The event numbers of the kernel's driver.
const NUMBERS: [(&str, u64); 5] =
    [("energy-cores", 1), ("energy-pkg", 2), ("energy-ram", 3), ("energy-gpu", 4), ("energy-psys", 5)];

/// An event source next to a fake powercap tree.
pub(super) struct FakeSource(FakeTree);

impl FakeSource {
    /// A source with these events on these processors (number, package, die).
    pub(super) fn new(tree: FakeTree, names: &[&str], processors: &[(u32, u32, u32)]) -> Self {
        let source = Self(tree);
        let options = source.options();
        fs::create_dir_all(options.event_root.join("power/events")).unwrap();
        let list: Vec<String> = processors.iter().map(|(processor, ..)| processor.to_string()).collect();
        source.write("type", "23");
        source.write("cpumask", &list.join(","));
        for name in names {
            let (_, number) = NUMBERS.iter().find(|(known, _)| known == name).unwrap();
            source.write(&format!("events/{name}"), &format!("event={number:#04x}"));
            source.write(&format!("events/{name}.unit"), "Joules");
            source.write(&format!("events/{name}.scale"), SCALE);
        }
        for (processor, package, die) in processors {
            let topology = options.processor_root.join(format!("cpu{processor}/topology"));
            fs::create_dir_all(&topology).unwrap();
            fs::write(topology.join("physical_package_id"), format!("{package}\n")).unwrap();
            fs::write(topology.join("die_id"), format!("{die}\n")).unwrap();
        }
        source
    }

    pub(super) fn options(&self) -> Options {
        self.0.options()
    }

    pub(super) fn write(&self, file: &str, text: &str) {
        fs::write(self.options().event_root.join("power").join(file), format!("{text}\n")).unwrap();
    }
}

/// Events that all advance at every fourth read of any of them.
#[derive(Default)]
pub(super) struct FakeEvents {
    pub(super) reads: Arc<AtomicU64>,
    /// The `errno` with which opening an event fails.
    pub(super) open_error: Option<i32>,
    /// Processors that show the counters of the first one.
    pub(super) mirrors: Vec<u32>,
    /// The numbers of the events that do not move.
    pub(super) still: Vec<u64>,
}

impl OpenEvent for FakeEvents {
    fn open(&self, event: Event) -> io::Result<Box<dyn ReadCounter>> {
        if let Some(errno) = self.open_error {
            return Err(io::Error::from_raw_os_error(errno));
        }
        let processor = if self.mirrors.contains(&event.processor) { 0 } else { event.processor };
        // Some joules per step, like tens of watts over a tenth of a second, different for each processor.
        let step = if self.still.contains(&event.config) { 0 } else { (7 << 32) + u64::from(processor) };
        // Events are opened one after another, so they start at different times.
        let start = self.reads.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(FakeEvent { reads: Arc::clone(&self.reads), start, step }))
    }
}

struct FakeEvent {
    reads: Arc<AtomicU64>,
    start: u64,
    step: u64,
}

impl ReadCounter for FakeEvent {
    fn read(&mut self) -> io::Result<u64> {
        let reads = self.reads.fetch_add(1, Ordering::Relaxed);
        Ok(self.step * ((reads + 2) / 4 - (self.start + 2) / 4))
    }
}
