//! One ring of samples that the driver fills at its own times: each sample once, on our clock, and gaps noticed.
//!
//! In: what a drain of the ring returned. Out: readings with the driver's times brought onto the run's clock, in order.
//!
//! Always: a sample read twice (its two timestamps differ by 1-2 us) is one reading; of two readings the later one is
//! at least 1 ms later.

use std::time::Instant;

use ergometer_units::{Seconds, Timestamp};

use super::library::{Ring, RingSample};
use ergometer_telemetry::{Batch, Channel, Clock, DeviceId, EventKind, Provenance, Scope, Signal};

/// Two samples closer than this are one sample read twice; real ones were never seen closer than 8 ms.
const SAME_SAMPLE: Seconds = Seconds::new(0.001);
/// A gap of this many periods means that samples are missing. Spacings of up to 2.4 periods (48 ms) are ordinary.
const GAP_PERIODS: f64 = 3.0;
/// A time further ahead than this is not the driver's but a wall clock that was stepped and not yet measured anew.
const AHEAD: Seconds = Seconds::new(0.5);
/// After this many drains without a sample the whole ring is asked for: if the wall clock was stepped back, everything
/// new is older than the newest sample seen.
const EMPTY_DRAINS: u32 = 3;

/// The state of one ring between two drains.
#[derive(Debug)]
pub(super) struct RingReader {
    pub(super) ring: Ring,
    newest_us: u64,
    last: Option<Timestamp>,
    empty_drains: u32,
}

impl RingReader {
    pub(super) const fn new(ring: Ring) -> Self {
        Self { ring, newest_us: 0, last: None, empty_drains: 0 }
    }

    /// The ring's name, for people.
    pub(super) const fn what(&self) -> &'static str {
        match self.ring {
            Ring::Power => "power ring",
            Ring::GpuUtilization => "utilization ring",
            Ring::MemoryUtilization => "memory utilization ring",
        }
    }

    pub(super) const fn channel(&self, device: DeviceId) -> Channel {
        let (signal, provenance) = match self.ring {
            Ring::Power => (Signal::PowerRing, Provenance::SampledPower),
            Ring::GpuUtilization => (Signal::Utilization, Provenance::Gauge),
            Ring::MemoryUtilization => (Signal::MemoryUtilization, Provenance::Gauge),
        };
        Channel { device, scope: Scope::Device, signal, provenance, update_period: Some(self.period()) }
    }

    /// The driver's time to ask for newer samples than; 0 asks for all.
    pub(super) const fn newer_than_us(&self) -> u64 {
        if self.empty_drains >= EMPTY_DRAINS { 0 } else { self.newest_us }
    }

    /// Takes what a drain returned.
    pub(super) fn take(&mut self, mut samples: Vec<RingSample>, drained_at: Instant, stage: &mut Stage<'_>) {
        samples.sort_by_key(|sample| sample.time_us);
        let latest = stage.clock.at(drained_at) + AHEAD;
        let before = self.last;
        for sample in samples {
            let Some(at) = wall_time(sample.time_us).map(|wall| stage.clock.from_wall(wall)) else { continue };
            if at > latest {
                // Left in the ring: the next drain finds it again, on a clock measured anew.
                break;
            }
            if self.last.is_some_and(|last| at - last < SAME_SAMPLE) {
                // Asked for again otherwise, at each drain, when it is the newest.
                self.newest_us = self.newest_us.max(sample.time_us);
                continue;
            }
            if self.last == before {
                self.notice_gap(at, stage);
            }
            stage.batch.push(stage.channel, at, sample.value);
            self.last = Some(at);
            self.newest_us = sample.time_us;
        }
        self.empty_drains = if self.last == before { self.empty_drains.saturating_add(1) } else { 0 };
    }

    fn notice_gap(&self, first: Timestamp, stage: &mut Stage<'_>) {
        let Some(gap) = self.last.map(|last| first - last).filter(|gap| *gap > self.period() * GAP_PERIODS) else {
            return;
        };
        let message = format!(
            "{} of {}: no samples for {:.0} ms; they were overwritten before they could be read, or never taken. hint: \
             the machine may be too busy to sample",
            self.what(),
            stage.device,
            gap.as_millis()
        );
        stage.batch.event(first, EventKind::SamplesLost, message);
    }

    const fn period(&self) -> Seconds {
        match self.ring {
            Ring::Power => Seconds::new(0.020),
            Ring::GpuUtilization | Ring::MemoryUtilization => Seconds::new(0.200),
        }
    }
}

