//! The registry of datasets, and opening a dataset by its specification.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::batches::{BatchRows, Batches};
use super::columns::{ColumnNames, PROBLEM};
use super::conversations::{Conversations, Turns};
use super::delimited::DelimitedRows;
use super::format::Format;
use super::hugging_face::{parquet_files, saved_files};
use super::json::JsonRows;
use super::jsonl::JsonlRows;
use super::replay::{self, Replay};
use super::selection::{self, Selection};
use super::table::{Rows, Table, TableSpec};
use super::{Builtin, Dataset, DatasetError, Synthetic, arrow_file, parquet_file};
use crate::grade::Grader;

type Parameters = &'static [(&'static str, &'static str)];

/// A dataset as `ergo list datasets` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DatasetInfo {
    /// The id that selects it.
    pub id: &'static str,
    /// What it contains.
    pub description: &'static str,
    /// Names and descriptions of its parameters, without those of [`selection_parameters`].
    pub parameters: &'static [(&'static str, &'static str)],
}

const PATH: (&str, &str) = ("path", "the file");
const FOLDER: (&str, &str) = ("path", "the file, or a folder of such files");
const QUESTION: (&str, &str) = ("problem", "the column with the prompt");
const ANSWER: (&str, &str) = ("answer", "the column with the reference answer");
const SUBJECT: (&str, &str) = ("subject", "the column with the subject");
const OUTPUT: (&str, &str) = ("output_tokens", "the column with the maximum number of tokens of each answer");
const SPLIT: (&str, &str) = ("split", "the split, if there are several");
const TURNS: (&str, &str) = (
    "turns",
    "first (default): only the first user turn; N: the first N user turns; all: every user turn. Each turn is a query",
);
const FIELD: (&str, &str) = ("field", "the name of the array in the object, if there are several");

const FILE: Parameters = &[PATH, QUESTION, ANSWER, SUBJECT, OUTPUT];
const SYNTHETIC: Parameters = &[
    ("prompt_tokens", "N, uniform:A..B, normal:MEAN,SD, lognormal:MEAN,SD or exponential:MEAN [default: 128]"),
    ("output_tokens", "maximum number of tokens of each answer, as a distribution like prompt_tokens [default: 64]"),
    ("max_prompt_tokens", "maximum length of a prompt in tokens; longer prompts are shortened to it"),
    ("max_output_tokens", "upper limit for output_tokens"),
    ("shared_prefix_tokens", "number of tokens at the start that all prompts share [default: 0]"),
    ("turns", "number of turns of a conversation [default: 1]"),
    ("turn_tokens", "length of the later turns, as a distribution like prompt_tokens [default: prompt_tokens]"),
    ("seed", "random seed [default: 0]"),
];

const REGISTRY: &[DatasetInfo] = &[
    DatasetInfo {
        id: "builtin",
        description: "600 problems in twelve subjects, built into the program",
        parameters: &[],
    },
    DatasetInfo { id: "jsonl", description: "a JSON Lines file", parameters: FILE },
    DatasetInfo {
        id: "json",
        description: "a JSON file: an array of objects, or an object that contains such an array",
        parameters: &[PATH, FIELD, QUESTION, ANSWER, SUBJECT, OUTPUT],
    },
    DatasetInfo { id: "csv", description: "a CSV or TSV file with a header line", parameters: FILE },
    DatasetInfo {
        id: "parquet",
        description: "a Parquet file, or a folder of Parquet files such as a cloned Hugging Face repository",
        parameters: &[FOLDER, SPLIT, QUESTION, ANSWER, SUBJECT, OUTPUT],
    },
    DatasetInfo { id: "arrow", description: "an Arrow IPC file, in the file or stream format", parameters: FILE },
    DatasetInfo {
        id: "hf",
        description: "a folder written by save_to_disk() of Hugging Face datasets",
        parameters: &[("path", "the folder"), SPLIT, QUESTION, ANSWER, SUBJECT, OUTPUT],
    },
    DatasetInfo {
        id: "sharegpt",
        description: "conversations in any of the file formats above: the first user turn, or all user turns",
        parameters: &[FOLDER, SPLIT, FIELD, TURNS, OUTPUT],
    },
    DatasetInfo {
        id: "synthetic",
        description: "an endless stream of prompts of random words; lengths are approximate, and the run records the \
                      token counts that the model reports",
        parameters: SYNTHETIC,
    },
    DatasetInfo {
        id: "replay",
        description: "recorded arrival times with prompt and output lengths, in the format of Mooncake or BurstGPT, to replay",
        parameters: replay::PARAMETERS,
    },
];

/// All registered datasets.
#[must_use]
pub fn registry() -> &'static [DatasetInfo] {
    REGISTRY
}

/// Names and descriptions of the parameters that every dataset has.
#[must_use]
pub fn selection_parameters() -> &'static [(&'static str, &'static str)] {
    selection::PARAMETERS
}

/// The dataset to open: an id or a path, and parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatasetSpec {
    /// The id of a registered dataset, or a path.
    pub id: String,
    /// Parameters, by name.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
}

