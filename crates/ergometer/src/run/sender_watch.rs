//! Measures how late the sender wakes up, and the processor utilization of the sender and the machine.
//!
//! A thread wakes up every ten milliseconds and notifies a task, like arriving bytes do; the lag is the time from the
//! planned time to the moment the task runs. Arrival times may be late by the lag because of this machine, not the
//! server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ergometer_sensors::ProcessorShare;
use hdrhistogram::Histogram;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use ergometer_runs::{SenderFacts, WakeLag};

/// How often the sender is woken.
const EVERY: Duration = Duration::from_millis(10);

/// The longest lag that is recorded, in microseconds: an hour. Longer ones count as an hour. The bound is explicit because
/// a histogram without bounds holds values up to 2 µs and clamps the rest.
const LONGEST_LAG_US: u64 = 3_600_000_000;

/// Measures the sender.
pub(super) struct SenderWatch {
    is_over: Arc<AtomicBool>,
    lag: JoinHandle<Option<WakeLag>>,
    processors: ProcessorShare,
    processor_s: f64,
}

impl SenderWatch {
    pub(super) fn start() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (sender, receiver) = mpsc::unbounded_channel();
        let over = Arc::clone(&is_over);
        // Without the thread the channel closes, and the lag is unknown.
        let _ = std::thread::Builder::new().name(String::from("ergo-wake")).spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let planned = Instant::now() + EVERY;
                std::thread::sleep(EVERY);
                if sender.send(planned).is_err() {
                    return;
                }
            }
        });
        let lag = tokio::spawn(lag(receiver));
        Self { is_over, lag, processors: ProcessorShare::start(), processor_s: processor_s() }
    }

    /// Stops and returns the measurements.
    pub(super) async fn finish(mut self) -> SenderFacts {
        self.is_over.store(true, Ordering::Relaxed);
        let cores = tokio::runtime::Handle::current().metrics().num_workers();
        SenderFacts {
            processor_s: processor_s() - self.processor_s,
            cores: u32::try_from(cores).unwrap_or(u32::MAX),
            machine_utilization: self.processors.busy(),
            wake_lag_ms: (&mut self.lag).await.ok().flatten(),
            descriptor_limit: descriptor_limit(),
            ..SenderFacts::default()
        }
    }
}

impl Drop for SenderWatch {
    /// Stops the thread if the run is dropped.
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Records the lag of each wake-up.
async fn lag(mut planned: mpsc::UnboundedReceiver<Instant>) -> Option<WakeLag> {
    let mut lags = Lags::new()?;
    while let Some(planned) = planned.recv().await {
        lags.record(planned.elapsed());
    }
    lags.summarise()
}

/// The distribution of wake lags, in microseconds.
struct Lags(Histogram<u64>);

impl Lags {
    fn new() -> Option<Self> {
        Histogram::new_with_bounds(1, LONGEST_LAG_US, 3).ok().map(Self)
    }

    fn record(&mut self, lag: Duration) {
        self.0.saturating_record(u64::try_from(lag.as_micros()).unwrap_or(u64::MAX));
    }

    fn summarise(&self) -> Option<WakeLag> {
        let histogram = &self.0;
        let millis = |micros: u64| micros as f64 / 1e3;
        (!histogram.is_empty()).then(|| WakeLag {
            count: histogram.len(),
            p50: millis(histogram.value_at_quantile(0.5)),
            p99: millis(histogram.value_at_quantile(0.99)),
            max: millis(histogram.max()),
        })
    }
}

/// The processor time of this process.
#[cfg(unix)]
fn processor_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(not(unix))]
fn processor_s() -> f64 {
    0.0
}

#[cfg(unix)]
fn descriptor_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

#[cfg(not(unix))]
fn descriptor_limit() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lags_are_recorded_as_they_are() {
        let mut lags = Lags::new().unwrap();
        assert_eq!(lags.summarise(), None);
        (0..98).for_each(|_| lags.record(Duration::from_micros(100)));
        lags.record(Duration::from_millis(80));
        lags.record(Duration::from_secs(3));
        let found = lags.summarise().unwrap();
        let is_near = |value: f64, wanted: f64| (value / wanted - 1.0).abs() < 0.002;
        assert!(is_near(found.p50, 0.1) && is_near(found.p99, 80.0) && is_near(found.max, 3000.0), "{found:?}");
        lags.record(Duration::from_secs(7200));
        assert!(is_near(lags.summarise().unwrap().max, 3_600_000.0), "an hour is the longest");
    }

    #[tokio::test]
    async fn a_blocked_sender_has_a_lag() {
        let watch = SenderWatch::start();
        tokio::time::sleep(Duration::from_millis(50)).await;
        // The only thread of this runtime is blocked, so the task that takes the lags is not run.
        std::thread::sleep(Duration::from_millis(300));
        let lag = watch.finish().await.wake_lag_ms.unwrap();
        assert!(lag.max > 200.0, "{lag:?}");
    }

    #[tokio::test]
    async fn lag_and_processor_time_are_measured() {
        let watch = SenderWatch::start();
        let mut sum = 0_u64;
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(100) {
            sum = sum.wrapping_mul(31).wrapping_add(1);
            tokio::task::yield_now().await;
        }
        let facts = watch.finish().await;
        assert!(sum > 0 && facts.processor_s > 0.0 && facts.cores > 0, "{facts:?}");
        let lag = facts.wake_lag_ms.unwrap();
        assert!(lag.count > 0 && lag.p50 <= lag.p99 && lag.p99 <= lag.max * 1.01, "{lag:?}");
    }
}
