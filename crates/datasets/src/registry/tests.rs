//! Tests of every dataset and file format.

use ergometer_diagnostics::{CommandLine, Diagnostic as _};
use proptest::prelude::*;

use super::*;
use crate::Query;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/datasets");

fn fixture(name: &str) -> String {
    format!("{FIXTURES}/{name}")
}

fn try_open(id: &str, parameters: &[(&str, &str)]) -> Result<Box<dyn Dataset>, DatasetError> {
    let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    open(&DatasetSpec { id: id.to_owned(), parameters })
}

fn error(id: &str, parameters: &[(&str, &str)]) -> String {
    try_open(id, parameters).err().unwrap().one_line(&CommandLine)
}

fn queries(dataset: &dyn Dataset) -> Vec<Query> {
    (0..dataset.size().unwrap()).map(|index| dataset.get(index).unwrap()).collect()
}

#[test]
fn errors_list_the_valid_names() {
    assert!(error("gsm8k", &[]).contains("the datasets are builtin, jsonl"));
    assert!(
        error("builtin", &[("split", "test")])
            .contains("no parameter `split`. hint: its parameters are where, shuffle")
    );
    assert!(
        error("jsonl", &[("path", "x"), ("colour", "red")])
            .contains("its parameters are path, problem, answer, subject")
    );
    assert!(error("jsonl", &[]).contains("path=FILE"));
    assert!(error("no/such/file.jsonl", &[]).contains("cannot read the dataset no/such/file.jsonl"));
    assert!(error("file.parquet", &[]).contains("cannot read the dataset file.parquet"));
    let table = fixture("table.csv");
    assert!(error(&table, &[("split", "test")]).contains("the dataset csv has no parameter `split`"));
    assert!(error(&table, &[("answer", "gold")]).contains("the columns are question, target, category, level"));
}

/// The same table in different formats: id, file, and split if the folder has several.
const SAME: &[(&str, &str, Option<&str>)] = &[
    ("jsonl", "table.jsonl", None),
    ("jsonl", "lines.json", None),
    ("json", "array.json", None),
    ("json", "object.json", None),
    ("csv", "table.csv", None),
    ("csv", "table.tsv", None),
    ("csv", "excel.csv", None),
    ("parquet", "none.parquet", None),
    ("parquet", "snappy.parquet", None),
    ("parquet", "gzip.parquet", None),
    ("parquet", "zstd.parquet", None),
    ("parquet", "lz4.parquet", None),
    ("parquet", "repository", Some("test")),
    ("arrow", "file.arrow", None),
    ("arrow", "stream.arrow", None),
    ("arrow", "plain-stream.arrow", None),
    ("arrow", "lz4.feather", None),
    ("arrow", "zstd.feather", None),
    ("hf", "saved", None),
    ("hf", "splits", Some("test")),
];

#[test]
fn the_same_table_has_the_same_queries_in_every_format() {
    let expected = queries(&*try_open(&fixture("table.jsonl"), &[]).unwrap());
    assert_eq!(expected[1].problem, "Who said \"veni, vidi,\nvici\"?");
    assert_eq!((expected[0].answer.as_str(), expected[0].subject.as_str()), ("4", "sums"));
    let mut fingerprints = std::collections::BTreeSet::new();
    for (id, name, split) in SAME {
        let path = fixture(name);
        let split: Vec<(&str, &str)> = split.map(|split| ("split", split)).into_iter().collect();
        let by_path = try_open(&path, &split).unwrap();
        let by_id = try_open(id, &[&[("path", path.as_str())], &split[..]].concat()).unwrap();
        assert_eq!((by_path.id(), by_path.size()), (*id, Some(7)), "{name}");
        assert_eq!(by_path.fingerprint(), by_id.fingerprint());
        let columns = by_path.columns().unwrap().to_string();
        assert_eq!(columns, "problem=question, answer=target, subject=category", "{name}");
        let mut found = queries(&*by_path);
        if *id == "csv" {
            // In a CSV file everything is text.
            for query in &mut found {
                let level = query.metadata["level"].as_str().unwrap().parse::<u64>().unwrap();
                query.metadata.insert(String::from("level"), level.into());
            }
        } else {
            fingerprints.insert(by_path.fingerprint().to_owned());
        }
        assert_eq!(found, expected, "{name}");
        // Backwards, the worst order for the cache.
        for query in expected.iter().rev().filter(|_| *id != "csv") {
            assert_eq!(by_path.get(query.index).unwrap(), *query, "{name}");
        }
        assert!(matches!(by_path.get(7), Err(DatasetError::Beyond { index: 7, size: 7 })));
    }
    assert_eq!(fingerprints.len(), 1, "the same table has the same fingerprint in every format");
}

