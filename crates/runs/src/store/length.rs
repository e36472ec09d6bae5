//! Upper bound on the text length of a record, used to end batches before a column is too long.
//!
//! An Arrow text column holds 2 GiB, and its builder panics beyond that. So the length is never underestimated; JSON
//! text may be overestimated up to six times.

use serde_json::Value;

use crate::record::Record;

/// The bytes of all texts whose length a dataset, model or server controls; metadata counts as JSON.
pub(super) fn text_bytes(record: &Record) -> usize {
    let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let metadata = record.dataset_metadata.iter().map(|(key, value)| key.len() + json_bytes(value)).sum::<usize>();
    let ours = &record.ergometer;
    let grade =
        ours.grade.as_ref().map_or(0, |grade| grade.grader.len() + length(&grade.extracted) + length(&grade.reply));
    [&record.problem, &record.answer, &record.subject].map(String::len).iter().sum::<usize>()
        + [&record.model_answer, &record.model_metrics.lm_response].map(length).iter().sum::<usize>()
        + [&ours.cause, &ours.finish, &ours.reasoning, &ours.tool_calls].map(length).iter().sum::<usize>()
        + metadata
        + grade
}

/// An upper bound on the length of a value as JSON: an escaped character has six bytes.
fn json_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 32,
        Value::String(text) => 2 + 6 * text.len(),
        Value::Array(items) => 2 + items.iter().map(|item| 1 + json_bytes(item)).sum::<usize>(),
        Value::Object(map) => 2 + map.iter().map(|(key, value)| 4 + 6 * key.len() + json_bytes(value)).sum::<usize>(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::{any_json, bare_record};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn json_is_never_longer_than_it_is_counted(value in any_json()) {
            prop_assert!(value.to_string().len() <= json_bytes(&value));
        }
    }

    #[test]
    fn every_long_text_counts() {
        let bare = text_bytes(&bare_record(0));
        let mut record = bare_record(0);
        record.model_answer = Some("a".repeat(1000));
        record.model_metrics.lm_response.clone_from(&record.model_answer);
        record.ergometer.cause.clone_from(&record.model_answer);
        assert_eq!(text_bytes(&record), bare + 3000);
    }
}
