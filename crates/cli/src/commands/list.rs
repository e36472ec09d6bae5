//! `ergo list`: prints datasets, clients, graders, sensors, analyses, visualizations and models.

use std::process::ExitCode;

use ergometer_analysis::{analyses, plots};
use ergometer_datasets::grade;
use ergometer_sensors::modelled::ModelPolicy;
use serde::Serialize;

use super::profile::{config, failure};
use crate::arguments::{Format, ListArguments, ListKind};
use crate::csv;
use crate::exit::{Exit, Failure};
use crate::report::to_json;
use crate::screen::{Align, Screen, Table, Tone, print};
use crate::threads::{Workers, start_runtime};

#[derive(Debug, Serialize)]
struct Item {
    kind: &'static str,
    id: String,
    description: String,
    parameters: Vec<Parameter>,
}

#[derive(Debug, Serialize)]
struct Parameter {
    /// As typed, without the value: `--param temperature=`.
    usage: String,
    description: String,
}

impl Item {
    /// An item without parameters.
    fn plain(kind: &'static str, id: &str, description: &str) -> Self {
        Self { kind, id: id.to_owned(), description: description.to_owned(), parameters: Vec::new() }
    }
}

impl Parameter {
    fn new(option: &str, name: &str, sign: char, description: &str) -> Self {
        Self { usage: format!("{option} {name}{sign}"), description: description.to_owned() }
    }
}

pub(crate) fn run(arguments: &ListArguments, screen: Screen) -> Result<ExitCode, Failure> {
    let items = if arguments.kind == ListKind::Models { models(arguments)? } else { items(arguments.kind) };
    if items.is_empty() {
        screen.note("the server lists no models; if you know the name of a model, pass it to `ergo profile --model`");
    }
    print(&match arguments.format {
        Format::Json => to_json(&items)?,
        Format::Csv => {
            let rows = items.iter().map(|item| csv::line([item.kind, &item.id, &item.description]));
            csv::line(["kind", "id", "description"]) + &rows.collect::<String>()
        }
        Format::Table => table(&items, screen),
    })?;
    Ok(Exit::Done.into())
}

/// The models of a client.
fn models(arguments: &ListArguments) -> Result<Vec<Item>, Failure> {
    let spec = config::client(arguments.client.as_deref(), &arguments.server);
    let runtime = start_runtime(Workers::Caller)?;
    let listed = runtime.block_on(async {
        let client = ergometer_clients::open(&spec)?;
        let models = client.models().await;
        let _ = client.close().await;
        models
    });
    let models = listed.map_err(|error| failure(error.into()))?;
    let item = |id| Item { kind: "model", id, description: format!("client {}", spec.id), parameters: Vec::new() };
    Ok(models.into_iter().map(item).collect())
}

fn items(kind: ListKind) -> Vec<Item> {
    let wants = |other: ListKind| kind == other || kind == ListKind::All;
    let mut items = Vec::new();
    if wants(ListKind::Datasets) {
        items.extend(ergometer_datasets::registry().iter().map(|info| Item {
            kind: "dataset",
            id: info.id.to_owned(),
            description: info.description.to_owned(),
            parameters: parameters("--dataset-param", info.parameters).collect(),
        }));
        items.push(Item {
            kind: "selection",
            id: String::from("every dataset"),
            description: String::from("also takes these parameters, applied in this order"),
            parameters: parameters("--dataset-param", ergometer_datasets::selection_parameters()).collect(),
        });
    }
    if wants(ListKind::Clients) {
        items.extend(ergometer_clients::registry().iter().map(|info| {
            Item {
                kind: "client",
                id: info.id.to_owned(),
                description: info.description.to_owned(),
                parameters: parameters("--client-param", info.parameters)
                    .chain(parameters("--param", info.request_parameters))
                    .collect(),
            }
        }));
    }
    if wants(ListKind::Graders) {
        items.extend(grade::registry().iter().map(|info| {
            Item {
                kind: "grader",
                id: info.id.to_owned(),
                description: info.description.to_owned(),
                parameters: info
                    .parameter
                    .map(|parameter| Parameter::new("--grader", info.id, ':', parameter))
                    .into_iter()
                    .collect(),
            }
        }));
    }
    if wants(ListKind::Sensors) {
        items.extend(ergometer_sensors::probe_machine(ModelPolicy::WhereUnmeasured).sensors.iter().map(|sensor| {
            Item {
                kind: "sensor",
                id: sensor.info().id.clone(),
                description: format!("{}, {}", sensor.info().device, sensor.info().name),
                parameters: Vec::new(),
            }
        }));
    }
    if wants(ListKind::Analyses) {
        items.extend(analyses::ALL.iter().map(|analysis| Item::plain("analysis", analysis.id(), analysis.about())));
    }
    if wants(ListKind::Visualizations) {
        items.extend(plots::ALL.iter().map(|plot| Item::plain("visualization", plot.id(), plot.about())));
    }
    items
}

fn parameters(option: &'static str, known: &'static [(&'static str, &'static str)]) -> impl Iterator<Item = Parameter> {
    known.iter().map(move |(name, description)| Parameter::new(option, name, '=', description))
}

fn table(items: &[Item], screen: Screen) -> String {
    let mut table = Table::new([Align::Left, Align::Left, Align::Left]);
    let mut kind = "";
    for item in items {
        let shown = if kind == item.kind { "" } else { item.kind };
        kind = item.kind;
        table.row(vec![
            (Tone::Faint, shown.to_owned()),
            (Tone::Strong, item.id.clone()),
            (Tone::Plain, item.description.clone()),
        ]);
        for parameter in &item.parameters {
            let name = format!("  {}", parameter.usage);
            table.row(vec![
                (Tone::Faint, String::new()),
                (Tone::Faint, name),
                (Tone::Faint, parameter.description.clone()),
            ]);
        }
    }
    table.render(screen)
}
