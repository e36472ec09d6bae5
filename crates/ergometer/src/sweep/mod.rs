//! Runs one configuration at several loads: a folder with one complete run for each load, and `sweep.json` with the
//! figures of all runs.
//!
//! Every run in the folder is an ordinary run and can be resumed, finalized and read like any other. `sweep.json` is
//! derived from the summaries of the runs and rewritten after each run. If they differ, the summaries are right.

mod cooldown;
mod cooler;
mod error;
mod fit;
mod folder;
mod observer;
mod runner;
mod spec;
mod state;

pub use cooldown::Watch;
pub use error::SweepError;
pub use fit::{FittedRuns, attribute};
pub use folder::{SweepFolder, is_unstarted};
pub use observer::{NoCooldown, SweepNotice, SweepObserver};
pub use runner::{FinishedSweep, PreparedSweep, Secrets, resume};
pub use spec::SweepSpec;
pub use state::RunState;
