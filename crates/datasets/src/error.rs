//! What can be wrong with a dataset.

use std::io;
use std::path::PathBuf;

/// Why a dataset cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// No dataset of this id.
    #[error("unknown dataset `{id}`. hint: there are {known}, and files and folders by their path")]
    Unknown {
        /// What was asked for.
        id: String,
        /// What there is.
        known: String,
    },
    /// A parameter the dataset does not have.
    #[error("the dataset {dataset} has no parameter `{parameter}`. hint: {known}")]
    Parameter {
        /// Which dataset.
        dataset: &'static str,
        /// What was given.
        parameter: String,
        /// What there is.
        known: String,
    },
    /// A parameter with a value it cannot have.
    #[error("the dataset's parameter {parameter}: {what}")]
    Value {
        /// Which parameter.
        parameter: &'static str,
        /// What is wrong.
        what: String,
    },
    /// The file cannot be read.
    #[error("cannot read the dataset {}: {cause}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// A line is not what it should be.
    #[error("{}, line {line}: {what}", path.display())]
    Line {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: u64,
        /// What is wrong.
        what: String,
    },
    /// A row is not what it should be.
    #[error("{}, row {row}: {what}", path.display())]
    Row {
        /// Which file.
        path: PathBuf,
        /// Which row or element, from 1.
        row: u64,
        /// What is wrong.
        what: String,
    },
    /// The file or folder is not what it should be.
    #[error("cannot use the dataset {}: {what}", path.display())]
    Format {
        /// Which file or folder.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// There is nothing in it.
    #[error("the dataset {} has no queries", path.display())]
    Empty {
        /// Which file.
        path: PathBuf,
    },
    /// A place beyond the end.
    #[error("the dataset has no query {index}: it has {size}")]
    Beyond {
        /// What was asked for.
        index: u64,
        /// How many there are.
        size: u64,
    },
}
