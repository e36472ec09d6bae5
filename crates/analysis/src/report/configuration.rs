//! The configuration section: model, dataset, machine, settings and energy sources.

use ergometer_charts::{Block, Cell, Table};
use ergometer_units::format::quantity;
use serde_json::Value;

use ergometer_runs::Closing;
use ergometer_runs::saved::Run;
use ergometer_runs::summary::DeviceSummary;

/// Settings nested deeper than this are shown as JSON.
const DEEPEST: usize = 4;

pub(super) fn blocks(run: &Run) -> Vec<Block> {
    let mut facts = Vec::new();
    let mut fact = |label: &str, value: Option<String>| {
        facts.extend(value.filter(|value| !value.is_empty()).map(|value| (label.to_owned(), value)));
    };
    let summary = &run.summary;
    let system = summary.system_info.as_ref();
    let version = |name: &str| summary.versions.get(name).cloned();
    fact("model", Some(summary.model.clone()));
    fact("dataset", Some(summary.dataset_name.clone()));
    fact("dataset fingerprint", Some(summary.dataset_fingerprint.clone()));
    fact("hardware", Some(summary.hardware_label.clone()));
    fact("accelerator", summary.gpu_info.as_ref().map(|gpu| gpu.name.clone()));
    fact("processor", system.and_then(|system| system.cpu_brand.clone()));
    fact("operating system", system.and_then(|system| system.os_name.clone()));
    fact("kernel", system.and_then(|system| system.kernel_version.clone()));
    fact("client", Some(summary.client.clone()));
    fact("token counts from", summary.tokens.source.clone());
    fact("grader", summary.accuracy.as_ref().map(|accuracy| accuracy.grader.clone()));
    fact("sessions", (summary.sessions > 0).then(|| summary.sessions.to_string()));
    fact("end of the run", summary.closing.map(|closing| reason(closing).to_owned()));
    fact("Ergometer version that wrote the files", version("ergometer"));
    fact("Ergometer version that started the run", version("ergometer_at_start"));
    let mut settings = Vec::new();
    flatten(&Value::Object(summary.profiler_config.settings()), "", 0, &mut settings);
    let mut blocks = vec![Block::Facts(facts)];
    let table = devices(run);
    if !table.rows.is_empty() {
        blocks.push(Block::Table(table));
    }
    if !settings.is_empty() {
        blocks.push(Block::Text(String::from("Settings of the run, from summary.json:")));
        blocks.push(Block::Facts(settings));
    }
    blocks
}

/// Why a run ended.
fn reason(closing: Closing) -> &'static str {
    match closing {
        Closing::Finished => "all queries were done",
        Closing::Duration => "the maximum duration was reached",
        Closing::TooManyFailures => "too many requests failed, or the server stopped answering",
        Closing::Interrupted => "interrupted by the user",
        Closing::Unwritable => "the journal could not be written",
        Closing::Unreadable => "the dataset could not be read",
        Closing::Failed => "internal error of Ergometer",
    }
}

/// Lists the settings by path, without null values.
fn flatten(value: &Value, path: &str, depth: usize, settings: &mut Vec<(String, String)>) {
    match value {
        Value::Null => {}
        Value::Object(fields) if depth < DEEPEST => {
            for (name, field) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                flatten(field, &path, depth + 1, settings);
            }
        }
        Value::Array(items) if items.is_empty() => {}
        other => settings.push((path.to_owned(), shown(other))),
    }
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

/// The devices and their energy.
fn devices(run: &Run) -> Table {
    let mut table = Table::new(
        "devices",
        "Energy by device",
        &[
            ("device", "device"),
            ("name", "name"),
            ("scope", "scope"),
            ("measured by", "provenance"),
            ("in the total", "summed"),
            ("gross", "gross_j"),
            ("idle power before and after", "idle_w"),
        ],
    );
    let is_counted = |device: &DeviceSummary| run.energy.is_some_and(|source| device.counts_for(source));
    for device in &run.summary.energy.devices {
        let idle: Vec<String> = device.idle_w.iter().map(|&watts| quantity(watts, "W")).collect();
        table.rows.push(vec![
            Cell::text(device.device.to_string()),
            Cell::text(device.name.clone()),
            Cell::text(device.scope.label()),
            Cell::text(device.provenance.to_string().replace('_', " ")),
            Cell::text(if is_counted(device) { "yes" } else { "no" }),
            Cell::number(device.gross_j.map(|gross| gross.value), |joules| quantity(joules, "J")),
            if idle.is_empty() { Cell::Absent } else { Cell::text(idle.join(", ")) },
        ]);
    }
    table
}
