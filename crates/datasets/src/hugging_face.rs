//! Lists the data files of Hugging Face folders: those that `save_to_disk` writes, and cloned repositories of Parquet
//! files.
//!
//! If there are several splits, the user must choose one; no split is guessed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ergometer_diagnostics::{Hint, Message, hint, option};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::DatasetError;

/// Maximum depth of folders: a repository, its configurations, their splits.
const DEEPEST: usize = 3;

#[derive(Deserialize)]
struct State {
    #[serde(rename = "_data_files")]
    data_files: Vec<DataFile>,
    #[serde(rename = "_indices_data_files", default)]
    indices: Option<Vec<DataFile>>,
}

#[derive(Deserialize)]
struct DataFile {
    filename: String,
}

#[derive(Deserialize)]
struct Splits {
    splits: Vec<String>,
}

/// Whether `save_to_disk` wrote this folder.
pub(super) fn is_saved(folder: &Path) -> bool {
    folder.join("state.json").is_file() || folder.join("dataset_dict.json").is_file()
}

/// Whether there are Parquet files in a folder.
pub(super) fn has_parquet(folder: &Path) -> Result<bool, DatasetError> {
    Ok(!parquet_in(folder)?.is_empty())
}

/// The data files of a folder that `save_to_disk` wrote.
pub(super) fn saved_files(folder: &Path, split: Option<&str>) -> Result<Vec<PathBuf>, DatasetError> {
    if folder.join("dataset_dict.json").is_file() {
        let splits: Splits = json(&folder.join("dataset_dict.json"))?;
        let split = chosen(folder, splits.splits.iter().map(String::as_str), split)?;
        return saved_files(&folder.join(inside(folder, split)?), None);
    }
    let state: State = json(&folder.join("state.json"))?;
    let wrong = |text: String, hint: &'static str| DatasetError::Format {
        path: folder.to_path_buf(),
        what: Message::new(text).with_hint(Hint::text(hint)),
    };
    if let Some(split) = split {
        return Err(wrong(format!("it has one split, which is not named `{split}`"), "leave out split="));
    }
    if state.indices.is_some_and(|indices| !indices.is_empty()) {
        let text = String::from("an indices file selects its rows");
        return Err(wrong(text, "save the dataset again after flatten_indices()"));
    }
    if state.data_files.is_empty() {
        return Err(DatasetError::Empty { path: folder.to_path_buf() });
    }
    state.data_files.iter().map(|file| Ok(folder.join(inside(folder, &file.filename)?))).collect()
}

/// The Parquet files of a folder.
pub(super) fn parquet_files(folder: &Path, split: Option<&str>) -> Result<Vec<PathBuf>, DatasetError> {
    let mut splits: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    let files = parquet_in(folder)?;
    let mut folders: Vec<&Path> = files.iter().filter_map(|file| file.parent()).collect();
    folders.sort_unstable();
    folders.dedup();
    // Files in one folder have the split in their names; several folders may be splits or different datasets.
    if folders.len() > 1 && !folders.iter().all(|folder| is_split(&last(folder))) {
        // A folder above another one would fail again.
        let is_above = |upper: &Path| folders.iter().any(|lower| *lower != upper && lower.starts_with(upper));
        let usable = folders.iter().filter(|folder| !is_above(folder));
        let shown: Vec<String> = usable.map(|folder| folder.display().to_string()).collect();
        return Err(DatasetError::Format {
            path: folder.to_path_buf(),
            what: Message::new("it has Parquet files in several folders")
                .with_hint(Hint::text(format!("pass one Parquet file, or one of {}", shown.join(", ")))),
        });
    }
    let has_folders = folders.len() > 1;
    for file in &files {
        let split = if has_folders { last(file.parent().unwrap_or(folder)) } else { split_of(file) };
        splits.entry(split).or_default().push(file.clone());
    }
    // Files in one folder are one table, unless their names are split names.
    if split.is_none() && !has_folders && !splits.keys().all(|split| is_split(split)) {
        return Ok(files);
    }
    let split = chosen(folder, splits.keys().map(String::as_str), split)?.to_owned();
    Ok(splits.remove(&split).unwrap_or_default())
}

fn chosen<'a>(
    folder: &Path,
    splits: impl Iterator<Item = &'a str>,
    wanted: Option<&str>,
) -> Result<&'a str, DatasetError> {
    let splits: Vec<&str> = splits.collect();
    let wrong = |what: Message| DatasetError::Format { path: folder.to_path_buf(), what };
    let all = splits.join(", ");
    match (wanted, splits.as_slice()) {
        (Some(wanted), splits) => splits.iter().find(|split| **split == wanted).copied().ok_or_else(|| {
            let hint = Hint::text(format!("the splits are {all}"));
            wrong(Message::new(format!("no split `{wanted}`")).with_hint(hint))
        }),
        (None, [split]) => Ok(split),
        (None, []) => Err(DatasetError::Empty { path: folder.to_path_buf() }),
        (None, _) => {
            let hint = hint!("choose one with ", option("dataset-param").value("split=NAME"));
            Err(wrong(Message::new(format!("several splits: {all}")).with_hint(hint)))
        }
    }
}

