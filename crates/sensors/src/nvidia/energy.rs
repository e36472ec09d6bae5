//! Samples the energy counter of one GPU at its updates.
//!
//! The counter is in millijoules and steps every 100 ms. Each reading is one step with the interval in which it
//! happened. While the counter does not move, its value is repeated, so that a steady counter and a stalled sensor look
//! different.
//!
//! A read keeps a core busy for 3-5 ms, so reading every step costs a quarter of a core. If power samples show the
//! progress between steps, one step in fifty is as accurate (the errors in the truth recording are the same). So once
//! the times of the steps are known, the counter is read every four seconds in the middle between two steps, where it
//! is certain which step was read. The times are checked at increasing intervals by a step that is observed from both
//! sides.
//!
//! A decrease is a reset and reported as such, never a wrap. A counter that does not move while its GPU draws power is
//! reported as stuck; it does not mean 0 W.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ergometer_diagnostics::{Message, hint};
use ergometer_telemetry::{
    Batch, Channel, Clock, EventKind, Provenance, Reading, Scope, Sensor, SensorError, SensorInfo, Signal,
};
use ergometer_units::{Joules, Seconds, Timestamp, Watts};

use super::edge_grid::EdgeGrid;
use super::faults::{Faults, lost};
use super::library::{Nvml, NvmlError, PowerField};
use super::{Now, Target};

const WHAT: &str = "energy counter";
/// How often the counter steps, as measured on H100 and H200.
const UPDATE_PERIOD: Seconds = Seconds::new(0.1);
/// A value that does not change is repeated after this time, so that with the longest read it stays below 500 ms.
const REPEAT_AFTER: Duration = Duration::from_millis(400);
/// A counter that did not move for this long is checked.
const STUCK_AFTER: Duration = Duration::from_secs(2);
/// How often such a counter is checked, and how often it is read.
const STUCK_CHECK_EVERY: Duration = Duration::from_secs(1);
const UNCHANGED_WAIT: Duration = Duration::from_millis(50);
/// The time between two reads if not every step is needed.
const SPARSE_WAIT: Duration = Duration::from_secs(4);
/// The first and the longest time between two checks of the step times. The time doubles with each check, because each
/// check makes the known period accurate enough for the next.
const FIRST_CHECK: Duration = Duration::from_secs(2);
const LAST_CHECK: Duration = Duration::from_secs(60);
/// The wait after a read that failed.
const FAILED_WAIT: Duration = Duration::from_millis(100);
/// Two reads closer than this observe one step from both sides. Between reads further apart there may be many steps.
const BOTH_SIDES: Duration = Duration::from_millis(60);
/// A GPU above this power moves the counter by thousands of millijoules in two seconds.
const DRAWS_POWER: Watts = Watts::new(1.0);

/// Which steps to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Steps {
    /// All steps, because there are no power samples.
    Every,
    /// A few steps, because power samples show the rest.
    Few,
}

/// When the step times are checked next.
#[derive(Debug, Clone, Copy)]
struct Checks {
    due: Instant,
    apart: Duration,
}

/// The last value of the counter.
#[derive(Debug, Clone, Copy)]
struct LastValue {
    value_mj: u64,
    /// When the last read of this value began.
    read_at: Instant,
    /// When the value was first read.
    since: Instant,
    /// When the value was last emitted.
    emitted_at: Instant,
    /// When the counter was last checked for being stuck.
    checked_at: Instant,
    reported_stuck: bool,
}

/// The energy counter of one GPU.
pub(super) struct EnergySensor {
    info: SensorInfo,
    channels: [Channel; 1],
    nvml: Arc<dyn Nvml>,
    now: Now,
    faults: Faults,
    grid: EdgeGrid,
    steps: Steps,
    /// Set if only a few steps are read and the grid is known.
    checks: Option<Checks>,
    last: Option<LastValue>,
    wait: Duration,
}

/// The scope of the counter of a GPU. On a GH200 it counts the whole module, with the Grace CPU and its memory,
/// although the power is that of the GPU.
fn counter_scope(name: &str) -> Scope {
    if name.contains("GH200") { Scope::Module } else { Scope::Device }
}

