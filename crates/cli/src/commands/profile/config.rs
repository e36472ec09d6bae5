//! Builds the configuration of a run from the arguments.

use std::path::Path;
use std::time::Duration;

use ergometer_clients::{ClientSpec, RequestOptions};
use ergometer_datasets::DatasetSpec;
use ergometer_diagnostics::{hint, option};
use ergometer_runs::config::{CountedDevices, JudgeSpec, Prices, Retries, RunConfig, Schedule, SensorSetting};
use serde_json::{Map, Value};

use crate::arguments::{LoadArguments, ProfileArguments, ServerArguments};
use crate::exit::Failure;

pub(super) fn config(arguments: &ProfileArguments) -> Result<RunConfig, Failure> {
    let (what, how, load, energy) = (&arguments.dataset, &arguments.requests, &arguments.load, &arguments.energy);
    let limits = [
        ("--timeout", how.timeout),
        ("--first-token-timeout", Some(how.first_token_timeout)),
        ("--token-timeout", Some(how.token_timeout)),
        ("--connect-timeout", Some(what.server.connect_timeout)),
    ];
    if let Some((name, _)) = limits.iter().find(|(_, limit)| limit.is_some_and(|limit| limit.is_zero())) {
        return Err(Failure::usage(format!("{name} 0s would fail every request")).hint(format!("leave {name} out")));
    }
    check_load(load, how.duration)?;
    let mut parameters = Map::new();
    for (name, value) in &what.param {
        // Valid JSON keeps its type; anything else is text.
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.clone()));
        if parameters.insert(name.clone(), value).is_some() {
            return Err(Failure::usage(format!("--param {name} is given twice")));
        }
    }
    let mut dataset =
        DatasetSpec { id: what.dataset.clone(), parameters: what.dataset_param.iter().cloned().collect() };
    if let Some(file) = &load.replay {
        dataset.id = String::from("replay");
        dataset.parameters.insert(String::from("path"), file.display().to_string());
    }
    // Without an output length, --max-tokens applies.
    if dataset.id == "synthetic"
        && let Some(most) = what.max_tokens
    {
        dataset.parameters.entry(String::from("output_tokens")).or_insert_with(|| most.to_string());
    }
    // An id takes precedence over a folder of the same name, which is written ./name.
    if !ergometer_datasets::registry().iter().any(|info| info.id == dataset.id) {
        dataset.id = absolute(&dataset.id);
    }
    if let Some(path) = dataset.parameters.get_mut("path") {
        *path = absolute(path);
    }
    let mut client = client(what.client.as_deref(), &what.server);
    client.model = match &what.model {
        Some(model) => model.clone(),
        None if client.id == "embedded" => String::from("tiny"),
        // The client then uses the server's only model.
        None => String::new(),
    };
    let is_demo = ["tiny", "small"].contains(&client.model.as_str());
    let is_folder = client.id == "embedded" && !is_demo && Path::new(&client.model).is_dir();
    client.model_folder = is_folder.then(|| absolute(&client.model).into());
    client.parameters = what.client_param.iter().cloned().collect();
    client.network.protocol = load.http.into();
    client.network.connections = load.connections;
    client.network.timeouts.first_token_s = how.first_token_timeout.as_secs_f64();
    client.network.timeouts.between_tokens_s = how.token_timeout.as_secs_f64();
    let judge = what.judge.as_ref().map(|base_url| JudgeSpec {
        base_url: base_url.clone(),
        model: what.judge_model.clone().unwrap_or_default(),
        api_key_env: what.judge_api_key_env.clone(),
        ca: client.network.ca.clone(),
        insecure: client.network.insecure,
    });
    Ok(RunConfig {
        dataset,
        client,
        request: RequestOptions {
            system_prompt: what.system_prompt.clone(),
            max_tokens: what.max_tokens,
            ignore_eos: load.ignore_eos,
            parameters,
            seed: how.seed,
        },
        grader: what.grader.clone(),
        max_queries: how.max_queries,
        duration_s: how.duration.map(|duration| duration.as_secs_f64()),
        schedule: schedules(load)[0],
        ramp_s: load.ramp.as_secs_f64(),
        max_in_flight: load.max_in_flight,
        think: load.think_time,
        draw: 0,
        slo: load.slo.unwrap_or_default(),
        warmup: how.warmup,
        timeout_s: how.timeout.map(|timeout| timeout.as_secs_f64()),
        max_failures: how.max_failures,
        retries: Retries { most: how.retries, backoff_s: how.retry_backoff.as_secs_f64() },
        tokenizer: what.tokenizer.as_ref().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone())),
        judge,
        server_metrics: energy.server_metrics.clone(),
        idle_s: energy.idle.as_secs_f64(),
        calibrate_s: energy.calibrate.as_secs_f64(),
        devices: CountedDevices::parse(&energy.device).map_err(Failure::usage)?,
        sensors: energy.sensor.iter().cloned().map(SensorSetting::Spec).collect(),
        server_is_local: energy.server_is_local,
        model_cpu: !energy.no_model,
        prices: Prices { input_usd_per_million: energy.price_input, output_usd_per_million: energy.price_output },
        model_parameters: energy.model_params,
        name: arguments.output.name.clone(),
    })
}