#[test]
fn several_splits_need_a_choice() {
    for folder in ["splits", "repository"] {
        assert!(error(&fixture(folder), &[]).contains("several splits"), "{folder}");
        assert!(error(&fixture(folder), &[("split", "dev")]).contains("no split `dev`"), "{folder}");
        assert_eq!(try_open(&fixture(folder), &[("split", "train")]).unwrap().size(), Some(1), "{folder}");
    }
    assert!(error(&fixture("saved"), &[("split", "dev")]).contains("leave out split="));
}

#[test]
fn every_type_becomes_json() {
    let expected = serde_json::json!([
        {
            "truth": true, "half": 0.5, "single": 0.1, "large": u64::MAX, "money": "12.50", "day": "2024-02-29",
            "moment": "2024-02-29T12:30:15.250Z", "naive": "2024-02-29T12:30:15.250", "bytes": "text",
            "list": ["x", null], "nested": {"a": 1, "b": [{"c": "d"}]}, "map": {"k": 1}
        },
        {
            "truth": null, "half": null, "single": null, "large": 0, "money": null, "day": null, "moment": null,
            "naive": null, "bytes": {"bytes": 3, "sha256": crate::fingerprint::sha256(b"\xff\x00\x01")},
            "list": [], "nested": null, "map": {}
        }
    ]);
    for name in ["types.parquet", "types.arrow"] {
        let found = queries(&*try_open(&fixture(name), &[]).unwrap());
        for (query, expected) in found.into_iter().zip(expected.as_array().unwrap()) {
            assert_eq!(serde_json::Value::Object(query.metadata), *expected, "{name}");
        }
    }
}

#[test]
fn conversations_are_detected() {
    for name in ["sharegpt.json", "messages.jsonl", "messages.parquet"] {
        let dataset = try_open(&fixture(name), &[]).unwrap();
        assert_eq!((dataset.id(), dataset.size(), dataset.skipped()), ("sharegpt", Some(2), 1), "{name}");
        assert_eq!(dataset.grader(), Grader::None);
        let found = queries(&*dataset);
        let pairs: Vec<_> = found.iter().map(|query| (query.problem.as_str(), query.answer.as_str())).collect();
        assert_eq!(pairs, [("Hello?", "Hi."), ("Why?", "Because.")], "{name}");
        assert_eq!((&found[1].metadata["id"], &found[1].metadata["turns"]), (&"3".into(), &3.into()));
    }
    assert!(error("sharegpt", &[("path", &fixture("table.csv"))]).contains("no column conversations"));
}

#[test]
fn rows_are_selected_by_a_column() {
    let path = fixture("zstd.parquet");
    for column in ["category", "subject"] {
        let condition = format!("{column}=sums");
        let dataset = try_open(&path, &[("where", &condition), ("output_tokens", "level")]).unwrap();
        let found: Vec<_> = queries(&*dataset).iter().map(|query| (query.index, query.output_tokens)).collect();
        assert_eq!(found, [(0, Some(1)), (1, Some(4)), (2, Some(6))]);
    }
    let dataset = try_open(&path, &[("where", "level=5")]).unwrap();
    assert_eq!(dataset.get(0).unwrap().metadata["source_index"], 4);
}

