use std::io::Write;

use ergometer_diagnostics::{CommandLine, Diagnostic as _};
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;

use super::super::{DatasetSpec, open};
use super::*;

const MOONCAKE: &str = "{\"timestamp\": 1000, \"input_length\": 7, \"output_length\": 5, \"hash_ids\": [1, 2]}
{\"timestamp\": 3500, \"input_length\": 9, \"output_length\": 6, \"hash_ids\": [1, 3, 4]}

{\"timestamp\": 0, \"input_length\": 3, \"output_length\": 4, \"hash_ids\": [9]}
{\"timestamp\": 3500, \"input_length\": 2, \"output_length\": 0, \"hash_ids\": [9]}
";
const BURST: &str = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,GPT-4,11,3,14,API log
45.5,ChatGPT,0,0,0,Conversation log
118,ChatGPT,12,0,12,API log
119,GPT-4,4,2,6,API log
";

fn opened(name: &str, bytes: &[u8], parameters: &[(&str, &str)]) -> Result<Box<dyn Dataset>, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    let path = path.to_string_lossy().into_owned();
    let all = [&[("path", path.as_str())], parameters].concat();
    let parameters = all.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
    let spec = DatasetSpec { id: String::from("replay"), parameters: parameters.collect() };
    open(&spec).map_err(|error| error.one_line(&CommandLine))
}

fn queries(dataset: &dyn Dataset) -> Vec<Query> {
    (0..dataset.size().unwrap()).map(|index| dataset.get(index).unwrap()).collect()
}

fn words(query: &Query) -> Vec<&str> {
    query.problem.split(' ').collect()
}

#[test]
fn mooncake_requests_are_sorted_and_equal_blocks_have_equal_words() {
    let dataset = opened("trace.jsonl", MOONCAKE.as_bytes(), &[("block_tokens", "4")]).unwrap();
    assert_eq!((dataset.id(), dataset.name(), dataset.size(), dataset.skipped()), ("replay", "trace", Some(3), 1));
    let queries = queries(&*dataset);
    let arrivals: Vec<f64> = queries.iter().filter_map(|query| query.arrival_s).collect();
    assert_eq!(arrivals, [0.0, 1.0, 3.5]);
    assert_eq!(queries.iter().filter_map(|query| query.output_tokens).collect::<Vec<_>>(), [4, 5, 6]);
    let (second, third) = (words(&queries[1]), words(&queries[2]));
    assert_eq!((words(&queries[0]).len(), second.len(), third.len()), (3, 7, 9));
    assert_eq!(second[..4], third[..4], "block 1");
    assert_ne!(second[4..7], third[4..7], "blocks 2 and 3");
    assert!(queries.iter().all(|query| query.turn.is_none()) && dataset.turns(1) == 1);
}

#[test]
fn requests_arrive_within_ten_years() {
    let error = |times: [&str; 3]| {
        let row = |time: &str| format!("{{\"timestamp\": {time}, \"input_length\": 7, \"output_length\": 5}}");
        opened("trace.jsonl", times.map(row).join("\n").as_bytes(), &[]).err()
    };
    // Milliseconds since 1970, over nine years.
    assert_eq!(error(["1500000000000", "1700000000000", "1783000000000"]), None);
    let late = error(["0", "1e300", "5"]).unwrap();
    let expected = "trace.jsonl, line 2: its time of arrival, 1e297 s, is more than ten years away from the others. \
                    hint: check the unit of the times: --dataset-param time_unit=s or ms";
    assert!(late.ends_with(expected), "{late}");
    assert!(error(["1700000000000", "1700000000001", "2"]).unwrap().contains("line 3: its time of arrival, 2e-3 s"));
}

#[test]
fn burst_gpt_is_in_seconds_and_failed_requests_are_skipped() {
    let dataset = opened("burst.csv", BURST.as_bytes(), &[("max_prompt_tokens", "100")]).unwrap();
    assert_eq!((dataset.size(), dataset.skipped()), (Some(3), 2));
    let queries = queries(&*dataset);
    assert_eq!(queries.iter().filter_map(|query| query.arrival_s).collect::<Vec<_>>(), [0.0, 40.0, 114.0]);
    assert_eq!(queries.iter().map(|query| words(query).len()).collect::<Vec<_>>(), [100, 11, 4]);
    let only = opened("burst.csv", BURST.as_bytes(), &[("where", "Model=GPT-4")]).unwrap();
    assert_eq!(
        (only.size(), only.get(0).unwrap().arrival_s, only.get(1).unwrap().arrival_s),
        (Some(2), Some(0.0), Some(74.0))
    );
    let lines = opened("x", b"{\"Timestamp\": 5, \"Request tokens\": 4, \"Response tokens\": 2}", &[]).unwrap();
    assert_eq!(lines.get(0).unwrap().output_tokens, Some(2));
}

#[test]
fn a_compressed_file_is_the_same_recording() {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(MOONCAKE.as_bytes()).unwrap();
    let packed = opened("trace.jsonl.gz", &packed.finish().unwrap(), &[]).unwrap();
    let plain = opened("trace.jsonl", MOONCAKE.as_bytes(), &[]).unwrap();
    assert_eq!((packed.name(), packed.fingerprint()), ("trace", plain.fingerprint()));
    assert_eq!(queries(&*packed), queries(&*plain));
    let array = format!("[{}]", MOONCAKE.trim().replace("\n\n", "\n").replace("}\n{", "},{"));
    assert_eq!(opened("trace.json", array.as_bytes(), &[]).unwrap().fingerprint(), plain.fingerprint());
}

#[test]
fn a_selection_starts_at_zero_and_is_never_shuffled() {
    let part = opened("t.jsonl", MOONCAKE.as_bytes(), &[("skip", "1"), ("limit", "2")]).unwrap();
    assert_eq!(queries(&*part).iter().filter_map(|query| query.arrival_s).collect::<Vec<_>>(), [0.0, 2.5]);
    let error = |parameters| opened("t.jsonl", MOONCAKE.as_bytes(), parameters).err().unwrap();
    assert!(error(&[("shuffle", "1")]).contains("in the order of their arrival"));
    assert!(error(&[("skip", "3")]).contains("skipping 3 of 3 queries leaves none"));
    assert!(error(&[("time_unit", "h")]).contains("neither s nor ms"));
    assert!(error(&[("where", "colour=red")]).contains("line 1: no column `colour`"));
    assert!(error(&[("where", "timestamp=7")]).contains("no row has `7` in `timestamp`"));
}

#[test]
fn every_parameter_changes_the_fingerprint() {
    let one = opened("t.jsonl", MOONCAKE.as_bytes(), &[]).unwrap();
    for parameter in [
        ("seed", "1"),
        ("block_tokens", "2"),
        ("max_prompt_tokens", "5"),
        ("max_output_tokens", "5"),
        ("time_unit", "s"),
    ] {
        let other = opened("t.jsonl", MOONCAKE.as_bytes(), &[parameter]).unwrap();
        assert_ne!(one.fingerprint(), other.fingerprint(), "{parameter:?}");
    }
    let changed = MOONCAKE.replace("[1, 2]", "[1, 8]");
    assert_ne!(one.fingerprint(), opened("t.jsonl", changed.as_bytes(), &[]).unwrap().fingerprint());
}

#[test]
fn errors_have_their_line() {
    let error = |name: &str, text: &str| opened(name, text.as_bytes(), &[]).err().unwrap();
    assert!(
        error("t.jsonl", &(MOONCAKE.to_owned() + "{\"timestamp\": -1, \"input_length\": 1}"))
            .contains("line 6: `timestamp` is -1")
    );
    assert!(
        error("t.csv", &(BURST.to_owned() + "x,m,1,1,2,l\n")).contains("line 7: `timestamp` is \"x\", not a number")
    );
    assert!(
        error("t.csv", "a,b\n1,2\n")
            .contains("line 2: no column `timestamp` for the time of arrival. hint: the columns are a, b")
    );
    assert!(error("t.jsonl", "{\n").contains("line 1: not JSON"));
    assert!(error("t.jsonl", "").contains("has no queries"));
}

#[test]
fn sessions_follow_their_first_turn() {
    let text = "{\"session_id\": \"b\", \"timestamp\": 9000, \"turns\": [{\"text\": \"hello\", \"output_length\": 2}, {\"input_length\": 3, \"output_length\": 4, \"delay\": 500}, {\"text\": \"bye\"}]}
{\"timestamp\": 8000, \"input_length\": 2, \"output_length\": 4}
{\"session_id\": \"c\", \"timestamp\": 8500, \"turns\": [{\"text\": \"x\", \"output_length\": 1}, {\"input_length\": 2, \"output_length\": 0}]}
";
    let dataset = opened("s.jsonl", text.as_bytes(), &[]).unwrap();
    let queries = queries(&*dataset);
    let arrivals: Vec<Option<f64>> = queries.iter().map(|query| query.arrival_s).collect();
    assert_eq!(arrivals, [Some(0.0), Some(0.5), Some(1.0), None, None]);
    assert_eq!([0, 1, 2].map(|index| dataset.turns(index)), [1, 1, 3]);
    assert_eq!(queries[3].turn, Some(Turn { conversation: 2, number: 1, think_s: Some(0.5) }));
    assert_eq!((queries[4].problem.as_str(), queries[4].output_tokens, dataset.skipped()), ("bye", None, 1));
    let part = opened("s.jsonl", text.as_bytes(), &[("skip", "2"), ("limit", "2")]).unwrap();
    assert_eq!((part.size(), part.turns(0), part.get(0).unwrap().arrival_s), (Some(2), 2, Some(0.0)));
}

proptest! {
    #[test]
    fn arrivals_are_sorted_and_start_at_zero(times in prop::collection::vec(0_u32..1000, 1..30), seed: u64) {
        let row = |time: &u32| format!("{{\"timestamp\": {time}, \"input_length\": 2, \"output_length\": 1}}");
        let rows = times.iter().map(row).collect::<Vec<_>>().join("\n");
        let seed = seed.to_string();
        let dataset = opened("t.jsonl", rows.as_bytes(), &[("seed", &seed)]).unwrap();
        let arrivals: Vec<f64> = queries(&*dataset).iter().filter_map(|query| query.arrival_s).collect();
        prop_assert_eq!(arrivals.len(), times.len());
        prop_assert!(arrivals[0] == 0.0 && arrivals.is_sorted());
        let span = f64::from(times.iter().max().unwrap() - times.iter().min().unwrap()) / 1000.0;
        prop_assert!((arrivals[arrivals.len() - 1] - span).abs() < 1e-9);
    }

    #[test]
    fn random_text_never_panics(text in "[{}\\[\\]:,\"a1timesp\n]{0,60}") {
        let _ = opened("t", text.as_bytes(), &[]);
    }
}

#[test]
fn a_file_that_is_not_utf_8_is_an_error() {
    let error = opened("x.csv", b"\xff\xfe\x00", &[]).err().unwrap();
    assert!(error.contains("line 1: not UTF-8") && error.contains("hint: "), "{error}");
}
