//! The journal of a run: raw events go in as they happen; after a kill they come out again.
//!
//! A run folder has a `journal` folder with `run.json` (what was asked for, written once) and, for every session of
//! the run, the events of its requests and the readings of its sensors. Both are JSON lines that are only ever added
//! to. A line is whole or it is the last one, cut by a kill; then it is left out. What is found out about the answers once
//! nothing is measured any more stands in `after.jsonl`. Everything else in a run folder is derived from the journal.

mod after;
mod entry;
mod error;
mod folder;
mod manifest;
mod order;
mod reader;
mod writer;

pub use after::{After, AfterEntry, AfterWriter, Judgement, TokenCount};
#[cfg(test)]
pub(crate) use entry::tests::exchange as exchange_for_tests;
pub use entry::{Entry, IdleKind, SessionStart};
pub use error::JournalError;
pub use folder::{JournalFolder, Lock};
pub use manifest::{DatasetFacts, Manifest};
pub use order::{Exchanges, Ordered, order};
pub use reader::{Located, Lost, SessionEvents};
pub use writer::JournalWriter;
