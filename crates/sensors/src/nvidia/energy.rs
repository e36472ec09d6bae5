//! The energy counter of one GPU, read on its edges.
//!
//! In: reads of a counter of millijoules that steps every 100 ms. Out: readings of its steps, each with the span of time
//! the step lies in; while nothing moves, the same value again, so that a steady counter and a stalled sensor look
//! different.
//!
//! A read keeps a core busy for 3-5 ms, so reading every step costs a quarter of a core. Where the power samples tell the
//! shape, one step in fifty anchors it as well (the truth recording's errors are the same), so once the steps' clock is
//! known the counter is read in the middle between two steps, every four seconds: which step it saw is certain. The clock
//! is checked on a step seen from both sides, at growing distances.
//!
//! Always: a step back is a reset of the counter and said so, never a wrap; a counter that stands while its GPU draws
//! power is said to be stuck, never 0 W.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ergometer_units::{Joules, Seconds, Timestamp, Watts};

use super::edge_grid::EdgeGrid;
use super::faults::{Faults, lost};
use super::library::{Nvml, NvmlError, PowerField};
use super::{Now, Target};
use ergometer_telemetry::{
    Batch, Channel, Clock, EventKind, Provenance, Reading, Scope, Sensor, SensorError, SensorInfo, Signal,
};

const WHAT: &str = "energy counter";
/// How often the counter steps, where it was measured (H100, H200).
const UPDATE_PERIOD: Seconds = Seconds::new(0.1);
/// A value that stands is said again after this; short of 500 ms by the longest read and wait.
const REPEAT_AFTER: Duration = Duration::from_millis(400);
/// A counter that has stood this long is looked into.
const STUCK_AFTER: Duration = Duration::from_secs(2);
/// How often it is looked into, and how often it is read while it stands.
const STUCK_CHECK_EVERY: Duration = Duration::from_secs(1);
const STANDING_WAIT: Duration = Duration::from_millis(50);
/// Between two reads where not every step is wanted.
const SPARSE_WAIT: Duration = Duration::from_secs(4);
/// The first and the longest time between two checks of the clock; it doubles in between. Each check narrows the period
/// by what the next will need.
const FIRST_CHECK: Duration = Duration::from_secs(2);
const LAST_CHECK: Duration = Duration::from_secs(60);
/// The wait after a read that failed.
const FAILED_WAIT: Duration = Duration::from_millis(100);
/// Two reads this close together see a step from both sides; between reads farther apart there may be many.
const SEEN_FROM_BOTH_SIDES: Duration = Duration::from_millis(60);
/// Over two seconds this moves a counter of millijoules by thousands.
const DRAWS_POWER: Watts = Watts::new(1.0);

/// Which steps are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Steps {
    /// All: nothing else tells what happens between them.
    Every,
    /// A few: power samples tell the rest.
    Few,
}

/// When the clock of the steps is checked.
#[derive(Debug, Clone, Copy)]
struct Checks {
    due: Instant,
    apart: Duration,
}

/// The counter as it was last seen.
#[derive(Debug, Clone, Copy)]
struct Seen {
    value_mj: u64,
    /// When the last read that saw it began.
    read_at: Instant,
    /// When it was first seen.
    since: Instant,
    /// When it was last emitted.
    emitted_at: Instant,
    /// When it was last looked into for being stuck.
    checked_at: Instant,
    said_stuck: bool,
}

/// See the module.
pub(super) struct EnergySensor {
    info: SensorInfo,
    channels: [Channel; 1],
    nvml: Arc<dyn Nvml>,
    now: Now,
    faults: Faults,
    grid: EdgeGrid,
    steps: Steps,
    /// Where not every step is wanted and the grid is known.
    checks: Option<Checks>,
    seen: Option<Seen>,
    wait: Duration,
}

/// What the counter of a GPU counts. A GH200's counts its whole module, with the Grace beside it and its memory; its power
/// is that of the GPU.
fn counted(name: &str) -> Scope {
    if name.contains("GH200") { Scope::Module } else { Scope::Device }
}

impl EnergySensor {
    pub(super) fn new(target: &Target, steps: Steps) -> Self {
        let interval = Duration::from_millis(5);
        Self {
            info: target.info("energy", interval),
            channels: [Channel {
                device: target.device,
                scope: counted(&target.name),
                signal: Signal::Energy,
                provenance: Provenance::Counter,
                update_period: Some(UPDATE_PERIOD),
            }],
            nvml: target.nvml.clone(),
            now: target.now.clone(),
            faults: Faults::new(target.device),
            grid: EdgeGrid::new((target.now)()),
            steps,
            checks: None,
            seen: None,
            wait: interval,
        }
    }

