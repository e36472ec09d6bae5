//! The numbers that matter, and the sentence they come to.

use ergometer_charts::{Block, Cell, Figure, Table, Tone};
use ergometer_units::format::{digits, percent, quantity, significant, thousands};
use serde_json::Value;

use super::Studied;
use crate::saved::{EnergySource, Estimate, Run, Sweep};

/// The title of the page, and what stands below it.
pub(super) fn title(studied: &[Studied], sweeps: &[Sweep]) -> (String, String) {
    if let ([sweep], true) = (sweeps, studied.len() > 1) {
        return (
            format!("{} over {}", sweep.model, sweep.axis),
            format!("{} · {} points", sweep.hardware, sweep.points.len()),
        );
    }
    let [study] = studied else {
        let labels: Vec<&str> = studied.iter().map(|study| study.label).collect();
        return (format!("{} runs compared", studied.len()), labels.join(" · "));
    };
    let text = |path| study.run.summary.text(path).unwrap_or("?");
    let subtitle = [text("/dataset_name"), text("/hardware_label"), text("/client")].join(" · ");
    (text("/model").to_owned(), subtitle)
}

/// What a run comes to, in a sentence.
pub(super) fn verdict(run: &Run) -> Block {
    let summary = &run.summary;
    let completed = summary.number("/outcomes/completed").unwrap_or(run.completed().count() as f64);
    let failed = failed(run);
    if completed == 0.0 {
        let text = format!("No request was answered: {} failed.", thousands(failed));
        return Block::Verdict { text, tone: Tone::Bad };
    }
    let accuracy = summary.number("/accuracy/rate/value").map(|rate| format!("{} right", percent(rate)));
    let energy = per_answer(run).map(|joules| {
        let source = if run.energy == Some(EnergySource::Modelled) { ", modelled" } else { "" };
        format!("{} per answer{source}", quantity(joules, "J"))
    });
    let speed =
        summary.number("/tokens/output_per_second").map(|speed| format!("{} tokens per second", thousands(speed)));
    let parts: Vec<String> = [accuracy, energy, speed].into_iter().flatten().collect();
    let mut text =
        if parts.is_empty() { format!("{} queries answered", thousands(completed)) } else { parts.join(", ") };
    text.push('.');
    let mut tone = Tone::Good;
    let mut but = |words: String| {
        tone = Tone::Warning;
        text.push(' ');
        text.push_str(&words);
    };
    if failed > 0.0 {
        but(format!("{} of {} requests failed.", thousands(failed), thousands(completed + failed)));
    }
    if summary.at("/complete").and_then(Value::as_bool) == Some(false) {
        but(String::from("The run is not whole."));
    }
    if summary.at("/load/client_limited").and_then(Value::as_bool) == Some(true) {
        but(String::from("The client was the limit, so figures may be its own and not the server's."));
    }
    if run.energy == Some(EnergySource::Modelled) {
        but(String::from("No sensor measured the energy."));
    }
    Block::Verdict { text, tone }
}

fn failed(run: &Run) -> f64 {
    let kinds = run.summary.at("/outcomes/failed").and_then(Value::as_object);
    kinds.map_or(0.0, |kinds| kinds.values().filter_map(Value::as_f64).sum::<f64>() + 0.0)
}

fn energy(run: &Run, field: &str) -> Option<Estimate> {
    run.summary.estimate(&run.energy_path(field)?)
}

/// Gross joules of all queries over those that were answered: what failed is part of the price.
fn per_answer(run: &Run) -> Option<f64> {
    let joules: f64 = run.queries.iter().filter_map(|query| query.energy).map(|energy| energy.gross).sum();
    let answers = run.completed().filter(|query| query.energy.is_some()).count();
    (answers > 0).then(|| joules / answers as f64)
}

