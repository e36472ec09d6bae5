//! The datasets there are, by id, and what a user asks for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::arrow_file::ArrowFile;
use super::batches::{BatchRows, Batches};
use super::columns::{ColumnNames, PROBLEM};
use super::conversations::Conversations;
use super::delimited::DelimitedRows;
use super::format::Format;
use super::hugging_face::{parquet_files, saved_files};
use super::json::JsonRows;
use super::jsonl::JsonlRows;
use super::parquet_file::ParquetFile;
use super::selection::{self, Selection};
use super::table::{Rows, Table, TableSpec};
use super::{Builtin, Dataset, DatasetError, Synthetic};
use crate::grade::Grader;

type Parameters = &'static [(&'static str, &'static str)];

/// A dataset as `ergo list datasets` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DatasetInfo {
    /// How it is asked for.
    pub id: &'static str,
    /// What it is.
    pub description: &'static str,
    /// Its parameters and what they mean, but for those of [`selection_parameters`].
    pub parameters: &'static [(&'static str, &'static str)],
}

const PATH: (&str, &str) = ("path", "the file");
const FOLDER: (&str, &str) = ("path", "the file, or a folder of them");
const QUESTION: (&str, &str) = ("problem", "the column with what is asked");
const ANSWER: (&str, &str) = ("answer", "the column with what is right");
const SUBJECT: (&str, &str) = ("subject", "the column with what it is about");
const OUTPUT: (&str, &str) = ("output_tokens", "the column with the most tokens of each answer");
const SPLIT: (&str, &str) = ("split", "which split, where there are several");
const FIELD: (&str, &str) = ("field", "which array of the object, where there are several");

const FILE: Parameters = &[PATH, QUESTION, ANSWER, SUBJECT, OUTPUT];
const SYNTHETIC: Parameters = &[
    ("prompt_tokens", "N, uniform:A..B, normal:MEAN,SD, lognormal:MEAN,SD or exponential:MEAN (128)"),
    ("output_tokens", "the same, for the most tokens of each answer (64)"),
    ("max_prompt_tokens", "no prompt is longer"),
    ("max_output_tokens", "no answer may be longer"),
    ("shared_prefix_tokens", "how many tokens all prompts share, before their own (0)"),
    ("seed", "another seed gives other queries (0)"),
];

const REGISTRY: &[DatasetInfo] = &[
    DatasetInfo { id: "builtin", description: "600 problems in twelve subjects, inside the program", parameters: &[] },
    DatasetInfo { id: "jsonl", description: "a JSON Lines file; its path alone is enough", parameters: FILE },
    DatasetInfo {
        id: "json",
        description: "a JSON file: an array of objects, or an object with one inside",
        parameters: &[PATH, FIELD, QUESTION, ANSWER, SUBJECT, OUTPUT],
    },
    DatasetInfo { id: "csv", description: "a CSV or TSV file with a header line", parameters: FILE },
    DatasetInfo {
        id: "parquet",
        description: "a Parquet file, or a folder of them such as a cloned Hugging Face repository",
        parameters: &[FOLDER, SPLIT, QUESTION, ANSWER, SUBJECT, OUTPUT],
    },
    DatasetInfo { id: "arrow", description: "an Arrow IPC file, of the file or stream format", parameters: FILE },
    DatasetInfo {
        id: "hf",
        description: "a folder written by save_to_disk of Hugging Face datasets",
        parameters: &[("path", "the folder"), SPLIT, QUESTION, ANSWER, SUBJECT, OUTPUT],
    },
    DatasetInfo {
        id: "sharegpt",
        description: "conversations in any of these files: the first question and its answer",
        parameters: &[FOLDER, SPLIT, FIELD, OUTPUT],
    },
    DatasetInfo {
        id: "synthetic",
        description: "random words without an end; lengths are approximate, the measured counts are in the record",
        parameters: SYNTHETIC,
    },
];

/// All datasets there are.
#[must_use]
pub fn registry() -> &'static [DatasetInfo] {
    REGISTRY
}

/// The parameters every dataset has, and what they mean.
#[must_use]
pub fn selection_parameters() -> &'static [(&'static str, &'static str)] {
    selection::PARAMETERS
}

/// A dataset as the user asks for it: an id or a path, and parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatasetSpec {
    /// An id of the registry, or a path.
    pub id: String,
    /// Parameters, by name.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
}