    /// When the grid is checked next: twice as far off as last time. `None` where every step is wanted or it is unknown.
    fn next_check(&self, now: Instant) -> Option<Checks> {
        let apart = self.checks.map_or(FIRST_CHECK, |checks| (2 * checks.apart).min(LAST_CHECK));
        (self.steps == Steps::Few && self.grid.is_known()).then(|| Checks { due: now + apart, apart })
    }

    /// How long to wait after a read: for the next step, or where few are wanted for the middle between two.
    fn next_wait(&mut self, start: Instant, end: Instant) -> Duration {
        if !self.grid.is_known() {
            self.checks = None;
        }
        let Some(checks) = self.checks else { return self.grid.wait(start, end) };
        if end >= checks.due {
            self.grid.advance_to(end);
            return self.grid.wait(start, end);
        }
        let until_check = checks.due.saturating_duration_since(end);
        // Soon after the start the steps are not known far ahead: then sooner.
        let waits = [1, 2, 4, 8].map(|part| SPARSE_WAIT / part);
        let Some(middle) = waits.into_iter().find_map(|wait| self.grid.wait_for_middle(end, wait)) else {
            // The steps are no longer known well enough: check at once.
            self.checks = Some(Checks { due: end, ..checks });
            return self.grid.wait(start, end);
        };
        if middle < until_check { middle } else { self.grid.wait_for_step(end, until_check) }
    }

    /// Says so, once, where the counter stands though its GPU draws power.
    fn look_into(&self, seen: &mut Seen, end: Instant, clock: &Clock, batch: &mut Batch) -> Result<(), SensorError> {
        let standing = end.saturating_duration_since(seen.since);
        let checked = end.saturating_duration_since(seen.checked_at);
        if seen.said_stuck || standing < STUCK_AFTER || checked < STUCK_CHECK_EVERY {
            return Ok(());
        }
        seen.checked_at = end;
        let device = self.info.device;
        if let Some(work) = self.sign_of_work().map_err(|_| lost(device))? {
            seen.said_stuck = true;
            let message = format!(
                "the energy counter of {device} is stuck: it has stood for {:.1} s while the GPU {work}. Its energy in \
                 this time is unknown, not zero. hint: use the power samples; a reload of the driver may free it",
                standing.as_secs_f64()
            );
            batch.event(clock.at(end), EventKind::CounterStuck, message);
        }
        Ok(())
    }

    /// What shows that the GPU works, by its power or else by its utilization; an error only where the GPU is lost.
    fn sign_of_work(&self) -> Result<Option<String>, NvmlError> {
        let gpu = self.info.device.index;
        for field in [PowerField::Instant, PowerField::Average] {
            match self.nvml.power(gpu, field) {
                Ok(power) if power > DRAWS_POWER => return Ok(Some(format!("draws {:.0} W", power.get()))),
                Err(NvmlError::GpuLost) => return Err(NvmlError::GpuLost),
                _ => {}
            }
        }
        match self.nvml.utilization(gpu) {
            Ok(found) if found.gpu_percent > 0 => Ok(Some(format!("is {} % utilized", found.gpu_percent))),
            Err(NvmlError::GpuLost) => Err(NvmlError::GpuLost),
            _ => Ok(None),
        }
    }
}

impl Sensor for EnergySensor {
    fn info(&self) -> &SensorInfo {
        &self.info
    }

    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn sample(&mut self, clock: &Clock, batch: &mut Batch) -> Result<(), SensorError> {
        let start = (self.now)();
        let outcome = self.nvml.energy_mj(self.info.device.index);
        let end = (self.now)();
        let at = clock.at(end);
        let Some(value_mj) = self.faults.settle(WHAT, outcome, at, batch)? else {
            self.wait = FAILED_WAIT;
            return Ok(());
        };
        let first_seen =
            Seen { value_mj, read_at: start, since: end, emitted_at: end, checked_at: end, said_stuck: false };
        self.seen = Some(match self.seen {
            // Not an edge: the value came to be at some time in the period before.
            None => {
                emit(batch, clock.at(start) - UPDATE_PERIOD, at, value_mj);
                first_seen
            }
            Some(mut seen) if seen.value_mj == value_mj => {
                if self.checks.is_some() {
                    // The steps that were left out are no steps that failed to come.
                    self.grid.advance_to(seen.read_at);
                }
                self.grid.stood_still(start);
                seen.read_at = start;
                if end.saturating_duration_since(seen.emitted_at) >= REPEAT_AFTER {
                    seen.emitted_at = end;
                    emit(batch, at, at, value_mj);
                }
                self.look_into(&mut seen, end, clock, batch)?;
                seen
            }
            Some(seen) => {
                if value_mj < seen.value_mj {
                    let message = format!(
                        "the energy counter of {} went back from {} mJ to {value_mj} mJ: it was reset, as by a reload of \
                         the driver. It is read on from the new value; energy across this moment is unknown",
                        self.info.device, seen.value_mj
                    );
                    batch.event(at, EventKind::CounterReset, message);
                    self.grid.forget();
                } else if end.saturating_duration_since(seen.read_at) < SEEN_FROM_BOTH_SIDES {
                    self.grid.stepped(seen.read_at, end);
                    self.checks = self.checks.filter(|checks| end < checks.due).or_else(|| self.next_check(end));
                }
                // Between two reads far apart the grid knows better when the step was.
                let (after, until) = match self.grid.step_behind(start, end) {
                    Some((low, high)) if self.checks.is_some() => (low.max(seen.read_at), high.min(end)),
                    _ => (seen.read_at, end),
                };
                emit(batch, clock.at(after), clock.at(until), value_mj);
                first_seen
            }
        });
        let stands = self.seen.is_some_and(|seen| end.saturating_duration_since(seen.since) >= STUCK_AFTER);
        let wait = if stands { STANDING_WAIT } else { self.next_wait(start, end) };
        self.wait = end.saturating_duration_since(start) + wait;
        Ok(())
    }