/// The numbers of one run.
pub(super) fn figures(run: &Run) -> Vec<Figure> {
    let source = run.energy.map_or("", EnergySource::name);
    let mut figures = Vec::new();
    let mut add = |label: &str, value: Option<(String, String)>, comment: &str| {
        let Some((value, interval)) = value else { return };
        figures.push(Figure { label: label.to_owned(), value, interval, comment: comment.to_owned() });
    };
    let with_interval = |found: Option<Estimate>, show: &dyn Fn(f64) -> String| {
        let found = found?;
        let interval = found.interval.map_or(String::new(), |(low, high)| format!("{} to {}", show(low), show(high)));
        Some((show(found.value), interval))
    };
    let summary = &run.summary;
    let joules = |value: f64| quantity(value, "J");
    let counted = if failed(run) > 0.0 { "; failed queries count" } else { "" };
    add("accuracy", with_interval(summary.estimate("/accuracy/rate"), &percent), "right answers, Wilson's interval");
    add(
        "energy per query",
        with_interval(energy(run, "gross_j_per_query"), &joules),
        &format!("gross, {source}{counted}"),
    );
    if failed(run) > 0.0 {
        let value = per_answer(run).map(|value| (joules(value), String::new()));
        add("energy per answer", value, "gross joules of all queries, over those answered");
    }
    add("net of idle", with_interval(energy(run, "net_j_per_query"), &joules), "per query");
    let per_token = energy(run, "gross_j_per_output_token");
    add("energy per token", with_interval(per_token, &joules), &format!("gross, output tokens, {source}"));
    let per_joule =
        summary.estimate("/intelligence/per_joule_with_meter").or(summary.estimate("/intelligence/per_joule"));
    add("intelligence per joule", with_interval(per_joule, &significant), "right answers per gross joule");
    let per_watt = summary.estimate("/intelligence/per_watt_with_meter").or(summary.estimate("/intelligence/per_watt"));
    add("intelligence per watt", with_interval(per_watt, &significant), "accuracy over mean power");
    for (label, path) in [("time to first token", "ttft_ms"), ("time per token", "tpot_ms"), ("whole answer", "e2e_ms")]
    {
        let at = |part: &str| summary.number(&format!("/latency/{path}/{part}"));
        let seconds = |time_ms: f64| quantity(time_ms / 1e3, "s");
        let tail = at("p99").map(|time_ms| format!("p99 {}", seconds(time_ms)));
        let tail = tail.or(at("p95").map(|time_ms| format!("p95 {}", seconds(time_ms)))).unwrap_or_default();
        add(label, at("p50").map(|time_ms| (seconds(time_ms), tail)), "median");
    }
    let speed =
        summary.number("/tokens/output_per_second").map(|speed| (format!("{} tok/s", digits(speed)), String::new()));
    add("speed", speed, "output tokens over the run");
    let power = energy(run, "mean_power_w").map(|found| (quantity(found.value, "W"), String::new()));
    add("mean power", power, source);
    let queries = summary.number("/total_queries").unwrap_or(run.queries.len() as f64);
    let time = summary.number("/duration_s").map_or(String::new(), |seconds| format!("in {}", quantity(seconds, "s")));
    add("queries", Some((thousands(queries), time)), &format!("{} failed", thousands(failed(run))));
    figures
}

/// The numbers of several runs, a column each.
pub(super) fn side_by_side(studied: &[Studied]) -> Table {
    let all: Vec<Vec<Figure>> = studied.iter().map(|study| figures(study.run)).collect();
    let mut labels: Vec<&str> = Vec::new();
    for figure in all.iter().flatten() {
        if !labels.contains(&figure.label.as_str()) {
            labels.push(&figure.label);
        }
    }
    let heads: Vec<(&str, &str)> =
        std::iter::once(("", "figure")).chain(studied.iter().map(|study| (study.label, study.label))).collect();
    let mut table = Table::new("side_by_side", "The runs side by side", &heads);
    for label in labels {
        let mut row = vec![Cell::text(label)];
        row.extend(all.iter().map(|figures| {
            let found = figures.iter().find(|figure| figure.label == label);
            found.map_or(Cell::Absent, |figure| {
                let interval =
                    if figure.interval.is_empty() { String::new() } else { format!(" ({})", figure.interval) };
                Cell::text(format!("{}{interval}", figure.value))
            })
        }));
        table.rows.push(row);
    }
    table
}
