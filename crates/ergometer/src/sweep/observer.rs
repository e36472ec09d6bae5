//! Reports the progress of a sweep to its caller.

use std::sync::Arc;
use std::time::Duration;

use crate::close::ClosedRun;
use crate::run::{Notice, Observer, PreparedRun, Progress};
use ergometer_runs::Summary;
use ergometer_runs::config::Schedule;
use ergometer_runs::sweep::{Cooldown, IdleState, Sweep};

/// Follows a sweep, for example to print its progress. `()` ignores everything.
pub trait SweepObserver: Send {
    /// Called when something happens.
    fn notice(&mut self, notice: SweepNotice<'_>);

    /// Returns the observer of the next run.
    fn run_observer(&mut self, schedule: Schedule) -> Arc<dyn Observer>;
}

/// An event in a sweep.
pub enum SweepNotice<'a> {
    /// A resumed sweep has this complete run already.
    Complete {
        /// The index of its point.
        point: usize,
        /// The index of the run in the point.
        run: usize,
        /// Its `summary.json`.
        summary: &'a Summary,
    },
    /// The first run to make is prepared.
    Prepared(&'a PreparedRun),
    /// The sweep was to wait between runs, but cannot.
    NoCooldown(NoCooldown),
    /// The state of the machine before the first run, to which each cooldown returns.
    Rest(&'a IdleState),
    /// A cooldown starts.
    CoolingDown {
        /// The state to return to.
        rest: &'a IdleState,
        /// The longest it may take.
        limit: Duration,
    },
    /// A cooldown ended.
    CooledDown(&'a Cooldown),
    /// A run starts.
    Starting {
        /// The sweep so far.
        sweep: &'a Sweep,
        /// The index of the point.
        point: usize,
        /// The index of the run in the point.
        run: usize,
    },
    /// A run ended and its files are written.
    Closed {
        /// The sweep so far, with this run.
        sweep: &'a Sweep,
        /// The index of the point.
        point: usize,
        /// The index of the run in the point.
        run: usize,
        /// The files and figures of the run.
        closed: &'a ClosedRun,
    },
}

/// Why a sweep cannot wait for the machine to cool down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoCooldown {
    /// The server is on another machine, whose sensors cannot be read from here.
    ServerElsewhere {
        /// The host of the server.
        host: String,
    },
    /// No sensor of this machine measures temperature or power.
    NoSensor,
}

impl SweepObserver for () {
    fn notice(&mut self, _: SweepNotice<'_>) {}

    fn run_observer(&mut self, _: Schedule) -> Arc<dyn Observer> {
        Arc::new(Silent)
    }
}

/// An observer of a run that ignores everything.
struct Silent;

impl Observer for Silent {
    fn notice(&self, _: Notice<'_>) {}

    fn progress(&self, _: &Progress) {}
}