    /// Short around an expected step, long between two.
    fn interval(&self) -> Duration {
        self.wait
    }
}

fn emit(batch: &mut Batch, after: Timestamp, at: Timestamp, value_mj: u64) {
    let value = Joules::from_millis(value_mj as f64).get();
    batch.readings.push(Reading { channel: 0, after, at, value });
}

#[cfg(test)]
mod tests {
    use super::super::library::Utilization;
    use super::super::scripted::{Script, Scripted, Time};
    use super::*;

    struct Bench {
        time: Time,
        nvml: Arc<Scripted>,
        sensor: EnergySensor,
        clock: Clock,
        batch: Batch,
    }

    impl Bench {
        fn new() -> Self {
            let (clock, time) = (Clock::start(), Time::start());
            let nvml = Scripted::new(&time, vec![Script::default()]);
            let sensor = EnergySensor::new(&nvml.target(0), Steps::Every);
            Self { time, nvml, sensor, clock, batch: Batch::default() }
        }

        fn energy(&self, energy: Result<u64, NvmlError>) {
            self.nvml.change(0, |script| script.energy = energy);
        }

        fn sample(&mut self) -> Result<(), SensorError> {
            let start = self.time.now();
            let outcome = self.sensor.sample(&self.clock, &mut self.batch);
            self.time.pass(self.sensor.interval().saturating_sub(self.time.now() - start));
            outcome
        }

        fn sample_for(&mut self, length: Duration) {
            let end = self.time.now() + length;
            while self.time.now() < end {
                self.sample().unwrap();
            }
        }

        fn events(&self, kind: EventKind) -> usize {
            self.batch.events.iter().filter(|event| event.kind == kind).count()
        }
    }

    #[test]
    fn a_step_lies_between_the_last_read_of_the_old_value_and_the_first_of_the_new() {
        let mut bench = Bench::new();
        let first = bench.time.now();
        bench.sample().unwrap();
        let second = bench.time.now();
        bench.sample().unwrap();
        bench.energy(Ok(1_012_500));
        bench.nvml.change(0, |script| script.energy_takes = Duration::from_millis(35));
        let third = bench.time.now();
        bench.sample().unwrap();
        let [begin, step] = bench.batch.readings[..] else { panic!("{:?}", bench.batch) };
        assert_eq!(begin.after, bench.clock.at(first) - UPDATE_PERIOD);
        assert_eq!(begin.value, 1000.0);
        assert_eq!(step.after, bench.clock.at(second));
        assert_eq!(step.at, bench.clock.at(third + Duration::from_millis(35)));
        assert_eq!(step.value, 1012.5);
        assert!(bench.batch.events.is_empty());
    }

