//! Makes a run: sends the requests of a configuration and records all events in the journal.
//!
//! The order: resolve dataset and client, check the health of the server and prepare the client, read the system
//! information, create the folder, start the sensors, send warm-up and calibration requests, measure idle power, send the
//! queries, measure idle power again, stop the sensors, count missing tokens and judge answers, and derive the files of
//! the run from the journal. The client and the judge are closed in every case.

mod calibration;
mod checks;
mod control;
mod conversation;
mod counts;
mod dispenser;
mod error;
mod figures;
mod folder;
mod live;
mod loops;
mod outage;
mod prepared;
mod progress;
mod provisional;
mod replacement;
mod sender_watch;
mod sending;
mod sensing;
mod session;

pub(crate) use calibration::CALIBRATION_LOAD;
pub(crate) use checks::read_duration;
pub use error::RunError;
pub use folder::{Target, is_unstarted};
pub(crate) use folder::{is_partial, names_in};
pub use prepared::{FinishedRun, PreparedRun};
pub use progress::{Notice, Observer, Percentiles, Progress};
pub(crate) use provisional::power;
pub use replacement::{clear, recover};
pub(crate) use replacement::{create, create_new, finish, remove, staged_path, take_place, turn};
pub use sensing::{Machine, Sensing};