/// Refuses options that would have no effect.
fn check_load(load: &LoadArguments, duration: Option<Duration>) -> Result<(), Failure> {
    let is_closed = load.rate.is_empty() && load.replay.is_none();
    if is_closed && load.max_in_flight.is_some() {
        return Err(Failure::usage("--max-in-flight needs --rate or --replay").hint(hint!(
            "add ",
            option("rate"),
            ", or limit the requests in flight with ",
            option("concurrency")
        )));
    }
    if load.rate.is_empty() && load.arrivals.is_some() {
        return Err(Failure::usage("--arrivals needs --rate").hint(hint!(
            "add ",
            option("rate"),
            ", or leave ",
            option("arrivals"),
            " out"
        )));
    }
    if duration.is_some_and(|duration| !load.ramp.is_zero() && load.ramp >= duration) {
        return Err(Failure::usage("--ramp is not shorter than --duration").hint(hint!(
            "shorten ",
            option("ramp"),
            " or lengthen ",
            option("duration")
        )));
    }
    Ok(())
}

/// The schedule of each point of a sweep; one schedule for a single run.
pub(super) fn schedules(load: &LoadArguments) -> Vec<Schedule> {
    if load.replay.is_some() {
        return vec![Schedule::Replay { speed: load.replay_speed }];
    }
    if load.rate.is_empty() {
        return load.concurrency.iter().map(|&concurrency| Schedule::Concurrency { concurrency }).collect();
    }
    load.rate.iter().map(|&rate| Schedule::Rate { rate, arrivals: load.arrivals.unwrap_or_default() }).collect()
}

/// The client, without its model.
pub(in crate::commands) fn client(id: Option<&str>, server: &ServerArguments) -> ClientSpec {
    let default = if server.base_url.is_some() { "openai" } else { "embedded" };
    let mut spec = ClientSpec {
        id: id.unwrap_or(default).to_owned(),
        base_url: server.base_url.clone(),
        headers: server.header.clone(),
        ..ClientSpec::default()
    };
    spec.network.api_key_env.clone_from(&server.api_key_env);
    spec.network.ca = server.ca.as_ref().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()));
    spec.network.insecure = server.insecure;
    spec.network.timeouts.connect_s = server.connect_timeout.as_secs_f64();
    spec
}

/// Makes an existing path absolute, so that a run can be resumed from another folder; an id stays unchanged.
fn absolute(text: &str) -> String {
    match std::path::absolute(text) {
        Ok(path) if Path::new(text).exists() => path.to_string_lossy().into_owned(),
        _ => text.to_owned(),
    }
}