/// Where a ring's readings go.
pub(super) struct Stage<'a> {
    pub(super) device: DeviceId,
    pub(super) channel: usize,
    pub(super) clock: &'a Clock,
    pub(super) batch: &'a mut Batch,
}

/// A slot that was never filled has the time 0.
fn wall_time(time_us: u64) -> Option<Timestamp> {
    i64::try_from(time_us).ok().filter(|time_us| *time_us > 0).and_then(Timestamp::from_micros_since_epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bench {
        clock: Clock,
        now: Instant,
        batch: Batch,
        reader: RingReader,
    }

    impl Bench {
        fn new() -> Self {
            let (clock, batch) = (Clock::start(), Batch::default());
            Self { clock, now: Instant::now(), batch, reader: RingReader::new(Ring::Power) }
        }

        fn us(&self, offset_us: i64) -> u64 {
            u64::try_from(self.clock.at(self.now).micros_since_epoch() + offset_us).unwrap()
        }

        /// Takes samples at these microseconds from now, each with its place as its value.
        fn take(&mut self, offsets_us: &[i64]) {
            let sample =
                |(place, offset): (u32, &i64)| RingSample { time_us: self.us(*offset), value: f64::from(place) };
            let samples = (0..).zip(offsets_us).map(sample).collect();
            let mut stage = Stage { device: DeviceId::gpu(0), channel: 0, clock: &self.clock, batch: &mut self.batch };
            self.reader.take(samples, self.now, &mut stage);
        }

        fn values(&self) -> Vec<f64> {
            self.batch.readings.iter().map(|reading| reading.value).collect()
        }
    }

    #[test]
    fn a_sample_read_twice_is_one_reading() {
        let mut bench = Bench::new();
        bench.take(&[-100_000, -99_999, -80_000, -79_998, -60_000]);
        assert_eq!(bench.values(), [0.0, 2.0, 4.0]);
        bench.take(&[-59_998, -40_000]);
        assert_eq!(bench.values(), [0.0, 2.0, 4.0, 1.0], "also across two drains");
        assert!(bench.batch.readings.iter().all(|reading| reading.after == reading.at));
        assert!(bench.batch.events.is_empty());
    }

    #[test]
    fn an_overrun_is_noticed_and_an_ordinary_spacing_is_not() {
        let mut bench = Bench::new();
        bench.take(&[-4_000_000, -3_980_000]);
        bench.take(&[-3_932_000, -3_912_000]);
        assert!(bench.batch.events.is_empty(), "48 ms happen");
        bench.take(&[-2_400_000, -2_380_000]);
        assert_eq!(bench.batch.events.len(), 1);
        assert_eq!(bench.batch.events[0].kind, EventKind::SamplesLost);
        assert!(bench.batch.events[0].message.contains("1512 ms"), "{:?}", bench.batch.events);
    }

    #[test]
    fn samples_out_of_order_or_without_a_time_do_no_harm() {
        let mut bench = Bench::new();
        bench.take(&[-20_000, -60_000, -40_000]);
        assert_eq!(bench.values(), [1.0, 2.0, 0.0]);
        let mut stage = Stage { device: DeviceId::gpu(0), channel: 0, clock: &bench.clock, batch: &mut bench.batch };
        let strange = [0, u64::MAX].map(|time_us| RingSample { time_us, value: 9.0 }).to_vec();
        bench.reader.take(strange, bench.now, &mut stage);
        assert_eq!(bench.values(), [1.0, 2.0, 0.0]);
    }

    #[test]
    fn times_of_a_stepped_wall_clock_wait_until_it_is_measured() {
        let mut bench = Bench::new();
        bench.take(&[-20_000, 3_600_000_000]);
        assert_eq!(bench.values(), [0.0], "an hour ahead: left in the ring");
        assert_eq!(bench.reader.newer_than_us(), bench.us(-20_000));
        for _ in 0..EMPTY_DRAINS {
            bench.take(&[]);
        }
        assert_eq!(bench.reader.newer_than_us(), 0, "an hour back: all is asked for");
    }
}
