//! Reads arbitrary bytes as a dataset. The first byte chooses the format, the second the parameters. In the formats
//! that are folders, the bytes are split into files.
//!
//! Reading must not panic or use more memory than the size of the file justifies. Opening reads every row, so
//! afterwards each query can be read, as often as needed and with the same result.

#![no_main]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use ergometer_datasets::{Dataset, DatasetError, DatasetSpec, Query, open};
use ergometer_fuzz::{Scratch, files};
use libfuzzer_sys::fuzz_target;

static SCRATCH: LazyLock<Scratch> = LazyLock::new(Scratch::new);

/// The id (empty to detect the format) and the file of each format, or else a folder.
const FORMATS: &[(&str, &str)] = &[
    ("", "table.jsonl"),
    ("", "table.json"),
    ("", "table.csv"),
    ("", "table.tsv"),
    ("", "table.parquet"),
    ("", "table.arrow"),
    ("", "table.feather"),
    ("", "table"),
    ("sharegpt", "table.jsonl"),
    ("sharegpt", "table.json"),
    ("sharegpt", "table.parquet"),
    ("sharegpt", "table.arrow"),
    ("replay", "table.jsonl"),
    ("replay", "table.csv"),
    ("replay", "table.json"),
    ("replay", "table.gz"),
    ("replay", "table.parquet"),
    ("hf", ""),
    ("", ""),
];

/// The files of a folder by the byte in front of them.
const FOLDER: &[(u8, &str)] = &[
    (b's', "state.json"),
    (b'd', "dataset_dict.json"),
    (b'a', "data.arrow"),
    (b't', "test/state.json"),
    (b'b', "test/data.arrow"),
    (b'p', "test-0.parquet"),
    (b'q', "train-0.parquet"),
    (b'r', "more/test.parquet"),
];

fuzz_target!(|data: &[u8]| {
    let [choice, parameters, bytes @ ..] = data else { return };
    let (id, file) = FORMATS[usize::from(*choice) % FORMATS.len()];
    SCRATCH.clear("dataset");
    let path = if file.is_empty() {
        for (name, content) in files(bytes) {
            if let Some((_, file)) = FOLDER.iter().find(|(letter, _)| *letter == name) {
                SCRATCH.write(&format!("dataset/{file}"), content);
            }
        }
        SCRATCH.path("dataset")
    } else {
        SCRATCH.write(&format!("dataset/{file}"), bytes)
    };
    let path = path.to_str().expect("a path of letters").to_owned();
    let mut spec = DatasetSpec { id: id.to_owned(), parameters: BTreeMap::new() };
    if id.is_empty() {
        spec.id = path;
    } else {
        spec.parameters.insert(String::from("path"), path);
    }
    let Ok(whole) = open(&spec) else { return };
    let queries = read(&*whole);
    let same = open(&spec).expect("a dataset that was opened before");
    assert_eq!((whole.fingerprint(), whole.size(), whole.skipped()), (same.fingerprint(), same.size(), same.skipped()));
    assert_eq!(queries, read(&*same));
    if whole.id() == "replay" {
        check_arrivals(&queries);
    }

    let chosen = selection(*parameters, whole.id(), &queries);
    let is_shuffled = chosen.iter().any(|(name, _)| *name == "shuffle");
    spec.parameters.extend(chosen.into_iter().map(|(name, value)| (name.to_owned(), value)));
    if let Ok(selected) = open(&spec) {
        let selected_queries = read(&*selected);
        let sources = selected_queries.iter().filter_map(|query| query.metadata.get("source_index")?.as_u64());
        let different: BTreeSet<u64> = sources.clone().collect();
        assert_eq!(sources.count(), different.len());
        assert!(!is_shuffled || different.len() == selected_queries.len());
    }
});

/// Reads queries until they have some megabytes, and checks them.
fn read(dataset: &dyn Dataset) -> Vec<Query> {
    let size = dataset.size().expect("a file is not endless");
    assert!(size > 0);
    let mut queries = Vec::new();
    let (mut bytes, mut turns_left) = (0, 0);
    for index in 0..size.min(300) {
        let query = dataset.get(index).expect("a query that was read before");
        assert_eq!(query.index, index);
        if turns_left == 0 {
            turns_left = dataset.turns(index);
            assert!((1..=size - index).contains(&turns_left), "{turns_left} turns at {index} of {size}");
        }
        assert!(!query.is_further_turn() || query.turn.is_some_and(|turn| turn.conversation <= index));
        turns_left -= 1;
        let text = serde_json::to_vec(&query).expect("a query is JSON");
        assert_eq!(serde_json::from_slice::<Query>(&text).ok().as_ref(), Some(&query));
        let _ = dataset.grader().grade(&query.problem, &query.answer);
        bytes += text.len();
        queries.push(query);
        if bytes > 4 << 20 {
            break;
        }
    }
    assert!(matches!(dataset.get(size), Err(DatasetError::Beyond { .. })));
    queries
}

/// Requests of a recording arrive in order, the first at 0.
fn check_arrivals(queries: &[Query]) {
    assert_eq!(queries[0].arrival_s, Some(0.0));
    let arrivals: Vec<f64> = queries.iter().filter_map(|query| query.arrival_s).collect();
    assert!(arrivals.is_sorted() && arrivals.iter().all(|arrival| arrival.is_finite()));
    let think_times = queries.iter().filter_map(|query| query.turn?.think_s);
    assert!(think_times.into_iter().all(|think_s| (0.0..=86_400.0).contains(&think_s)));
}

/// Parameters of the dataset, some of which it may not have.
fn selection(choice: u8, id: &str, queries: &[Query]) -> Vec<(&'static str, String)> {
    let half = queries.len() / 2;
    let all = [
        ("skip", half.to_string()),
        ("limit", half.max(1).to_string()),
        ("shuffle", String::from("7")),
        (
            "where",
            queries[half].metadata.iter().next().map_or(String::from("subject="), |(name, value)| {
                format!("{name}={}", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            }),
        ),
        match id {
            "replay" => ("time_unit", String::from("s")),
            "sharegpt" => ("turns", String::from("all")),
            _ => ("answer", String::from("answer")),
        },
        match id {
            "replay" => ("max_prompt_tokens", String::from("9")),
            "sharegpt" => ("output_tokens", String::from("level")),
            _ => ("problem", String::from("answer")),
        },
    ];
    all.into_iter().enumerate().filter(|(place, _)| choice >> place & 1 == 1).map(|(_, parameter)| parameter).collect()
}