/// Opens a dataset.
///
/// ```
/// use ergometer_datasets::{DatasetSpec, open};
/// let parameters = [(String::from("where"), String::from("subject=addition"))].into();
/// let spec = DatasetSpec { id: String::from("builtin"), parameters };
/// assert_eq!(open(&spec)?.size(), Some(50));
/// # Ok::<(), ergometer_datasets::DatasetError>(())
/// ```
pub fn open(spec: &DatasetSpec) -> Result<Box<dyn Dataset>, DatasetError> {
    let known = REGISTRY.iter().find(|info| info.id == spec.id);
    if known.is_none() && !is_path(&spec.id) {
        let known: Vec<&str> = REGISTRY.iter().map(|info| info.id).collect();
        return Err(DatasetError::Unknown { id: spec.id.clone(), known: known.join(", ") });
    }
    let selection = Selection::parse(&spec.parameters)?;
    let dataset: Box<dyn Dataset> = match known {
        Some(info) => {
            check(spec, info)?;
            match info.id {
                "builtin" => Box::new(Builtin::default()),
                "synthetic" => Box::new(Synthetic::new(&spec.parameters)?),
                id => {
                    let path = Path::new(path_of(spec, info)?);
                    if id == "replay" {
                        return Ok(Box::new(Replay::new(path, &spec.parameters, &selection)?));
                    }
                    table(path, Some(id), spec)?
                }
            }
        }
        None => table(Path::new(&spec.id), None, spec)?,
    };
    selection.apply(dataset)
}

/// The file that a dataset is read from.
fn path_of<'a>(spec: &'a DatasetSpec, info: &DatasetInfo) -> Result<&'a str, DatasetError> {
    let path = spec.parameters.get("path").map(String::as_str);
    path.ok_or(DatasetError::MissingPath { dataset: info.id })
}

/// Whether a dataset id is a path: a file or folder exists, or the text looks like one.
fn is_path(text: &str) -> bool {
    let path = Path::new(text);
    text.contains(std::path::MAIN_SEPARATOR) || Format::from_extension(path).is_some() || path.exists()
}

/// Opens a file or a folder in the format of the id, or else in its detected format.
fn table(path: &Path, id: Option<&'static str>, spec: &DatasetSpec) -> Result<Box<dyn Dataset>, DatasetError> {
    let given = |name: &str| spec.parameters.get(name).cloned();
    let format = match id {
        Some("jsonl") => Format::Jsonl,
        Some("json") => Format::Json,
        Some("csv") => Format::Delimited,
        Some("parquet") => Format::Parquet,
        Some("arrow") => Format::Arrow,
        Some("hf") => Format::HuggingFace,
        _ => Format::detect(path)?,
    };
    let mut id = id.unwrap_or_else(|| id_of(format));
    let rows = rows(path, format, given("split").as_deref(), given("field").as_deref())?;
    let mut names = ColumnNames {
        problem: given("problem"),
        answer: given("answer"),
        subject: given("subject"),
        output_tokens: given("output_tokens"),
    };
    // Conversations are only looked for if no column can be the problem.
    let is_plain =
        names.problem.is_some() || PROBLEM.iter().any(|name| rows.columns().iter().any(|there| there == name));
    if !is_plain && Conversations::find_column(&*rows).is_some() {
        id = "sharegpt";
    }
    if spec.id != id {
        check(spec, info_of(id))?;
    }
    if id == "sharegpt" && rows.count() > 0 {
        names.problem = Some(String::from("problem"));
        names.answer = Some(String::from("answer"));
        let turns = match given("turns") {
            None => Turns::First,
            Some(text) => text.parse().map_err(|what| DatasetError::Value { parameter: "turns", what })?,
        };
        let rows = Box::new(Conversations::new(rows, turns)?);
        // Answers of conversations are free text, which no grader can compare.
        return Ok(Box::new(Table::new(rows, TableSpec { id, path, names: &names, grader: Grader::None })?));
    }
    Ok(Box::new(Table::new(rows, TableSpec { id, path, names: &names, grader: Grader::Exact })?))
}

pub(super) fn rows(
    path: &Path,
    format: Format,
    split: Option<&str>,
    field: Option<&str>,
) -> Result<Box<dyn Rows>, DatasetError> {
    let arrow = |path: PathBuf| -> Result<(PathBuf, Box<dyn Batches>), DatasetError> {
        let file = arrow_file::open(&path)?;
        Ok((path, Box::new(file)))
    };
    let parquet = |path: PathBuf| -> Result<(PathBuf, Box<dyn Batches>), DatasetError> {
        let file = parquet_file::open(&path)?;
        Ok((path, Box::new(file)))
    };
    let files = match format {
        Format::Jsonl => return Ok(Box::new(JsonlRows::open(path)?)),
        Format::Json => return Ok(Box::new(JsonRows::open(path, field)?)),
        Format::Delimited => return Ok(Box::new(DelimitedRows::open(path)?)),
        Format::Arrow => vec![arrow(path.to_path_buf())?],
        Format::HuggingFace => saved_files(path, split)?.into_iter().map(arrow).collect::<Result<_, _>>()?,
        Format::Parquet if path.is_dir() => {
            parquet_files(path, split)?.into_iter().map(parquet).collect::<Result<_, _>>()?
        }
        Format::Parquet => vec![parquet(path.to_path_buf())?],
    };
    Ok(Box::new(BatchRows::new(files)?))
}

const fn id_of(format: Format) -> &'static str {
    match format {
        Format::Jsonl => "jsonl",
        Format::Json => "json",
        Format::Delimited => "csv",
        Format::Parquet => "parquet",
        Format::Arrow => "arrow",
        Format::HuggingFace => "hf",
    }
}

fn info_of(id: &str) -> &'static DatasetInfo {
    REGISTRY.iter().find(|info| info.id == id).unwrap_or(&REGISTRY[1])
}

fn check(spec: &DatasetSpec, info: &DatasetInfo) -> Result<(), DatasetError> {
    let known = || info.parameters.iter().chain(selection::PARAMETERS).map(|(name, _)| *name);
    match spec.parameters.keys().find(|name| known().all(|known| known != name.as_str())) {
        None => Ok(()),
        Some(unknown) => Err(DatasetError::Parameter {
            dataset: info.id,
            parameter: unknown.clone(),
            known: known().collect::<Vec<_>>().join(", "),
        }),
    }
}

#[cfg(test)]
mod tests;
