//! What ran, on what, with which settings, and where its numbers come from.

use ergometer_charts::{Block, Cell, Table};
use ergometer_units::format::quantity;
use serde_json::Value;

use crate::saved::Run;

/// How deep settings are told one by one; what is deeper is one text.
const DEEPEST: usize = 4;

pub(super) fn blocks(run: &Run) -> Vec<Block> {
    let mut facts = Vec::new();
    let fact = |label: &str, path: &str| Some((label.to_owned(), shown(run.summary.at(path)?)));
    let known = [
        fact("model", "/model"),
        fact("dataset", "/dataset_name"),
        fact("dataset fingerprint", "/dataset_fingerprint"),
        fact("hardware", "/hardware_label"),
        fact("accelerator", "/gpu_info/name"),
        fact("processor", "/system_info/cpu_brand"),
        fact("operating system", "/system_info/os_name"),
        fact("kernel", "/system_info/kernel_version"),
        fact("client", "/client"),
        fact("tokens counted by", "/tokens/source"),
        fact("graded by", "/accuracy/grader"),
        fact("sessions", "/sessions"),
        fact("ended", "/closing"),
        fact("Ergometer", "/versions/ergometer"),
        fact("Ergometer at the start", "/versions/ergometer_at_start"),
    ];
    facts.extend(known.into_iter().flatten());
    let mut settings = Vec::new();
    if let Some(config) = run.summary.at("/profiler_config") {
        flatten(config, "", 0, &mut settings);
    }
    let mut blocks = vec![Block::Facts(facts)];
    let table = devices(run);
    if !table.rows.is_empty() {
        blocks.push(Block::Table(table));
    }
    if !settings.is_empty() {
        blocks.push(Block::Text(String::from("Settings of the run, as summary.json has them:")));
        blocks.push(Block::Facts(settings));
    }
    blocks
}

/// The settings that are set, by their path.
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

/// The devices whose energy was looked at.
fn devices(run: &Run) -> Table {
    let mut table = Table::new(
        "devices",
        "Where the joules come from",
        &[
            ("device", "device"),
            ("name", "name"),
            ("scope", "scope"),
            ("provenance", "provenance"),
            ("in the sum", "summed"),
            ("gross", "gross_j"),
            ("idle before and after", "idle_w"),
        ],
    );
    for device in run.summary.at("/energy/devices").and_then(Value::as_array).into_iter().flatten() {
        let text = |name: &str| Cell::text(device[name].as_str().unwrap_or_default());
        let idle = device["idle_w"].as_array().into_iter().flatten().filter_map(Value::as_f64);
        let idle: Vec<String> = idle.map(|watts| quantity(watts, "W")).collect();
        table.rows.push(vec![
            text("device"),
            text("name"),
            text("scope"),
            text("provenance"),
            Cell::text(if device["summed"] == true { "yes" } else { "no" }),
            Cell::number(device["gross_j"]["value"].as_f64(), |joules| quantity(joules, "J")),
            if idle.is_empty() { Cell::Absent } else { Cell::text(idle.join(", ")) },
        ]);
    }
    table
}