    #[test]
    fn a_value_that_stands_is_said_again() {
        let mut bench = Bench::new();
        bench.nvml.change(0, |script| script.power = Ok(Watts::ZERO));
        bench.nvml.change(0, |script| script.utilization = Err(NvmlError::NotSupported));
        bench.sample_for(Duration::from_secs(10));
        let times: Vec<_> = bench.batch.readings.iter().map(|reading| reading.at).collect();
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] <= Seconds::new(0.5)), "{times:?}");
        assert!(bench.batch.readings[1..].iter().all(|reading| reading.after == reading.at));
        assert!(bench.batch.events.is_empty(), "an idle GPU's counter may stand");
    }

    #[test]
    fn a_step_back_is_a_reset_and_never_a_wrap() {
        let mut bench = Bench::new();
        bench.sample().unwrap();
        bench.energy(Ok(7_000));
        bench.sample().unwrap();
        bench.energy(Ok(8_000));
        bench.sample().unwrap();
        let values: Vec<_> = bench.batch.readings.iter().map(|reading| reading.value).collect();
        assert_eq!(values, [1000.0, 7.0, 8.0]);
        assert_eq!(bench.events(EventKind::CounterReset), 1);
    }

    #[test]
    fn a_counter_that_stands_while_its_gpu_works_is_stuck_and_said_so_once() {
        let mut bench = Bench::new();
        bench.sample_for(Duration::from_secs(8));
        assert_eq!(bench.events(EventKind::CounterStuck), 1);
        assert!(bench.batch.events[0].message.contains("draws 100 W"), "{:?}", bench.batch.events);
        bench.energy(Ok(2_000_000));
        bench.sample_for(Duration::from_secs(1));
        assert_eq!(bench.events(EventKind::CounterStuck), 1, "it moved");
        bench.nvml.change(0, |script| {
            script.power = Err(NvmlError::NotSupported);
            script.utilization = Ok(Utilization { gpu_percent: 97, memory_percent: 0 });
        });
        bench.sample_for(Duration::from_secs(8));
        assert_eq!(bench.events(EventKind::CounterStuck), 2, "stuck again, seen by utilization");
    }

    #[test]
    fn a_failing_read_is_said_once_and_a_lost_gpu_ends_the_sensor() {
        let mut bench = Bench::new();
        bench.sample().unwrap();
        bench.energy(Err(NvmlError::Other("timeout".into())));
        bench.sample_for(Duration::from_secs(1));
        assert_eq!((bench.events(EventKind::ReadFailed), bench.batch.readings.len()), (1, 1));
        bench.energy(Ok(1_090_000));
        bench.sample().unwrap();
        let after_gap = bench.batch.readings[1];
        assert!(after_gap.at - after_gap.after > Seconds::new(1.0), "the step may lie anywhere in the gap");
        bench.nvml.change(0, Script::lose);
        assert!(matches!(bench.sample(), Err(SensorError::Lost { .. })));
    }

    #[test]
    fn a_counter_on_a_grid_costs_few_reads_and_loses_no_step() {
        let mut bench = Bench::new();
        let begin = bench.time.now();
        let mut reads = 0;
        while bench.time.now() < begin + Duration::from_secs(20) {
            let steps = (bench.time.now() + Duration::from_millis(3) - begin).as_millis() / 100;
            bench.energy(Ok(u64::try_from(steps).unwrap() * 10_000));
            bench.sample().unwrap();
            reads += 1;
        }
        assert!(bench.batch.readings.len() >= 199, "{} readings of 200 steps", bench.batch.readings.len());
        assert!(reads < 1100, "{reads} reads for 200 steps; evenly they would be 2,200");
        assert!(bench.batch.events.is_empty());
    }

    #[test]
    fn where_few_steps_are_wanted_each_reading_still_holds_its_step() {
        let mut bench = Bench::new();
        bench.sensor.steps = Steps::Few;
        let begin = bench.time.now();
        let step = |number: u64| begin + Duration::from_micros(40_000 + number * 99_999);
        let mut reads: u64 = 0;
        while bench.time.now() < begin + Duration::from_secs(300) {
            // Reads take 3 to 5 ms, one in twenty of them 30: as recorded on an H200.
            let slow = if reads.wrapping_mul(7) % 20 == 3 { 25_000 } else { 0 };
            let takes = Duration::from_micros(3000 + reads.wrapping_mul(7919) % 2000 + slow);
            bench.nvml.change(0, |script| script.energy_takes = takes);
            // A read sees the counter as it is when it ends.
            let seen = bench.time.now() + takes;
            let steps = seen.saturating_duration_since(step(0)).as_micros() / 99_999;
            bench.energy(Ok(u64::try_from(steps).unwrap() * 10_000));
            bench.sample().unwrap();
            reads += 1;
        }
        assert!(reads < 500, "{reads} reads in five minutes; for every step it would be 10,000");
        let readings = &bench.batch.readings[1..];
        assert!(
            readings.windows(2).all(|pair| pair[1].at - pair[0].at < Seconds::new(5.0)),
            "none is left out for long"
        );
        for reading in readings {
            let number = (reading.value / 10.0).round();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small count")]
            let truth = bench.clock.at(step(number as u64));
            let slack = Seconds::from_millis(4.0);
            assert!(reading.after - slack <= truth && truth <= reading.at + slack, "{reading:?} {truth:?}");
            assert!(reading.at - reading.after < Seconds::from_millis(70.0), "{reading:?}");
        }
        assert!(bench.batch.events.is_empty(), "{:?}", bench.batch.events);
    }
}
