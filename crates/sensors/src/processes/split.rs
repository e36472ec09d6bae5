//! Divides an energy among processes by their CPU time.
//!
//! This is a convention, not a measurement. An idle processor still draws power, a second of vector arithmetic costs
//! more than a second of waiting for memory, and no counter attributes energy to a process. Here a process gets `energy
//! x its CPU time / (processors x time)`. The rest is not attributed: idle power, processes that ended between two
//! samples, and CPU time that belongs to no process.
//!
//! No share is negative. The shares and the rest sum exactly to the energy, in any order.

use ergometer_units::{Joules, Seconds};

use super::ProcessTable;

/// An energy divided among processes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Split {
    /// The share of each process with a known CPU time, in the order of the table.
    pub processes: Vec<Share>,
    /// The energy that is attributed to no process.
    pub rest: Joules,
}

/// The share of one process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// The id of the process.
    pub id: u32,
    /// Its share.
    pub energy: Joules,
}

/// Divides an energy among the processes of a table by their CPU time.
///
/// CPU time is counted in ticks of 10 ms, so over a short time its sum may exceed the available time. Then the energy
/// is divided by the sum, and the rest is zero.
///
/// `None` if the number of processors is unknown, no process has a known CPU time (as in the first sample), no time has
/// passed, or the energy is negative or infinite.
///
/// ```
/// use ergometer_sensors::processes::{Process, ProcessTable, split_by_cpu_time};
/// use ergometer_units::{Joules, Seconds};
/// let process = Process { id: 7, cpu: Some(Seconds::new(1.0)), ..Process::default() };
/// let table = ProcessTable {
///     since_last: Seconds::new(2.0),
///     processors: Some(4),
///     processes: vec![process],
///     ..ProcessTable::default()
/// };
/// let split = split_by_cpu_time(Joules::new(80.0), &table).expect("all values are known");
/// assert_eq!(split.processes[0].energy, Joules::new(10.0));
/// assert_eq!(split.rest, Joules::new(70.0));
/// ```
#[must_use]
pub fn split_by_cpu_time(energy: Joules, table: &ProcessTable) -> Option<Split> {
    let processors = table.processors.filter(|&processors| processors > 0)?;
    // Each share is a multiple of the energy's last binary place, so sums are exact in any order.
    let unit = energy.get().next_up() - energy.get();
    if energy.get() < 0.0 || !unit.is_finite() || table.since_last <= Seconds::ZERO {
        return None;
    }
    let known = || table.processes.iter().filter_map(|process| Some((process.id, process.cpu?.max(Seconds::ZERO))));
    known().next()?;
    let used: Seconds = known().map(|(_, cpu)| cpu).sum();
    let available = (table.since_last * f64::from(processors)).max(used);
    if !available.get().is_finite() {
        return None;
    }
    let mut rest = energy;
    let processes = known().map(|(id, cpu)| {
        let share = energy.get() * (cpu / available);
        let energy = Joules::new((share / unit).floor() * unit).min(rest);
        rest -= energy;
        Share { id, energy }
    });
    Some(Split { processes: processes.collect(), rest })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Process;
    use super::*;

    fn table(seconds: f64, processors: u32, times: &[Option<f64>]) -> ProcessTable {
        let processes =
            (1..).zip(times).map(|(id, cpu)| Process { id, cpu: cpu.map(Seconds::new), ..Process::default() });
        ProcessTable {
            since_last: Seconds::new(seconds),
            processors: Some(processors),
            processes: processes.collect(),
            notes: Vec::new(),
        }
    }

    fn split(energy: f64, table: &ProcessTable) -> Option<Split> {
        split_by_cpu_time(Joules::new(energy), table)
    }

    #[test]
    fn unused_cpu_time_is_the_rest() {
        let found = split(100.0, &table(1.0, 2, &[Some(1.0), None, Some(0.5)])).unwrap();
        let energies: Vec<_> = found.processes.iter().map(|share| (share.id, share.energy.get())).collect();
        assert_eq!(energies, [(1, 50.0), (3, 25.0)], "a process with an unknown CPU time has no share");
        assert_eq!(found.rest, Joules::new(25.0));
    }

    #[test]
    fn cpu_time_above_the_available_time_is_scaled() {
        let found = split(8.0, &table(0.01, 1, &[Some(0.03), Some(0.01)])).unwrap();
        assert_eq!(found.processes[0].energy, Joules::new(6.0));
        assert_eq!((found.processes[1].energy, found.rest), (Joules::new(2.0), Joules::ZERO));
    }

    #[test]
    fn without_known_values_there_is_no_split() {
        assert_eq!(split(1.0, &table(1.0, 2, &[None])), None);
        assert_eq!(split(1.0, &table(1.0, 2, &[])), None);
        assert_eq!(split(1.0, &table(0.0, 2, &[Some(0.1)])), None);
        assert_eq!(split(1.0, &ProcessTable { processors: None, ..table(1.0, 2, &[Some(0.1)]) }), None);
        for energy in [-1.0, f64::NAN, f64::INFINITY, f64::MAX] {
            assert_eq!(split(energy, &table(1.0, 2, &[Some(0.1)])), None, "{energy}");
        }
        assert_eq!(split(0.0, &table(1.0, 2, &[Some(0.1)])).unwrap().rest, Joules::ZERO);
    }

    proptest! {
        #[test]
        fn shares_and_rest_sum_to_the_energy_exactly(
            energy in prop_oneof![0.0..1e-6, 0.0..1e6, 0.0..1e15],
            seconds in 1e-6..1e4_f64,
            processors in 1..512_u32,
            times in proptest::collection::vec(proptest::option::of(0.0..100.0_f64), 1..60),
        ) {
            let table = table(seconds, processors, &times);
            let Some(split) = split(energy, &table) else {
                prop_assert!(times.iter().all(Option::is_none));
                return Ok(());
            };
            let shares = || split.processes.iter().map(|share| share.energy.get());
            prop_assert!(split.rest >= Joules::ZERO && shares().all(|share| share >= 0.0));
            prop_assert_eq!(shares().sum::<f64>() + split.rest.get(), energy);
            prop_assert_eq!(shares().rev().fold(split.rest.get(), |sum, share| sum + share), energy);
        }
    }
}