/// The split in a file name: `test` in `test-00000-of-00001.parquet`, `test.parquet` and `test_0.parquet`.
fn split_of(file: &Path) -> String {
    let name = file.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match name.split_once("-of-").and_then(|(front, _)| front.rsplit_once('-')) {
        Some((split, _)) => split.to_owned(),
        None => name.trim_end_matches(|letter: char| letter.is_ascii_digit() || "-_".contains(letter)).to_owned(),
    }
}

fn is_split(name: &str) -> bool {
    let first = name.split(['_', '-', '.']).next().unwrap_or(name);
    ["train", "test", "validation", "valid", "val", "dev", "eval"].contains(&first)
}

fn last(folder: &Path) -> String {
    folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// All Parquet files below a folder, sorted by name, without hidden ones.
fn parquet_in(folder: &Path) -> Result<Vec<PathBuf>, DatasetError> {
    let mut files = Vec::new();
    look(folder, DEEPEST, &mut files)?;
    files.sort_unstable();
    Ok(files)
}

fn look(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), DatasetError> {
    let read = |cause| DatasetError::Read { path: folder.to_path_buf(), cause };
    for entry in fs::read_dir(folder).map_err(read)? {
        let path = entry.map_err(read)?.path();
        if last(&path).starts_with('.') {
            continue;
        }
        if path.is_dir() {
            if depth > 0 {
                look(&path, depth - 1, files)?;
            }
        } else if path.extension().is_some_and(|ending| ending == "parquet") {
            files.push(path);
        }
    }
    Ok(())
}

fn json<T: DeserializeOwned>(path: &Path) -> Result<T, DatasetError> {
    let bytes = fs::read(path).map_err(|cause| DatasetError::Read { path: path.to_path_buf(), cause })?;
    serde_json::from_slice(&bytes)
        .map_err(|error| DatasetError::Format { path: path.to_path_buf(), what: error.to_string().into() })
}

/// Checks that a file name stays inside its folder.
fn inside<'a>(folder: &Path, name: &'a str) -> Result<&'a str, DatasetError> {
    let is_inside = Path::new(name).components().all(|part| matches!(part, std::path::Component::Normal(_)));
    if is_inside && !name.is_empty() {
        return Ok(name);
    }
    Err(DatasetError::Format {
        path: folder.to_path_buf(),
        what: format!("it names a file outside of its folder: `{name}`").into(),
    })
}

#[cfg(test)]
mod tests {
    use ergometer_diagnostics::{CommandLine, Diagnostic as _};

    use super::*;

    fn files(names: &[&str], split: Option<&str>) -> Result<Vec<String>, String> {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, b"").unwrap();
        }
        let relative = |path: PathBuf| path.strip_prefix(folder.path()).unwrap().to_string_lossy().into_owned();
        let found = parquet_files(folder.path(), split).map_err(|error| error.one_line(&CommandLine))?;
        Ok(found.into_iter().map(relative).collect())
    }

    #[test]
    fn several_splits_must_be_chosen_from() {
        let both = ["data/test-00000-of-00001.parquet", "data/train-00001-of-00002.parquet", "README.md"];
        assert_eq!(files(&both, Some("test")).unwrap(), ["data/test-00000-of-00001.parquet"]);
        assert!(files(&both, None).unwrap_err().contains("several splits: test, train"));
        assert!(files(&both, Some("dev")).unwrap_err().contains("no split `dev`. hint: the splits are test, train"));
        assert_eq!(files(&both[..1], None).unwrap().len(), 1);
        assert_eq!(files(&["part-0.parquet", "part-1.parquet"], None).unwrap(), ["part-0.parquet", "part-1.parquet"]);
        assert_eq!(files(&["a.parquet", "b.parquet"], None).unwrap(), ["a.parquet", "b.parquet"]);
        assert_eq!(files(&["test/0.parquet", "train/0.parquet"], Some("test")).unwrap(), ["test/0.parquet"]);
        assert!(files(&["main/test.parquet", "socratic/test.parquet"], None).unwrap_err().contains("file, or one of"));
        let nested = files(&["a.parquet", "data/b.parquet", "data/old/c.parquet"], None).unwrap_err();
        let (_, proposed) = nested.split_once("one of ").unwrap();
        assert!(proposed.ends_with("old") && !proposed.contains(','), "folders above others fail too: {nested}");
        assert_eq!(files(&[".git/x.parquet", "x.parquet"], None).unwrap(), ["x.parquet"]);
    }

    #[test]
    fn files_outside_the_folder_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let error = |state: &str| {
            fs::write(folder.path().join("state.json"), state).unwrap();
            saved_files(folder.path(), None).unwrap_err().one_line(&CommandLine)
        };
        assert!(error("{\"_data_files\":[{\"filename\":\"../x.arrow\"}]}").contains("outside of its folder"));
        assert!(error("{\"_data_files\":[]}").contains("has no queries"));
        assert!(error("{").contains("state.json"));
        assert!(
            error("{\"_data_files\":[{\"filename\":\"a\"}],\"_indices_data_files\":[{\"filename\":\"i\"}]}")
                .contains("flatten_indices")
        );
    }
}
