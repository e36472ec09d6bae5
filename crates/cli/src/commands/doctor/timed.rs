//! A sensor that notes how long its reads take.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ergometer_telemetry::{Batch, Channel, Clock, Sensor, SensorError, SensorInfo};

use super::median;

/// How long reads took, by sensor.
#[derive(Debug, Clone, Default)]
pub(super) struct Costs(Arc<Mutex<BTreeMap<String, Vec<f64>>>>);

struct Timed {
    sensor: Box<dyn Sensor>,
    costs: Costs,
}

impl Costs {
    /// The same sensor, its reads timed.
    pub(super) fn time(&self, sensor: Box<dyn Sensor>) -> Box<dyn Sensor> {
        Box::new(Timed { sensor, costs: self.clone() })
    }

    pub(super) fn median_ms(&self, id: &str) -> Option<f64> {
        median(self.0.lock().unwrap_or_else(PoisonError::into_inner).get(id)?.iter().copied())
    }
}

impl Sensor for Timed {
    fn info(&self) -> &SensorInfo {
        self.sensor.info()
    }

    fn channels(&self) -> &[Channel] {
        self.sensor.channels()
    }

    fn sample(&mut self, clock: &Clock, batch: &mut Batch) -> Result<(), SensorError> {
        let start = Instant::now();
        let outcome = self.sensor.sample(clock, batch);
        let milliseconds = start.elapsed().as_secs_f64() * 1e3;
        let mut costs = self.costs.0.lock().unwrap_or_else(PoisonError::into_inner);
        costs.entry(self.sensor.info().id.clone()).or_default().push(milliseconds);
        outcome
    }

    fn interval(&self) -> Duration {
        self.sensor.interval()
    }
}
