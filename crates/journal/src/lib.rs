//! Writes the raw events of a run as they happen, and reads them back, even after the run was killed.
//!
//! The `journal` folder of a run has `run.json` (the configuration and its context, written once) and, for each session,
//! the events of the requests and the readings of the sensors. Both are append-only JSON lines. Only the last line can be
//! incomplete, if the run was killed; it is then skipped. Token counts and judgements made after the measurement are in
//! `after.jsonl`. All other files of a run folder are derived from the journal.
//!
//! ```
//! use ergometer_journal::{Entry, SessionStart};
//!
//! let entry = Entry::Session(SessionStart { session: 0, started_ns: 17 });
//! assert_eq!(Entry::from_line(&entry.to_line())?, entry);
//! # Ok::<_, serde_json::Error>(())
//! ```

mod entry;
mod error;
mod folder;
mod grading;
mod lines;
mod manifest;
mod order;
mod reader;
mod review_journal;
#[cfg(test)]
mod roundtrip;
mod run_id;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod writer;

pub use entry::{Entry, IdleKind, SessionStart};
pub use error::JournalError;
pub use folder::{JournalFolder, Lock};
pub use grading::Grading;
pub use manifest::{DatasetFacts, Manifest};
pub use order::{Exchanges, OrderedRequest, order};
pub use reader::{LocatedRequest, LostRequest, SessionEvents};
pub use review_journal::{Judgement, ReviewEntry, ReviewJournal, ReviewJournalWriter, TokenCount};
pub use run_id::RunId;
pub use writer::JournalWriter;
