//! What the user typed goes in; a run's configuration comes out.

use std::path::Path;

use ergometer::client::{ClientSpec, RequestOptions};
use ergometer::config::{Prices, RunConfig};
use ergometer::dataset::DatasetSpec;
use serde_json::{Map, Value};

use crate::arguments::ProfileArguments;
use crate::exit::Failure;

pub(super) fn config(arguments: &ProfileArguments) -> Result<RunConfig, Failure> {
    let (what, how, energy) = (&arguments.what, &arguments.how, &arguments.energy);
    if how.timeout.is_some_and(|timeout| timeout.is_zero()) {
        return Err(Failure::usage("--timeout 0s would fail every request").hint("leave it out for no limit"));
    }
    let mut parameters = Map::new();
    for (name, value) in &what.param {
        // A number, a list or true is what it looks like; anything else is text.
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.clone()));
        if parameters.insert(name.clone(), value).is_some() {
            return Err(Failure::usage(format!("--param {name} is given twice")));
        }
    }
    let mut dataset =
        DatasetSpec { id: what.dataset.clone(), parameters: what.dataset_param.iter().cloned().collect() };
    // What has an id is meant by it; a folder of the same name is written ./name.
    if !ergometer::dataset::registry().iter().any(|info| info.id == what.dataset) {
        dataset.id = absolute(&what.dataset);
    }
    if let Some(path) = dataset.parameters.get_mut("path") {
        *path = absolute(path);
    }
    let is_demo = what.client == "embedded" && ["tiny", "small"].contains(&what.model.as_str());
    let is_folder = !is_demo && Path::new(&what.model).is_dir();
    Ok(RunConfig {
        dataset,
        client: ClientSpec {
            id: what.client.clone(),
            model: what.model.clone(),
            model_folder: is_folder.then(|| absolute(&what.model).into()),
            base_url: what.base_url.clone(),
            headers: what.header.clone(),
            parameters: what.client_param.iter().cloned().collect(),
        },
        request: RequestOptions {
            system_prompt: what.system_prompt.clone(),
            max_tokens: what.max_tokens,
            parameters,
            seed: how.seed,
        },
        grader: what.grader.clone(),
        max_queries: how.max_queries,
        duration_s: how.duration.map(|duration| duration.as_secs_f64()),
        concurrency: how.concurrency,
        warmup: how.warmup,
        timeout_s: how.timeout.map(|timeout| timeout.as_secs_f64()),
        max_failures: how.max_failures,
        idle_s: energy.idle.as_secs_f64(),
        devices: energy.device.clone(),
        server_is_local: energy.server_is_local,
        model_cpu: !energy.no_model,
        prices: Prices { input_usd_per_million: energy.price_input, output_usd_per_million: energy.price_output },
        model_parameters: energy.model_params,
        name: arguments.place.name.clone(),
    })
}

/// The path of something that is there, so that a run can be resumed from another folder; an id stays as it is.
fn absolute(text: &str) -> String {
    match std::path::absolute(text) {
        Ok(path) if Path::new(text).exists() => path.to_string_lossy().into_owned(),
        _ => text.to_owned(),
    }
}
