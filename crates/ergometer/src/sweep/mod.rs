//! The sweep: one configuration and several loads go in; a folder with one complete run for each comes out, and
//! `sweep.json`, which has what they came to side by side.
//!
//! Every run in the folder is an ordinary one: it is resumed, finalised and read like any other. `sweep.json` is derived
//! from the runs' summaries and written anew after each; where the two differ, the runs are right.

mod cooldown;
mod cooler;
mod error;
mod figures;
mod folder;
mod observer;
mod plan;
mod record;
mod runner;
mod spread;
mod state;

pub use cooldown::{CooledDown, Cooling, Rest, Watch};
pub use error::SweepError;
pub use figures::{EnergySource, FIGURES, Figures, RunFigures};
pub use folder::SweepFolder;
pub use observer::{NoCooldown, SweepNotice, SweepObserver};
pub use plan::{Axis, label, run_name};
pub use record::{Identity, Point, Sweep, SweepRun, SweepSpec};
pub use runner::{FinishedSweep, PreparedSweep, Secrets, resume};
pub use spread::Spread;
pub use state::RunState;
