//! The run: a configuration goes in; requests go out, and everything that happens goes into the journal.
//!
//! In this order: dataset and client are resolved, the client is asked whether it is healthy and prepared, the machine
//! says what it is, the folder is made ready, telemetry starts, the machine is measured at rest, the queries are sent,
//! it is measured at rest again, the sensors stop, what is left to find out about the answers is asked, and the files of
//! the run are derived from the journal. The client and the judge are closed on every path out.

mod arrivals;
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
mod prepared;
mod progress;
mod provisional;
mod sender_watch;
mod sending;
mod sensing;
mod session;

pub use error::RunError;
pub use folder::Target;
pub(crate) use folder::{beside, create, create_new, recover, remove, turn};
pub use prepared::{Finished, Prepared};
pub use progress::{Notice, Observer, Percentiles, Progress};
pub(crate) use provisional::power;
pub use sensing::{Machine, Sensing};
