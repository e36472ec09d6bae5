//! Datasets: an id or a path goes in, queries come out, by their place.

mod arrow_file;
mod arrow_lengths;
mod arrow_value;
mod batches;
mod builtin;
mod columns;
mod conversations;
mod delimited;
mod error;
pub mod fingerprint;
mod format;
pub mod grade;
mod hugging_face;
mod json;
mod jsonl;
mod lengths;
mod parquet_file;
mod query;
pub mod random;
mod registry;
mod replay;
mod row;
mod selection;
mod spans;
mod synthetic;
mod table;

pub use builtin::Builtin;
pub use columns::{Column, Columns};
pub use error::DatasetError;
pub use query::{Query, Turn};
pub use registry::{DatasetInfo, DatasetSpec, open, registry, selection_parameters};
pub use selection::{Selected, Selection};
pub use synthetic::Synthetic;
pub use table::Table;

use crate::grade::Grader;

/// A source of queries. The same index gives the same query for as long as the fingerprint is the same.
pub trait Dataset: Send + Sync {
    /// The id in the registry.
    fn id(&self) -> &'static str;

    /// The name, as it stands in the run folder's.
    fn name(&self) -> &str;

    /// How many queries there are; `None` where there is no end.
    fn size(&self) -> Option<u64>;

    /// The query at this place.
    fn get(&self, index: u64) -> Result<Query, DatasetError>;

    /// How many queries from this place on are the turns of one conversation: 1 where it is a query of its own. Asked for
    /// the first turn of a conversation only, and often.
    fn turns(&self, _index: u64) -> u64 {
        1
    }

    /// A hash of all that it gives out.
    fn fingerprint(&self) -> &str;

    /// Whether a query may have to be unpacked with many others, which takes a while.
    fn is_packed(&self) -> bool {
        false
    }

    /// How its answers are graded where the user does not say.
    fn grader(&self) -> Grader;

    /// Which columns were taken, where it has columns.
    fn columns(&self) -> Option<&Columns> {
        None
    }

    /// How many entries of the source are no queries and were left out.
    fn skipped(&self) -> u64 {
        0
    }
}
