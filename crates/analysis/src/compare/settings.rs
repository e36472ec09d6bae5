//! Lists the settings of two runs that differ, other than those that identify the subject of a comparison.

use serde_json::{Map, Value, json};

use super::comparable::{Difference, Role, text};
use ergometer_runs::config::{Retries, RunConfig, Think};
use ergometer_runs::saved::Run;

/// Settings that [`comparable`](super::comparable) checks itself or that do not affect measurements.
const KNOWN_SETTINGS: &[&str] = &[
    "draw",
    "dataset",
    "client",
    "request",
    "grader",
    "judge",
    "max_queries",
    "duration_s",
    "schedule",
    "concurrency",
    "slo",
    "warmup",
    "devices",
    "prices",
    "name",
    "idle_s",
    "calibrate_s",
];

/// Another setting that should be equal.
struct Setting {
    /// Its name in files.
    name: &'static str,
    /// Its name for people.
    title: &'static str,
    /// Its value for people; `None` if it is not set.
    value: fn(&RunConfig) -> Option<String>,
}

const SETTINGS: &[Setting] = &[
    Setting {
        name: "ramp_s",
        title: "ramp",
        value: |config| Some(config.ramp_s).filter(|&seconds| seconds > 0.0).map(seconds_text),
    },
    Setting {
        name: "max_in_flight",
        title: "maximum number of requests in flight",
        value: |config| config.max_in_flight.map(|most| most.to_string()),
    },
    Setting { name: "think", title: "think time", value: |config| think_text(config.think) },
    Setting { name: "timeout_s", title: "request timeout", value: |config| config.timeout_s.map(seconds_text) },
    Setting {
        name: "max_failures",
        title: "maximum number of failures",
        value: |config| config.max_failures.map(|most| most.to_string()),
    },
    Setting { name: "retries", title: "number of retries", value: |config| Some(retries_text(config.retries)) },
    Setting {
        name: "tokenizer",
        title: "tokenizer",
        value: |config| config.tokenizer.as_ref().map(|path| path.display().to_string()),
    },
    Setting {
        name: "server_metrics",
        title: "address of the server metrics",
        value: |config| config.server_metrics.clone(),
    },
];

fn seconds_text(seconds: f64) -> String {
    format!("{seconds} s")
}

fn think_text(think: Think) -> Option<String> {
    match think {
        Think::Never => None,
        Think::Fixed { seconds } => Some(seconds_text(seconds)),
        Think::Exponential { mean_s } => Some(format!("exponential, mean {}", seconds_text(mean_s))),
    }
}

fn retries_text(retries: Retries) -> String {
    match retries {
        Retries { most: 0, .. } => String::from("0"),
        Retries { most, backoff_s } => format!("{most} (backoff {})", seconds_text(backoff_s)),
    }
}

/// All other settings that differ.
pub(super) fn settings(first: &Run, second: &Run) -> Vec<Difference> {
    let settings_of = |run: &Run| run.summary.profiler_config.settings();
    let (one, two) = (settings_of(first), settings_of(second));
    let mut names: Vec<&String> = one.keys().chain(two.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let differs = |name: &&String| {
        let known = KNOWN_SETTINGS.contains(&name.as_str());
        // A setting that an earlier version did not have counts as null.
        !known && one.get(*name).unwrap_or(&Value::Null) != two.get(*name).unwrap_or(&Value::Null)
    };
    let difference = |name: &String| {
        let setting = SETTINGS.iter().find(|setting| setting.name == name);
        let value = |run: &Run, settings: &Map<String, Value>| match (setting, run.summary.profiler_config.known()) {
            (Some(setting), Some(config)) => json!((setting.value)(config)),
            // The settings of another tool, or one without a title.
            _ => settings.get(name).cloned().unwrap_or_default(),
        };
        Difference {
            what: setting.map_or_else(|| format!("value of the setting `{name}`"), |known| known.title.to_owned()),
            baseline: text(&value(first, &one)),
            candidate: text(&value(second, &two)),
            role: Role::Warning,
        }
    };
    names.into_iter().filter(differs).map(difference).collect()
}

#[cfg(test)]
mod tests {
    use ergometer_runs::testing;

    use super::*;

    #[test]
    fn every_setting_is_one_of_the_configuration() {
        let config = testing::config(json!({
            "ramp_s": 2.5, "max_in_flight": 8, "think": {"is": "exponential", "mean_s": 3.0}, "timeout_s": 60.0,
            "max_failures": 5, "retries": {"most": 3, "backoff_s": 0.5}, "tokenizer": "tiny", "server_metrics": "http://a/m",
        }));
        let known = serde_json::to_value(&config).unwrap();
        assert!(
            SETTINGS.iter().all(|setting| !known[setting.name].is_null() && !KNOWN_SETTINGS.contains(&setting.name))
        );
        let values: Vec<String> = SETTINGS.iter().filter_map(|setting| (setting.value)(&config)).collect();
        let expected = ["2.5 s", "8", "exponential, mean 3 s", "60 s", "5", "3 (backoff 0.5 s)", "tiny", "http://a/m"];
        assert_eq!(values, expected);
        let absent = testing::config(json!({}));
        let values: Vec<String> = SETTINGS.iter().filter_map(|setting| (setting.value)(&absent)).collect();
        assert_eq!(values, ["0"], "retries");
    }
}
