//! The datasets there are, by id, and what a user asks for.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Builtin, Columns, Dataset, DatasetError, Jsonl};

/// A dataset as `ergo list datasets` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DatasetInfo {
    /// How it is asked for.
    pub id: &'static str,
    /// What it is.
    pub description: &'static str,
    /// Its parameters and what they mean.
    pub parameters: &'static [(&'static str, &'static str)],
}

const REGISTRY: &[DatasetInfo] = &[
    DatasetInfo { id: "builtin", description: "600 problems in twelve subjects, inside the program", parameters: &[] },
    DatasetInfo {
        id: "jsonl",
        description: "a JSON Lines file; its path alone is enough",
        parameters: &[
            ("path", "the file"),
            ("problem", "the column with what is asked (problem)"),
            ("answer", "the column with what is right (answer)"),
            ("subject", "the column with what it is about (subject)"),
        ],
    },
];

/// All datasets there are.
#[must_use]
pub fn registry() -> &'static [DatasetInfo] {
    REGISTRY
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
/// let spec = DatasetSpec { id: String::from("builtin"), parameters: Default::default() };
/// assert_eq!(dataset::open(&spec)?.size(), Some(600));
/// # Ok::<(), ergometer::dataset::DatasetError>(())
/// ```
pub fn open(spec: &DatasetSpec) -> Result<Box<dyn Dataset>, DatasetError> {
    match spec.id.as_str() {
        "builtin" => {
            check(spec, &REGISTRY[0])?;
            Ok(Box::new(Builtin::default()))
        }
        "jsonl" => {
            check(spec, &REGISTRY[1])?;
            let path = spec.parameters.get("path").ok_or_else(|| DatasetError::Parameter {
                dataset: "jsonl",
                parameter: String::new(),
                known: String::from("name the file with --dataset-param path=FILE, or just --dataset FILE"),
            })?;
            jsonl(Path::new(path), spec)
        }
        path if is_path(path) => {
            check(spec, &REGISTRY[1])?;
            jsonl(Path::new(path), spec)
        }
        unknown => {
            let known: Vec<&str> = REGISTRY.iter().map(|info| info.id).collect();
            Err(DatasetError::Unknown { id: unknown.to_owned(), known: known.join(", ") })
        }
    }
}

/// Whether this can only be meant as a path: there is such a file, or it looks like one.
fn is_path(text: &str) -> bool {
    let path = Path::new(text);
    let is_jsonl = path.extension().is_some_and(|extension| extension == "jsonl" || extension == "ndjson");
    is_jsonl || text.contains(std::path::MAIN_SEPARATOR) || path.is_file()
}

fn jsonl(path: &Path, spec: &DatasetSpec) -> Result<Box<dyn Dataset>, DatasetError> {
    let defaults = Columns::default();
    let column = |name: &str, default: String| spec.parameters.get(name).cloned().unwrap_or(default);
    let columns = Columns {
        problem: column("problem", defaults.problem),
        answer: column("answer", defaults.answer),
        subject: column("subject", defaults.subject),
    };
    Ok(Box::new(Jsonl::open(path, columns)?))
}

fn check(spec: &DatasetSpec, info: &DatasetInfo) -> Result<(), DatasetError> {
    let is_known = |name: &str| info.parameters.iter().any(|(known, _)| *known == name);
    match spec.parameters.keys().find(|name| !is_known(name)) {
        None => Ok(()),
        Some(unknown) => Err(DatasetError::Parameter {
            dataset: info.id,
            parameter: unknown.clone(),
            known: match info.parameters {
                [] => String::from("it has none"),
                known => {
                    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
                    format!("there are {}", names.join(", "))
                }
            },
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
        assert!(error("builtin", &[("split", "test")]).contains("no parameter `split`. hint: it has none"));
        assert!(error("x.jsonl", &[("colour", "red")]).contains("there are path, problem, answer, subject"));
        assert!(error("jsonl", &[]).contains("path=FILE"));
        assert!(error("no/such/file.jsonl", &[]).contains("cannot read the dataset no/such/file.jsonl"));
    }
}
