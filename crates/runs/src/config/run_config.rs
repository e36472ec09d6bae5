//! The configuration of a run.

use std::path::PathBuf;

use ergometer_datasets::grade::Grader;
use ergometer_sensors::external::Spec;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CountedDevices, JudgeSpec, Retries, Schedule, SensorSetting, Slo, Think};
use ergometer_clients::redact::{REDACTED, redact_header, redact_json, redact_parameter, redact_url};
use ergometer_clients::{ClientSpec, RequestOptions};
use ergometer_datasets::DatasetSpec;

/// The configuration of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunConfig {
    /// The dataset.
    pub dataset: DatasetSpec,
    /// The client.
    pub client: ClientSpec,
    /// The options of every request.
    pub request: RequestOptions,
    /// The grader; the default of the dataset if absent.
    pub grader: Option<Grader>,
    /// The most queries.
    pub max_queries: Option<u64>,
    /// How long requests are sent for, in seconds.
    pub duration_s: Option<f64>,
    /// When requests are sent.
    pub schedule: Schedule,
    /// The ramp up to the concurrency or rate, in seconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ramp_s: f64,
    /// The most requests in flight of an open loop. Further requests wait, and their wait is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<u32>,
    /// Think time between the turns of a conversation.
    #[serde(default, skip_serializing_if = "Think::is_never")]
    pub think: Think,
    /// The number of the draw of arrivals, which differs between repeats.
    #[serde(default, skip_serializing_if = "is_first")]
    pub draw: u32,
    /// The latency limits of a good request.
    #[serde(default, skip_serializing_if = "Slo::is_none")]
    pub slo: Slo,
    /// The number of warm-up requests.
    pub warmup: u32,
    /// The timeout of a request, in seconds.
    pub timeout_s: Option<f64>,
    /// The number of failures after which the run stops.
    pub max_failures: Option<u64>,
    /// How failed requests are retried.
    #[serde(default, skip_serializing_if = "Retries::is_off")]
    pub retries: Retries,
    /// The tokenizer that counts tokens if the server does not: a file or a model folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<PathBuf>,
    /// The judge, if a model grades the answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<JudgeSpec>,
    /// The address of the server's metrics; detected if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_metrics: Option<String>,
    /// How long idle power is measured before and after, in seconds; 0 skips it.
    pub idle_s: f64,
    /// How long calibration requests are sent before a run under load, in seconds; 0 sends none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub calibrate_s: f64,
    /// The devices whose energy counts, as in `--device`; empty for all.
    pub devices: CountedDevices,
    /// The user's own sensors, as in `--sensor`. Commands are not stored: they may contain a password.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensors: Vec<SensorSetting>,
    /// Whether a server with a remote address runs on this machine.
    pub server_is_local: bool,
    /// Whether the power of the CPU is modelled if nothing measures it.
    pub model_cpu: bool,
    /// The prices of tokens.
    pub prices: Prices,
    /// The number of parameters of the model, if the client does not know it.
    pub model_parameters: Option<u64>,
    /// The suffix of the run folder's name.
    pub name: Option<String>,
}

/// Prices of tokens, in US dollars per million.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Prices {
    /// Input tokens.
    pub input_usd_per_million: Option<f64>,
    /// Output tokens.
    pub output_usd_per_million: Option<f64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_first(draw: &u32) -> bool {
    *draw == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(seconds: &f64) -> bool {
    *seconds == 0.0
}

/// A secret that is not stored in files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingSecret {
    /// The name of the secret: `the header Authorization`.
    pub what: String,
    /// The option that sets it.
    pub option: &'static str,
}

impl RunConfig {
    /// The user's own sensors that can be opened.
    pub fn sensor_specs(&self) -> impl Iterator<Item = &Spec> {
        self.sensors.iter().filter_map(|sensor| match sensor {
            SensorSetting::Spec(spec) => Some(spec),
            SensorSetting::Redacted(_) => None,
        })
    }

    /// The configuration without secrets, for files and for display.
    #[must_use]
    pub fn redacted(&self) -> Self {
        let mut config = self.clone();
        config.client.base_url = self.client.base_url.as_deref().map(redact_url);
        config.server_metrics = self.server_metrics.as_deref().map(redact_url);
        if let Some(judge) = &mut config.judge {
            judge.base_url = redact_url(&judge.base_url);
        }
        config.client.headers = self.client.headers.iter().map(|header| redact_header(header)).collect();
        for (name, value) in &mut config.client.parameters {
            *value = redact_parameter(name, value).into_owned();
        }
        for (name, value) in &mut config.dataset.parameters {
            *value = redact_parameter(name, value).into_owned();
        }
        config.sensors = self.sensors.iter().map(SensorSetting::redacted).collect();
        let mut parameters = Value::Object(std::mem::take(&mut config.request.parameters));
        redact_json(&mut parameters);
        if let Value::Object(parameters) = parameters {
            config.request.parameters = parameters;
        }
        config
    }

