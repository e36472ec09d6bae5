//! Datasets: an id or a path goes in, queries come out, by their place.

mod builtin;
mod error;
mod jsonl;
mod query;
mod registry;

pub use builtin::Builtin;
pub use error::DatasetError;
pub use jsonl::{Columns, Jsonl};
pub use query::Query;
pub use registry::{DatasetInfo, DatasetSpec, open, registry};

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

    /// A hash of all that it gives out.
    fn fingerprint(&self) -> &str;

    /// How its answers are graded where the user does not say.
    fn grader(&self) -> Grader;
}
