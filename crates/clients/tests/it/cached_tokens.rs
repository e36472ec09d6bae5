//! The cached tokens of the prompt in the answers of different servers.

use ergometer_clients::{Dialect, Usage, replay};
use ergometer_units::Timestamp;
use serde_json::{Value, json};

/// The token counts of an answer whose last object has these fields, streamed or not.
fn openai(fields: &Value) -> Option<Usage> {
    let at = Timestamp::from_nanos_since_epoch(1);
    let with_choices = |mut choices: Value| {
        choices.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        choices.to_string()
    };
    let first = json!({"choices": [{"delta": {"content": "4"}, "finish_reason": "stop"}]});
    let stream = format!("data: {first}\n\ndata: {}\n\ndata: [DONE]\n\n", with_choices(json!({"choices": []})));
    let (streamed, result) = replay(Dialect::OpenAi(Some("text/event-stream")), [(at, stream.as_bytes())]);
    assert_eq!(result, Ok(()), "{fields}");
    let whole = with_choices(json!({"choices": [{"message": {"content": "4"}, "finish_reason": "stop"}]}));
    let (whole, result) = replay(Dialect::OpenAi(Some("application/json")), [(at, whole.as_bytes())]);
    assert_eq!((result, whole.usage), (Ok(()), streamed.usage), "{fields}");
    streamed.usage
}

fn cached(fields: &Value) -> Option<u64> {
    let usage = openai(fields).unwrap();
    assert_eq!((usage.input, usage.output), (10, 2), "{fields}");
    usage.cached
}

#[test]
fn usage_reports_them_in_the_details_of_the_prompt() {
    let with = |details: Value| {
        cached(&json!({"usage": {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": details}}))
    };
    assert_eq!(with(json!({"cached_tokens": 4, "audio_tokens": 0})), Some(4));
    assert_eq!(with(json!({"cached_tokens": 0})), Some(0));
    assert_eq!(with(json!({"cached_tokens": 10})), Some(10));
    assert_eq!(with(json!({"cached_tokens": 11})), Some(10), "never more than the prompt has");
    assert_eq!(with(json!({"cached_tokens": u64::MAX})), Some(10));
    for unknown in [json!(-1), json!("4"), json!(null), json!(1.5), json!(1e300), json!([4]), json!({"n": 4})] {
        assert_eq!(with(json!({"cached_tokens": unknown})), None);
        assert_eq!(with(unknown), None);
    }
    assert_eq!(cached(&json!({"usage": {"prompt_tokens": 10, "completion_tokens": 2}})), None);
}

#[test]
fn llama_cpp_reports_them_in_its_timings() {
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 2});
    let with = |timings: Value| {
        let alone = openai(&json!({"timings": timings})).unwrap();
        (cached(&json!({"usage": usage, "timings": timings})), alone.input, alone.cached)
    };
    assert_eq!(with(json!({"prompt_n": 3, "cache_n": 7, "predicted_n": 2})), (Some(7), 10, Some(7)));
    assert_eq!(with(json!({"prompt_n": 10, "cache_n": 0, "predicted_n": 2})), (Some(0), 10, Some(0)));
    // Older versions report only the evaluated tokens.
    assert_eq!(with(json!({"prompt_n": 3, "predicted_n": 2})), (Some(7), 3, None));
    assert_eq!(with(json!({"prompt_n": 10, "predicted_n": 2})), (Some(0), 10, None));
    for wrong in [json!(-7), json!("7"), json!(null), json!([7])] {
        assert_eq!(with(json!({"prompt_n": 3, "cache_n": wrong, "predicted_n": 2})), (Some(7), 3, None));
    }
    // Numbers that cannot be true.
    assert_eq!(with(json!({"prompt_n": 11, "predicted_n": 2})), (None, 11, None));
    assert_eq!(with(json!({"prompt_n": -1, "predicted_n": 2})), (None, 0, None));
    assert_eq!(with(json!({"prompt_n": 3, "cache_n": 40, "predicted_n": 2})), (Some(10), 43, Some(40)));
    // The count of `usage` is used if there are two.
    let details = json!({"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 6}});
    let timings = json!({"prompt_n": 3, "cache_n": 7, "predicted_n": 2});
    assert_eq!(cached(&json!({"usage": details, "timings": timings})), Some(6));
}

/// Older versions do not report them: some count the whole prompt in `prompt_eval_count`, others only its evaluated part.
#[test]
fn newer_versions_of_ollama_report_them() {
    let with = |more: Value| {
        let mut line = json!({"response": "4", "done": true, "prompt_eval_count": 10, "eval_count": 2});
        line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let line = line.to_string();
        let (transcript, result) = replay(Dialect::Ollama, [(Timestamp::from_nanos_since_epoch(1), line.as_bytes())]);
        let usage = transcript.usage.unwrap();
        assert_eq!((result, usage.input, usage.output), (Ok(()), 10, 2));
        usage.cached
    };
    assert_eq!(with(json!({})), None);
    assert_eq!(with(json!({"prompt_eval_cached_count": 4})), Some(4));
    assert_eq!(with(json!({"prompt_eval_cached_count": 0})), Some(0));
    assert_eq!(with(json!({"prompt_eval_cached_count": 11})), Some(10));
    for wrong in [json!(-4), json!("4"), json!(null), json!(0.5)] {
        assert_eq!(with(json!({"prompt_eval_cached_count": wrong})), None);
    }
}
