//! Errors of datasets.

use std::io;
use std::path::{Path, PathBuf};

use ergometer_columnar::FileError;
use ergometer_diagnostics::{Diagnostic, Hint, Message, hint, option};

/// Why a dataset cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// No dataset has this id.
    #[error("unknown dataset `{id}`")]
    Unknown {
        /// The requested id.
        id: String,
        /// The ids that exist.
        known: String,
    },
    /// The dataset has no such parameter.
    #[error("the dataset {dataset} has no parameter `{parameter}`")]
    Parameter {
        /// The id of the dataset.
        dataset: &'static str,
        /// The requested parameter.
        parameter: String,
        /// The parameters that exist.
        known: String,
    },
    /// The dataset is read from a file, and none is given.
    #[error("the dataset {dataset} needs a file")]
    MissingPath {
        /// The id of the dataset.
        dataset: &'static str,
    },
    /// A parameter has an invalid value.
    #[error("the dataset parameter {parameter}: {what}")]
    Value {
        /// The parameter.
        parameter: &'static str,
        /// What is wrong.
        what: Message,
    },
    /// The file cannot be read.
    #[error("cannot read the dataset {}: {cause}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// A line of the file is invalid.
    #[error("{}, line {line}: {what}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong.
        what: Message,
    },
    /// A row of the file is invalid.
    #[error("{}, row {row}: {what}", path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// The row or element, from 1.
        row: u64,
        /// What is wrong.
        what: Message,
    },
    /// The file or folder has an unexpected format.
    #[error("cannot use the dataset {}: {what}", path.display())]
    Format {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong.
        what: Message,
    },
    /// A file is damaged.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The dataset is empty.
    #[error("the dataset {} has no queries", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// An index beyond the end.
    #[error("the dataset has no query {index}; number of queries: {size}")]
    Beyond {
        /// The requested index.
        index: u64,
        /// The number of queries.
        size: u64,
    },
}

impl Diagnostic for DatasetError {
    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Unknown { known, .. } => {
                Some(Hint::text(format!("the datasets are {known}; for a file or folder, pass its path")))
            }
            Self::Parameter { known, .. } => Some(Hint::text(format!("its parameters are {known}"))),
            Self::MissingPath { dataset: "replay" } => Some(hint!("pass ", option("replay").value("FILE"))),
            Self::MissingPath { .. } => Some(hint!(
                "pass ",
                option("dataset").value("FILE"),
                ", or ",
                option("dataset-param").value("path=FILE")
            )),
            Self::Value { what, .. } | Self::Line { what, .. } | Self::Row { what, .. } | Self::Format { what, .. } => {
                what.hint()
            }
            Self::Damaged { .. } => Some(Hint::text("check that the file is complete; copy or download it again")),
            Self::Read { .. } | Self::Empty { .. } | Self::Beyond { .. } => None,
        }
    }
}

impl DatasetError {
    /// Wraps an error of an Arrow or Parquet file.
    pub(super) fn of_file(path: &Path) -> impl FnOnce(FileError) -> Self {
        move |error| match error {
            FileError::Io(cause) => Self::Read { path: path.to_path_buf(), cause },
            FileError::Damaged(what) => Self::Damaged { path: path.to_path_buf(), what },
        }
    }
}

/// A message about a file that ends too early.
pub(super) fn incomplete(text: impl Into<String>) -> Message {
    Message::new(text).with_hint(Hint::text("check that the file is complete"))
}

/// A message about a file that changed while it was in use.
pub(super) fn changed(text: impl Into<String>) -> Message {
    Message::new(text).with_hint(Hint::text("check that the file was not changed or damaged"))
}

/// The most columns in a hint.
const MOST_NAMED: usize = 40;

/// A hint with the names that exist.
pub(super) fn columns_hint<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Hint {
    let mut names = names.into_iter();
    let first: Vec<String> = names.by_ref().take(MOST_NAMED).map(|name| name.as_ref().to_owned()).collect();
    match (first.is_empty(), names.count()) {
        (true, _) => Hint::text("there are no columns"),
        (false, 0) => Hint::text(format!("the columns are {}", first.join(", "))),
        (false, more) => Hint::text(format!("the columns are {} and {more} more", first.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use ergometer_diagnostics::CommandLine;

    use super::*;

    #[test]
    fn a_hint_names_some_of_many_columns() {
        let hint = |count: usize| columns_hint((0..count).map(|number| number.to_string())).phrase(&CommandLine);
        assert_eq!(hint(0), "there are no columns");
        assert_eq!(hint(3), "the columns are 0, 1, 2");
        assert!(hint(40).ends_with(", 38, 39"));
        assert!(hint(100_000).ends_with(", 38, 39 and 99960 more"));
    }
}
