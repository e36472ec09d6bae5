//! Datasets that give queries by index, and graders that check answers.
//!
//! [`open`] takes the id of a registered dataset or the path of a file or folder, with parameters that select and order
//! queries.
//!
//! ```
//! use ergometer_datasets::{DatasetSpec, open};
//!
//! let spec = DatasetSpec { id: String::from("builtin"), parameters: [(String::from("limit"), String::from("3"))].into() };
//! let dataset = open(&spec)?;
//! assert_eq!(dataset.size(), Some(3));
//! let query = dataset.get(0)?;
//! assert_eq!((query.problem.as_str(), query.answer.as_str()), ("What is 39 + 1?", "40"));
//! assert_eq!(dataset.grader().grade(&query.answer, "40").correct, Some(true));
//! # Ok::<(), ergometer_datasets::DatasetError>(())
//! ```

mod arrow_file;
mod arrow_value;
mod batches;
mod builtin;
mod column_set;
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
pub use selection::{SelectedDataset, Selection};
pub use synthetic::Synthetic;
pub use table::Table;

use crate::grade::Grader;

/// A source of queries. Datasets with the same fingerprint give the same query for the same index.
pub trait Dataset: Send + Sync {
    /// The id in the registry.
    fn id(&self) -> &'static str;

    /// The name used in the name of the run folder.
    fn name(&self) -> &str;

    /// The number of queries; `None` for an endless dataset.
    fn size(&self) -> Option<u64>;

    /// The query at this index.
    fn get(&self, index: u64) -> Result<Query, DatasetError>;

    /// The number of turns of the conversation that starts at this index; 1 for a single query. `index` must be the
    /// first turn. Called often, so it must be cheap.
    fn turns(&self, _index: u64) -> u64 {
        1
    }

    /// A hash of all queries.
    fn fingerprint(&self) -> &str;

    /// Whether reading one query may decompress many others, which takes a while.
    fn is_packed(&self) -> bool {
        false
    }

    /// The default grader for its answers.
    fn grader(&self) -> Grader;

    /// The columns that queries are read from; `None` for a dataset without columns.
    fn columns(&self) -> Option<&Columns> {
        None
    }

    /// The number of source entries that were skipped because they are not queries.
    fn skipped(&self) -> u64 {
        0
    }
}