/// Opens a dataset.
///
/// ```
/// use ergometer::dataset::{self, DatasetSpec};
/// let parameters = [(String::from("where"), String::from("subject=addition"))].into();
/// let spec = DatasetSpec { id: String::from("builtin"), parameters };
/// assert_eq!(dataset::open(&spec)?.size(), Some(50));
/// # Ok::<(), ergometer::dataset::DatasetError>(())
/// ```
pub fn open(spec: &DatasetSpec) -> Result<Box<dyn Dataset>, DatasetError> {
    let known = REGISTRY.iter().find(|info| info.id == spec.id);
    if known.is_none() && !is_path(&spec.id) {
        let known: Vec<&str> = REGISTRY.iter().map(|info| info.id).collect();
        return Err(DatasetError::Unknown { id: spec.id.clone(), known: known.join(", ") });
    }
    let dataset: Box<dyn Dataset> = match known {
        Some(info) => {
            check(spec, info)?;
            match info.id {
                "builtin" => Box::new(Builtin::default()),
                "synthetic" => Box::new(Synthetic::new(&spec.parameters)?),
                id => {
                    let path = spec.parameters.get("path").ok_or_else(|| DatasetError::Parameter {
                        dataset: info.id,
                        parameter: String::new(),
                        known: String::from("name the file with --dataset-param path=FILE, or just --dataset FILE"),
                    })?;
                    table(Path::new(path), Some(id), spec)?
                }
            }
        }
        None => table(Path::new(&spec.id), None, spec)?,
    };
    Selection::parse(&spec.parameters)?.of(dataset)
}

/// Whether this can only be meant as a path: there is such a file or folder, or it looks like one.
fn is_path(text: &str) -> bool {
    let path = Path::new(text);
    text.contains(std::path::MAIN_SEPARATOR) || Format::of_ending(path).is_some() || path.exists()
}

/// Opens a file or a folder: as what the id says, else as what it looks like.
fn table(path: &Path, id: Option<&'static str>, spec: &DatasetSpec) -> Result<Box<dyn Dataset>, DatasetError> {
    let given = |name: &str| spec.parameters.get(name).cloned();
    let format = match id {
        Some("jsonl") => Format::Jsonl,
        Some("json") => Format::Json,
        Some("csv") => Format::Delimited,
        Some("parquet") => Format::Parquet,
        Some("arrow") => Format::Arrow,
        Some("hf") => Format::HuggingFace,
        _ => Format::of(path)?,
    };
    let mut id = id.unwrap_or_else(|| id_of(format));
    let rows = rows(path, format, given("split").as_deref(), given("field").as_deref())?;
    let mut names = ColumnNames {
        problem: given("problem"),
        answer: given("answer"),
        subject: given("subject"),
        output_tokens: given("output_tokens"),
    };
    // Turns are only looked for where nothing else can be the problem.
    let is_plain =
        names.problem.is_some() || PROBLEM.iter().any(|name| rows.columns().iter().any(|there| there == name));
    if !is_plain && Conversations::column_of(&*rows).is_some() {
        id = "sharegpt";
    }
    if spec.id != id {
        check(spec, info_of(id))?;
    }
    if id == "sharegpt" && rows.count() > 0 {
        names.problem = Some(String::from("problem"));
        names.answer = Some(String::from("answer"));
        let rows = Box::new(Conversations::new(rows)?);
        // Long answers in free words: nothing can be compared with them letter by letter.
        return Ok(Box::new(Table::new(rows, TableSpec { id, path, names: &names, grader: Grader::None })?));
    }
    Ok(Box::new(Table::new(rows, TableSpec { id, path, names: &names, grader: Grader::Exact })?))
}

fn rows(path: &Path, format: Format, split: Option<&str>, field: Option<&str>) -> Result<Box<dyn Rows>, DatasetError> {
    let arrow = |path: PathBuf| -> Result<(PathBuf, Box<dyn Batches>), DatasetError> {
        let file = ArrowFile::open(&path)?;
        Ok((path, Box::new(file)))
    };
    let parquet = |path: PathBuf| -> Result<(PathBuf, Box<dyn Batches>), DatasetError> {
        let file = ParquetFile::open(&path)?;
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
    Ok(Box::new(BatchRows::new(files)))
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
            known: format!("there are {}", known().collect::<Vec<_>>().join(", ")),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(id: &str, parameters: &[(&str, &str)]) -> String {
        let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        open(&DatasetSpec { id: id.to_owned(), parameters }).err().unwrap().to_string()
    }

    #[test]
    fn what_does_not_exist_is_told_with_what_does() {
        assert!(error("gsm8k", &[]).contains("there are builtin, jsonl"));
        assert!(
            error("builtin", &[("split", "test")]).contains("no parameter `split`. hint: there are where, shuffle")
        );
        assert!(
            error("jsonl", &[("path", "x"), ("colour", "red")]).contains("there are path, problem, answer, subject")
        );
        assert!(error("jsonl", &[]).contains("path=FILE"));
        assert!(error("no/such/file.jsonl", &[]).contains("cannot read the dataset no/such/file.jsonl"));
        assert!(error("file.parquet", &[]).contains("cannot read the dataset file.parquet"));
    }
}
