//! Dataset → client → run → journal → record → store → analysis: what AI inference costs, in time and in energy.

pub mod analysis;
pub mod attribution;
pub mod client;
pub mod close;
pub mod dataset;
pub mod grade;
pub mod hardware;
pub mod journal;
#[expect(missing_docs, reason = "the fields are named by the layout, and by METRICS in docs")]
pub mod record;
pub mod redact;
pub mod run;
pub mod slug;
pub mod store;
