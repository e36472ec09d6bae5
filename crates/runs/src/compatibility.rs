//! Upgrades files of earlier versions to the current layout before they are parsed.

use serde_json::{Value, json};

/// Replaces the number of requests in flight, which configurations had before there were rates, by a schedule.
pub(crate) fn upgrade_summary(summary: &mut Value) {
    let Some(config) = summary.get_mut("profiler_config").and_then(Value::as_object_mut) else { return };
    if config.get("schedule").is_none()
        && let Some(concurrency) = config.remove("concurrency")
    {
        config.insert(String::from("schedule"), json!({"mode": "concurrency", "concurrency": concurrency}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_requests_becomes_a_schedule() {
        let mut summary = json!({"profiler_config": {"concurrency": 4, "warmup": 1}});
        upgrade_summary(&mut summary);
        let schedule = json!({"mode": "concurrency", "concurrency": 4});
        assert_eq!(summary["profiler_config"], json!({"warmup": 1, "schedule": schedule}));
        let mut other = json!({"profiler_config": {"schedule": {"mode": "rate"}, "concurrency": 4}});
        let unchanged = other.clone();
        upgrade_summary(&mut other);
        assert_eq!(other, unchanged);
    }
}
