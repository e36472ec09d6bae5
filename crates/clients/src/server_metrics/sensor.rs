//! The sensor of a server: takes the results of the scraper, and never waits.

use std::sync::mpsc::Receiver;

use ergometer_diagnostics::Message;
use ergometer_telemetry::{
    Batch, Channel, Clock, DeviceId, EventKind, Provenance, Reading, Scope, Sensor, SensorError, SensorInfo,
};

use super::ServerMetrics;
use super::scraper::{INTERVAL, Scrape};

/// The prefix of the ids of these sensors, before the server software.
pub const ID_PREFIX: &str = "metrics:";

/// The sensor of a server. Its name is the address of the metrics.
pub struct ServerSensor {
    info: SensorInfo,
    channels: Vec<Channel>,
    scrapes: Receiver<Scrape>,
    asked: u64,
    failed: u64,
}

impl ServerSensor {
    pub(super) fn new(server: &ServerMetrics, scrapes: Receiver<Scrape>) -> Self {
        let device = DeviceId::server();
        let channel = |signal| Channel {
            device,
            scope: Scope::Device,
            signal,
            provenance: Provenance::Gauge,
            update_period: None,
        };
        let id = format!("{ID_PREFIX}{}", server.dialect.id);
        Self {
            info: SensorInfo { id, name: server.url(), device, interval: INTERVAL },
            channels: server.dialect.signals().map(channel).collect(),
            scrapes,
            asked: 0,
            failed: 0,
        }
    }

    /// Reports the first failure as an event. Later ones are only counted, and reported at the end.
    fn fail(&mut self, scrape: &Scrape, why: &Message, batch: &mut Batch) {
        if self.failed == 0 {
            let message = format!("cannot read server metrics ({}): {why}; the run went on", self.info.name);
            batch.event(scrape.at, EventKind::ScrapeFailed, message);
        }
        self.failed += 1;
    }
}

impl Sensor for ServerSensor {
    fn info(&self) -> &SensorInfo {
        &self.info
    }

    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn sample(&mut self, _: &Clock, batch: &mut Batch) -> Result<(), SensorError> {
        while let Ok(scrape) = self.scrapes.try_recv() {
            self.asked += 1;
            match &scrape.values {
                Ok(values) => {
                    let (after, at) = (scrape.after, scrape.at);
                    let readings = values
                        .iter()
                        .enumerate()
                        .filter_map(|(channel, value)| value.map(|value| Reading { channel, after, at, value }));
                    batch.readings.extend(readings);
                }
                Err(why) => self.fail(&scrape, why, batch),
            }
        }
        Ok(())
    }

    fn sample_last(&mut self, clock: &Clock, batch: &mut Batch) -> Result<(), SensorError> {
        self.sample(clock, batch)?;
        if self.failed > 1 {
            let message = format!("{} of {} reads of the server metrics failed", self.failed, self.asked);
            batch.event(clock.now(), EventKind::ScrapeFailed, message);
        }
        Ok(())
    }
}
