//! Runs one configuration at several loads: a folder with one complete run for each load, and `sweep.json`, which puts
//! their figures side by side.
//!
//! Every run in the folder is an ordinary run: it is resumed, finalized and read like any other. `sweep.json` is derived
//! from the runs' summaries and written again after each; where the two differ, the runs are right.

mod cooldown;
mod cooler;
mod error;
mod folder;
mod observer;
mod runner;
mod spec;
mod state;

pub use cooldown::Watch;
pub use error::SweepError;
pub use folder::SweepFolder;
pub use observer::{NoCooldown, SweepNotice, SweepObserver};
pub use runner::{FinishedSweep, PreparedSweep, Secrets, resume};
pub use spec::SweepSpec;
pub use state::RunState;
