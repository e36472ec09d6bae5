//! Wraps a sensor to measure how long its reads take and how old its samples are.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ergometer_statistics::median;
use ergometer_telemetry::{Batch, Channel, Clock, Sensor, SensorError, SensorInfo, Signal};

/// The read times of each sensor.
#[derive(Debug, Clone, Default)]
pub(super) struct Costs(Arc<Mutex<BTreeMap<String, Vec<Cost>>>>);

#[derive(Debug, Clone, Copy)]
struct Cost {
    read_ms: f64,
    /// The age of the newest power sample with a time of the driver.
    age_ms: Option<f64>,
}

struct TimedSensor {
    sensor: Box<dyn Sensor>,
    costs: Costs,
}

impl Costs {
    /// Wraps a sensor to time its reads.
    pub(super) fn time(&self, sensor: Box<dyn Sensor>) -> Box<dyn Sensor> {
        Box::new(TimedSensor { sensor, costs: self.clone() })
    }

    /// The median time of a read.
    pub(super) fn read_ms(&self, id: &str) -> Option<f64> {
        median(self.0.lock().unwrap_or_else(PoisonError::into_inner).get(id)?.iter().map(|cost| cost.read_ms))
    }

    /// How late samples are delivered: the minimum age of the newest sample.
    pub(super) fn lag_ms(&self, id: &str) -> Option<f64> {
        let costs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        costs.get(id)?.iter().filter_map(|cost| cost.age_ms).reduce(f64::min)
    }
}

impl Sensor for TimedSensor {
    fn info(&self) -> &SensorInfo {
        self.sensor.info()
    }

    fn channels(&self) -> &[Channel] {
        self.sensor.channels()
    }

    fn sample(&mut self, clock: &Clock, batch: &mut Batch) -> Result<(), SensorError> {
        let start = Instant::now();
        let outcome = self.sensor.sample(clock, batch);
        let read_ms = start.elapsed().as_secs_f64() * 1e3;
        let is_stamped =
            |channel: usize| self.sensor.channels().get(channel).is_some_and(|c| c.signal == Signal::PowerRing);
        let newest =
            batch.readings.iter().filter(|reading| is_stamped(reading.channel)).map(|reading| reading.at).max();
        let age_ms = newest.map(|newest| (clock.now() - newest).as_millis());
        let mut costs = self.costs.0.lock().unwrap_or_else(PoisonError::into_inner);
        costs.entry(self.sensor.info().id.clone()).or_default().push(Cost { read_ms, age_ms });
        outcome
    }

    fn sample_last(&mut self, clock: &Clock, batch: &mut Batch) -> Result<(), SensorError> {
        self.sensor.sample_last(clock, batch)
    }

    fn interval(&self) -> Duration {
        self.sensor.interval()
    }
}