    /// A secret that was removed and has not been restored.
    #[must_use]
    pub fn missing_secret(&self) -> Option<MissingSecret> {
        let missing = |what: String, option| MissingSecret { what, option };
        let client = &self.client;
        let is_missing = |text: &str| text.contains(REDACTED);
        if client.base_url.as_deref().is_some_and(is_missing) {
            return Some(missing(String::from("a part of the base URL"), "base-url"));
        }
        if self.server_metrics.as_deref().is_some_and(is_missing) {
            return Some(missing(String::from("a part of the address of the server's metrics"), "server-metrics"));
        }
        if self.judge.as_ref().is_some_and(|judge| is_missing(&judge.base_url)) {
            return Some(missing(String::from("a part of the judge's address"), "judge"));
        }
        if let Some(sensor) = self.sensors.iter().find(|sensor| matches!(sensor, SensorSetting::Redacted(_))) {
            return Some(missing(format!("the command of the sensor {sensor}"), "sensor"));
        }
        let header = client.headers.iter().find(|header| is_missing(header));
        if let Some(header) = header {
            let name = header.split(':').next().unwrap_or_default();
            return Some(missing(format!("the header {name}"), "header"));
        }
        let parameter = client.parameters.iter().find(|(_, value)| is_missing(value));
        if let Some((name, _)) = parameter {
            return Some(missing(format!("the client parameter {name}"), "client-param"));
        }
        let of_request = self.request.parameters.iter().find(|(_, value)| is_missing(&value.to_string()));
        let of_dataset = self.dataset.parameters.iter().find(|(_, value)| is_missing(value));
        let of_request = of_request.map(|(name, _)| missing(format!("the parameter {name}"), "param"));
        of_request
            .or_else(|| of_dataset.map(|(name, _)| missing(format!("the dataset parameter {name}"), "dataset-param")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_removed_and_reported_missing() {
        let spec = serde_json::json!({
            "dataset": {"id": "builtin"},
            "client": {
                "id": "openai", "model": "org/model", "base_url": "http://me:hunter2@host:80/v1?key=hunter2",
                "headers": ["Authorization: Bearer hunter2"], "parameters": {"api_key": "hunter2", "retries": "3"},
            },
            "request": {"parameters": {"max_tokens": 5, "extra": {"password": "hunter2"}}, "seed": 0},
            "schedule": {"mode": "concurrency", "concurrency": 1}, "warmup": 0, "idle_s": 0.0, "devices": [], "server_is_local": false, "model_cpu": true,
            "prices": {}, "judge": {"base_url": "http://me:hunter2@judge/v1", "api_key_env": "JUDGE_KEY"},
            "sensors": ["csv:/var/log/meter.csv", "command[every=2s]:ipmitool -P hunter2 dcmi power reading"],
        });
        let config: RunConfig = serde_json::from_value(spec).unwrap();
        let stored = config.redacted();
        let text = serde_json::to_string(&stored).unwrap();
        assert!(!text.contains("hunter2"), "{text}");
        assert!(text.contains("host:80/v1") && text.contains("\"retries\":\"3\"") && text.contains("\"max_tokens\":5"));
        assert!(text.contains("JUDGE_KEY"), "the name of a variable is not a secret");
        assert_eq!(stored.redacted(), stored, "redacting twice changes nothing");
        assert_eq!((config.missing_secret(), stored.missing_secret().is_some()), (None, true));
        assert_eq!(
            serde_json::to_value(&stored.sensors[0]).unwrap(),
            "csv:/var/log/meter.csv",
            "a path is not a secret"
        );
        let only_sensors = RunConfig { sensors: stored.sensors, ..serde_json::from_value(plain()).unwrap() };
        let missing = only_sensors.missing_secret();
        assert_eq!(missing.unwrap().what, "the command of the sensor command:ipmitool");
    }

    fn plain() -> Value {
        serde_json::json!({
            "dataset": {"id": "builtin"}, "client": {"id": "openai", "model": "m"}, "request": {"seed": 0},
            "schedule": {"mode": "concurrency", "concurrency": 1}, "warmup": 0, "idle_s": 0.0, "devices": [],
            "server_is_local": false, "model_cpu": true, "prices": {},
        })
    }
}