impl EnergySensor {
    pub(super) fn new(target: &Target, steps: Steps) -> Self {
        let interval = Duration::from_millis(5);
        Self {
            info: target.info("energy", interval),
            channels: [Channel {
                device: target.device,
                scope: counter_scope(&target.name),
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
            last: None,
            wait: interval,
        }
    }

    /// The next check of the grid, after twice the time of the last. `None` if every step is read or the grid is
    /// unknown.
    fn next_check(&self, now: Instant) -> Option<Checks> {
        let apart = self.checks.map_or(FIRST_CHECK, |checks| (2 * checks.apart).min(LAST_CHECK));
        (self.steps == Steps::Few && self.grid.is_known()).then(|| Checks { due: now + apart, apart })
    }

    /// How long to wait after a read: until the next step, or until the middle between two steps if few are read.
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
        // Soon after the start, the step times are not accurate that far ahead: try shorter waits.
        let waits = [1, 2, 4, 8].map(|part| SPARSE_WAIT / part);
        let Some(middle) = waits.into_iter().find_map(|wait| self.grid.wait_for_middle(end, wait)) else {
            // The step times are no longer accurate enough: check them now.
            self.checks = Some(Checks { due: end, ..checks });
            return self.grid.wait(start, end);
        };
        if middle < until_check { middle } else { self.grid.wait_for_step(end, until_check) }
    }

    /// Reports once that the counter does not move although its GPU draws power.
    fn check_stuck(
        &self,
        last: &mut LastValue,
        end: Instant,
        clock: &Clock,
        batch: &mut Batch,
    ) -> Result<(), SensorError> {
        let unchanged = end.saturating_duration_since(last.since);
        let checked = end.saturating_duration_since(last.checked_at);
        if last.reported_stuck || unchanged < STUCK_AFTER || checked < STUCK_CHECK_EVERY {
            return Ok(());
        }
        last.checked_at = end;
        let device = self.info.device;
        if let Some(work) = self.busy_sign().map_err(|_| lost(device))? {
            last.reported_stuck = true;
            let text = format!(
                "the energy counter of {device} is stuck: it did not change for {:.1} s while the GPU {work}; what it \
                 should have counted in this time is unknown, not zero",
                unchanged.as_secs_f64()
            );
            let hint = hint!("reload the driver; until then energy comes from power readings, if the GPU has them");
            let message = Message::new(text).with_hint(hint);
            batch.event(clock.at(end), EventKind::CounterStuck, message);
        }
        Ok(())
    }

    /// Evidence that the GPU is busy, from its power or else its utilization. Fails only if the GPU is lost.
    fn busy_sign(&self) -> Result<Option<String>, NvmlError> {
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
        let new_value =
            LastValue { value_mj, read_at: start, since: end, emitted_at: end, checked_at: end, reported_stuck: false };
        self.last = Some(match self.last {
            // Not a step: the value was reached at some time in the previous period.
            None => {
                emit(batch, clock.at(start) - UPDATE_PERIOD, at, value_mj);
                new_value
            }
            Some(mut last) if last.value_mj == value_mj => {
                if self.checks.is_some() {
                    // The skipped steps are not missing.
                    self.grid.advance_to(last.read_at);
                }
                self.grid.note_unchanged(start);
                last.read_at = start;
                if end.saturating_duration_since(last.emitted_at) >= REPEAT_AFTER {
                    last.emitted_at = end;
                    emit(batch, at, at, value_mj);
                }
                self.check_stuck(&mut last, end, clock, batch)?;
                last
            }
            Some(last) => {
                if value_mj < last.value_mj {
                    let message = format!(
                        "the energy counter of {} was reset from {} mJ to {value_mj} mJ, probably because the driver was \
                         reloaded; the energy across the reset is unknown",
                        self.info.device, last.value_mj
                    );
                    batch.event(at, EventKind::CounterReset, message);
                    self.grid.forget();
                } else if end.saturating_duration_since(last.read_at) < BOTH_SIDES {
                    self.grid.note_step(last.read_at, end);
                    self.checks = self.checks.filter(|checks| end < checks.due).or_else(|| self.next_check(end));
                }
                // Between two distant reads the grid is more accurate.
                let (after, until) = match self.grid.step_behind(start, end) {
                    Some((low, high)) if self.checks.is_some() => (low.max(last.read_at), high.min(end)),
                    _ => (last.read_at, end),
                };
                emit(batch, clock.at(after), clock.at(until), value_mj);
                new_value
            }
        });
        let is_still = self.last.is_some_and(|last| end.saturating_duration_since(last.since) >= STUCK_AFTER);
        let wait = if is_still { UNCHANGED_WAIT } else { self.next_wait(start, end) };
        self.wait = end.saturating_duration_since(start) + wait;
        Ok(())
    }

    /// Short around an expected step, long between two steps.
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
    use super::super::scripted::{Script, ScriptedNvml, Time};
    use super::*;

    struct Bench {
        time: Time,
        nvml: Arc<ScriptedNvml>,
        sensor: EnergySensor,
        clock: Clock,
        batch: Batch,
    }

    impl Bench {
        fn new() -> Self {
            let (clock, time) = (Clock::start(), Time::start());
            let nvml = ScriptedNvml::new(&time, vec![Script::default()]);
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
    fn a_step_lies_between_the_last_old_and_the_first_new_value() {
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
    fn an_unchanged_value_is_repeated() {
        let mut bench = Bench::new();
        bench.nvml.change(0, |script| script.power = Ok(Watts::ZERO));
        bench.nvml.change(0, |script| script.utilization = Err(NvmlError::NotSupported));
        bench.sample_for(Duration::from_secs(10));
        let times: Vec<_> = bench.batch.readings.iter().map(|reading| reading.at).collect();
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] <= Seconds::new(0.5)), "{times:?}");
        assert!(bench.batch.readings[1..].iter().all(|reading| reading.after == reading.at));
        assert!(bench.batch.events.is_empty(), "the counter of an idle GPU need not move");
    }

    #[test]
    fn a_decrease_is_a_reset_and_never_a_wrap() {
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
    fn a_stuck_counter_is_reported_once() {
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
        assert_eq!(bench.events(EventKind::CounterStuck), 2, "stuck again, detected by utilization");
    }

    #[test]
    fn a_failing_read_is_reported_once_and_a_lost_gpu_ends_the_sensor() {
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
    fn a_regular_counter_needs_few_reads_and_loses_no_step() {
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
        assert!(reads < 1100, "{reads} reads for 200 steps; at even intervals it would be 2,200");
        assert!(bench.batch.events.is_empty());
    }

    #[test]
    fn with_few_steps_each_reading_still_contains_its_step() {
        let mut bench = Bench::new();
        bench.sensor.steps = Steps::Few;
        let begin = bench.time.now();
        let step = |number: u64| begin + Duration::from_micros(40_000 + number * 99_999);
        let mut reads: u64 = 0;
        while bench.time.now() < begin + Duration::from_secs(300) {
            // Reads take 3 to 5 ms, and one in twenty takes 30 ms, as recorded on an H200.
            let slow = if reads.wrapping_mul(7) % 20 == 3 { 25_000 } else { 0 };
            let takes = Duration::from_micros(3000 + reads.wrapping_mul(7919) % 2000 + slow);
            bench.nvml.change(0, |script| script.energy_takes = takes);
            // A read returns the counter at its end.
            let read_end = bench.time.now() + takes;
            let steps = read_end.saturating_duration_since(step(0)).as_micros() / 99_999;
            bench.energy(Ok(u64::try_from(steps).unwrap() * 10_000));
            bench.sample().unwrap();
            reads += 1;
        }
        assert!(reads < 500, "{reads} reads in five minutes; with every step it would be 10,000");
        let readings = &bench.batch.readings[1..];
        assert!(readings.windows(2).all(|pair| pair[1].at - pair[0].at < Seconds::new(5.0)), "there is no long gap");
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