/// Writes bytes to a file with this name, opens it and reads all queries.
fn read(name: &str, bytes: &[u8]) -> Result<Vec<Query>, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    let dataset = try_open(path.to_str().unwrap(), &[]).map_err(|error| error.one_line(&CommandLine))?;
    Ok(queries(&*dataset))
}

#[test]
fn truncated_files_are_errors() {
    for name in ["zstd.parquet", "file.arrow", "array.json"] {
        let whole = std::fs::read(fixture(name)).unwrap();
        for length in 0..whole.len() {
            let error = read(name, &whole[..length]).expect_err(name);
            assert!(error.contains(name), "{error}");
        }
    }
    // A stream has no end marker: a stream cut between two messages is a valid shorter stream.
    let whole = std::fs::read(fixture("plain-stream.arrow")).unwrap();
    let expected = read("x.arrow", &whole).unwrap();
    for length in 0..whole.len() {
        if let Ok(found) = read("x.arrow", &whole[..length]) {
            assert_eq!(found, expected[..found.len()]);
        }
    }
}

/// A damaged file is an error, and the panics of the Arrow and Parquet readers are not printed.
#[test]
fn damaged_files_are_errors_without_panic_messages() {
    thread_local! {
        static PANICS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
    }
    let next = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.set(PANICS.get() + 1);
        next(info);
    }));
    let folder = tempfile::tempdir().unwrap();
    let mut damaged = 0;
    for (name, step) in [("types.arrow", 1), ("types.parquet", 5), ("lz4.feather", 2)] {
        let path = folder.path().join(name);
        let whole = std::fs::read(fixture(name)).unwrap();
        for place in (0..whole.len()).step_by(step) {
            let mut bytes = whole.clone();
            bytes[place] ^= [0x80, 0xff, 0x01][place % 3];
            std::fs::write(&path, &bytes).unwrap();
            let found = try_open(path.to_str().unwrap(), &[]).and_then(|dataset| {
                (0..dataset.size().unwrap_or(0)).map(|index| dataset.get(index)).collect::<Result<Vec<_>, _>>()
            });
            damaged += u32::from(matches!(found, Err(DatasetError::Damaged { .. })));
            assert_eq!(PANICS.take(), 0, "{name} at {place}");
        }
    }
    assert!(damaged > 500, "{damaged}");
}

#[test]
fn files_of_another_format_are_errors() {
    let csv = std::fs::read(fixture("table.csv")).unwrap();
    assert!(
        read("x.parquet", &csv).unwrap_err().contains("not a Parquet file: its first bytes are of no known format")
    );
    assert!(read("x.arrow", &csv).unwrap_err().contains("not an Arrow file"));
    assert!(read("x.parquet", b"version https://git-lfs.github.com/spec/v1\n").unwrap_err().contains("git lfs pull"));
    assert!(read("x.json", &csv).unwrap_err().contains("neither an array"));
    for name in ["x.jsonl", "x.json", "x.csv", "x.tsv", "x.parquet", "x.arrow", "x"] {
        assert!(read(name, b"").unwrap_err().contains("has no queries"), "{name}");
    }
    assert!(read("x.csv", b"problem,answer\n").unwrap_err().contains("has no queries"));
    assert!(read("x.json", b"[]").unwrap_err().contains("has no queries"));
    assert!(read("x.csv", b"problem,answer\na,b\n,c\n").unwrap_err().contains("line 3: the prompt"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn damaged_files_never_panic(file in 0_usize..7, place in any::<prop::sample::Index>(), byte: u8) {
        let name = ["zstd.parquet", "none.parquet", "types.parquet", "file.arrow", "stream.arrow", "plain-stream.arrow",
            "types.arrow"][file];
        let mut bytes = std::fs::read(fixture(name)).unwrap();
        let place = place.index(bytes.len());
        bytes[place] = byte;
        let _ = read(name, &bytes);
    }
}
