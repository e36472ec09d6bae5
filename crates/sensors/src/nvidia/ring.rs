//! Turns the samples of one driver ring into readings and detects gaps.
//!
//! The driver's timestamps are converted to the run's clock. Readings are ordered by time and at least 1 ms apart: a
//! sample that is read twice (its two timestamps differ by 1-2 us) is one reading.

use std::time::Instant;

use ergometer_diagnostics::{Message, hint};
use ergometer_telemetry::{Batch, Channel, Clock, DeviceId, EventKind, Provenance, Scope, Signal};
use ergometer_units::{Seconds, Timestamp};

use super::library::{Ring, RingSample};

/// Two samples closer than this are one sample read twice. Different samples were at least 8 ms apart.
const SAME_SAMPLE: Seconds = Seconds::new(0.001);
/// A gap of this many periods means that samples are missing. Gaps of up to 2.4 periods (48 ms) are normal.
const GAP_PERIODS: f64 = 3.0;
/// A timestamp further ahead than this means that the wall clock was set and not measured again yet.
const AHEAD: Seconds = Seconds::new(0.5);
/// After this many reads without a sample, the whole ring is read: if the wall clock was set back, all new samples have
/// older timestamps than the newest known one.
const EMPTY_READS: u32 = 3;

/// The state of one ring between two reads.
#[derive(Debug)]
pub(super) struct RingReader {
    pub(super) ring: Ring,
    newest_us: u64,
    last: Option<Timestamp>,
    empty_reads: u32,
}

impl RingReader {
    pub(super) const fn new(ring: Ring) -> Self {
        Self { ring, newest_us: 0, last: None, empty_reads: 0 }
    }

    /// The display name of the ring.
    pub(super) const fn what(&self) -> &'static str {
        match self.ring {
            Ring::Power => "power samples",
            Ring::GpuUtilization => "utilization samples",
            Ring::MemoryUtilization => "memory utilization samples",
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

    /// The next read requests samples after this driver timestamp; 0 requests all.
    pub(super) const fn newer_than_us(&self) -> u64 {
        if self.empty_reads >= EMPTY_READS { 0 } else { self.newest_us }
    }

    /// Adds the samples of a read.
    pub(super) fn push(&mut self, mut samples: Vec<RingSample>, read_at: Instant, context: &mut RingContext<'_>) {
        samples.sort_by_key(|sample| sample.time_us);
        let latest = context.clock.at(read_at) + AHEAD;
        let before = self.last;
        for sample in samples {
            let Some(at) = wall_time(sample.time_us).map(|wall| context.clock.from_wall(wall)) else { continue };
            if at > latest {
                // The next read gets this sample again, after the clock was measured.
                break;
            }
            if self.last.is_some_and(|last| at - last < SAME_SAMPLE) {
                // Otherwise each read would get the newest sample again.
                self.newest_us = self.newest_us.max(sample.time_us);
                continue;
            }
            if self.last == before {
                self.report_gap(at, context);
            }
            context.batch.push(context.channel, at, sample.value);
            self.last = Some(at);
            self.newest_us = sample.time_us;
        }
        self.empty_reads = if self.last == before { self.empty_reads.saturating_add(1) } else { 0 };
    }

    fn report_gap(&self, first: Timestamp, context: &mut RingContext<'_>) {
        let Some(gap) = self.last.map(|last| first - last).filter(|gap| *gap > self.period() * GAP_PERIODS) else {
            return;
        };
        let text = format!(
            "{} of {}: no samples for {:.0} ms; they were overwritten before they were read, or never taken",
            self.what(),
            context.device,
            gap.as_millis()
        );
        let message = Message::new(text).with_hint(hint!("reduce the CPU load of this machine"));
        context.batch.event(first, EventKind::SamplesLost, message);
    }

    const fn period(&self) -> Seconds {
        match self.ring {
            Ring::Power => Seconds::new(0.020),
            Ring::GpuUtilization | Ring::MemoryUtilization => Seconds::new(0.200),
        }
    }
}

/// The device, clock and batch for the readings of a ring.
pub(super) struct RingContext<'a> {
    pub(super) device: DeviceId,
    pub(super) channel: usize,
    pub(super) clock: &'a Clock,
    pub(super) batch: &'a mut Batch,
}

/// Converts a timestamp. An empty slot of the ring has the timestamp 0.
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

        /// Adds samples at these microseconds from now, each with its index as its value.
        fn push(&mut self, offsets_us: &[i64]) {
            let sample =
                |(place, offset): (u32, &i64)| RingSample { time_us: self.us(*offset), value: f64::from(place) };
            let samples = (0..).zip(offsets_us).map(sample).collect();
            let mut context =
                RingContext { device: DeviceId::gpu(0), channel: 0, clock: &self.clock, batch: &mut self.batch };
            self.reader.push(samples, self.now, &mut context);
        }

        fn values(&self) -> Vec<f64> {
            self.batch.readings.iter().map(|reading| reading.value).collect()
        }
    }

    #[test]
    fn a_sample_read_twice_is_one_reading() {
        let mut bench = Bench::new();
        bench.push(&[-100_000, -99_999, -80_000, -79_998, -60_000]);
        assert_eq!(bench.values(), [0.0, 2.0, 4.0]);
        bench.push(&[-59_998, -40_000]);
        assert_eq!(bench.values(), [0.0, 2.0, 4.0, 1.0], "also across two reads");
        assert!(bench.batch.readings.iter().all(|reading| reading.after == reading.at));
        assert!(bench.batch.events.is_empty());
    }

    #[test]
    fn a_gap_is_reported_and_normal_spacing_is_not() {
        let mut bench = Bench::new();
        bench.push(&[-4_000_000, -3_980_000]);
        bench.push(&[-3_932_000, -3_912_000]);
        assert!(bench.batch.events.is_empty(), "48 ms are normal");
        bench.push(&[-2_400_000, -2_380_000]);
        assert_eq!(bench.batch.events.len(), 1);
        assert_eq!(bench.batch.events[0].kind, EventKind::SamplesLost);
        assert!(bench.batch.events[0].message.contains("1512 ms"), "{:?}", bench.batch.events);
    }

    #[test]
    fn samples_are_sorted_and_samples_without_a_time_are_skipped() {
        let mut bench = Bench::new();
        bench.push(&[-20_000, -60_000, -40_000]);
        assert_eq!(bench.values(), [1.0, 2.0, 0.0]);
        let mut context =
            RingContext { device: DeviceId::gpu(0), channel: 0, clock: &bench.clock, batch: &mut bench.batch };
        let strange = [0, u64::MAX].map(|time_us| RingSample { time_us, value: 9.0 }).to_vec();
        bench.reader.push(strange, bench.now, &mut context);
        assert_eq!(bench.values(), [1.0, 2.0, 0.0]);
    }

    #[test]
    fn samples_of_a_changed_wall_clock_wait_until_it_is_measured() {
        let mut bench = Bench::new();
        bench.push(&[-20_000, 3_600_000_000]);
        assert_eq!(bench.values(), [0.0], "a sample an hour ahead is read later");
        assert_eq!(bench.reader.newer_than_us(), bench.us(-20_000));
        for _ in 0..EMPTY_READS {
            bench.push(&[]);
        }
        assert_eq!(bench.reader.newer_than_us(), 0, "after an hour back, all samples are requested");
    }
}
