//! Measures the machine before the first run of a sweep, and waits between runs until it has cooled down.

use std::time::Duration;

use ergometer_clients::Locality;
use tokio::sync::watch;

use super::{NoCooldown, SweepNotice, SweepObserver, Watch};
use crate::config::CountedDevices;
use crate::run::PreparedRun;
use ergometer_runs::sweep::{Cooldown, Sweep};

/// Waits between the runs of a sweep.
pub(super) struct Cooler {
    limit: Duration,
    counted: CountedDevices,
    /// Whether a run was made, so that the machine may be warm.
    is_warm: bool,
}

impl Cooler {
    /// Waits at most `limit` between two runs.
    pub(super) fn new(sweep: &Sweep, limit: Duration) -> Self {
        let counted = sweep.config.devices.clone();
        // A resumed sweep may have been stopped a moment ago.
        let is_warm = sweep.points.iter().any(|point| !point.figures.is_empty());
        Self { limit, counted, is_warm }
    }

    /// Stores the state of the machine before the first run. Reports if no sensor measures it.
    pub(super) async fn learn(
        &self,
        sweep: &mut Sweep,
        prepared: &PreparedRun,
        stop: &watch::Receiver<bool>,
        observer: &mut dyn SweepObserver,
    ) {
        if self.limit.is_zero() || sweep.rest.is_some() {
            return;
        }
        if let Locality::Elsewhere { host } = prepared.locality() {
            let host = host.clone();
            observer.notice(SweepNotice::NoCooldown(NoCooldown::ServerElsewhere { host }));
            return;
        }
        let watch = Watch::open(self.counted.clone()).await;
        let mut stop = stop.clone();
        let rest = tokio::select! {
            rest = watch.rest() => rest,
            _ = stop.wait_for(|&stopped| stopped) => return,
        };
        if rest.is_unknown() {
            observer.notice(SweepNotice::NoCooldown(NoCooldown::NoSensor));
            return;
        }
        observer.notice(SweepNotice::Rest(&rest));
        sweep.rest = Some(rest);
    }

    /// Records that a run was made.
    pub(super) fn has_worked(&mut self) {
        self.is_warm = true;
    }

    /// Waits until temperature and power are back to their values before the first run; `None` without a reason to wait.
    pub(super) async fn wait(
        &self,
        sweep: &Sweep,
        stop: &watch::Receiver<bool>,
        observer: &mut dyn SweepObserver,
    ) -> Option<Cooldown> {
        let rest = sweep.rest.as_ref().filter(|_| self.is_warm && !self.limit.is_zero())?;
        observer.notice(SweepNotice::CoolingDown { rest, limit: self.limit });
        let watch = Watch::open(self.counted.clone()).await;
        let cooled = watch.cool_down(rest, self.limit, stop).await;
        observer.notice(SweepNotice::CooledDown(&cooled));
        Some(cooled)
    }
}
