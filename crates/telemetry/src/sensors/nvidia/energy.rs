//! The energy counter of one GPU, read on its edges.
//!
//! In: reads of a counter of millijoules that steps every 100 ms. Out: one reading per step, with the span of time the
//! step lies in; while nothing moves, the same value again at least every 500 ms, so that a steady counter and a stalled
//! sensor look different.
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
use crate::{Batch, Channel, Clock, EventKind, Provenance, Reading, Scope, Sensor, SensorError, SensorInfo, Signal};

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
/// The wait after a read that failed.
const FAILED_WAIT: Duration = Duration::from_millis(100);
/// Over two seconds this moves a counter of millijoules by thousands.
const DRAWS_POWER: Watts = Watts::new(1.0);

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
    seen: Option<Seen>,
    wait: Duration,
}

impl EnergySensor {
    pub(super) fn new(target: &Target) -> Self {
        let interval = Duration::from_millis(5);
        Self {
            info: target.info("energy", interval),
            channels: [Channel {
                device: target.device,
                scope: Scope::Device,
                signal: Signal::Energy,
                provenance: Provenance::Counter,
                update_period: Some(UPDATE_PERIOD),
            }],
            nvml: target.nvml.clone(),
            now: target.now.clone(),
            faults: Faults::new(target.device),
            grid: EdgeGrid::new((target.now)()),
            seen: None,
            wait: interval,
        }
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
                } else {
                    self.grid.stepped(seen.read_at, end);
                }
                emit(batch, clock.at(seen.read_at), at, value_mj);
                first_seen
            }
        });
        let stands = self.seen.is_some_and(|seen| end.saturating_duration_since(seen.since) >= STUCK_AFTER);
        self.wait = if stands { STANDING_WAIT } else { self.grid.wait(start, end) };
        Ok(())
    }

    /// The wait from the end of a sample to the next: short around an expected step, long between two.
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
            let sensor = EnergySensor::new(&nvml.target(0));
            Self { time, nvml, sensor, clock, batch: Batch::default() }
        }

        fn energy(&self, energy: Result<u64, NvmlError>) {
            self.nvml.change(0, |script| script.energy = energy);
        }

        fn sample(&mut self) -> Result<(), SensorError> {
            let outcome = self.sensor.sample(&self.clock, &mut self.batch);
            self.time.pass(self.sensor.interval());
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
}
