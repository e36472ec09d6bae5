//! The headline of a report: title, one-sentence verdict and main figures.

use ergometer_charts::{Block, Cell, Figure, Table, Tone};
use ergometer_units::format::{digits, percent, quantity, significant, thousands};

use super::AnalyzedRun;
use ergometer_runs::EnergySource;
use ergometer_runs::saved::{Run, SavedSweep};
use ergometer_statistics::Estimate;

/// The title and subtitle of the page.
pub(super) fn title(analyzed: &[AnalyzedRun], sweeps: &[SavedSweep]) -> (String, String) {
    if let ([sweep], true) = (sweeps, analyzed.len() > 1) {
        return (
            format!("{} over {}", sweep.sweep.identity.model, sweep.sweep.axis),
            format!("{} · {} points", sweep.sweep.identity.hardware_label, sweep.sweep.points.len()),
        );
    }
    let [one] = analyzed else {
        let labels: Vec<&str> = analyzed.iter().map(|one| one.label).collect();
        return (format!("{} runs compared", analyzed.len()), labels.join(" · "));
    };
    let summary = &one.run.summary;
    let known = |text: &str| if text.is_empty() { String::from("?") } else { text.to_owned() };
    let parts = [&summary.dataset_name, &summary.hardware_label, &summary.client].map(|text| known(text));
    (known(&summary.model), parts.join(" · "))
}

/// The verdict on a run in one sentence.
pub(super) fn verdict(run: &Run) -> Block {
    let summary = &run.summary;
    let completed = run.completed().count() as f64;
    let failed = failed(run);
    if completed == 0.0 {
        let text = format!("All requests failed ({}).", thousands(failed));
        return Block::Verdict { text, tone: Tone::Bad };
    }
    let accuracy = summary.accuracy.as_ref().map(|accuracy| format!("{} correct", percent(accuracy.rate.value)));
    let energy = per_answer(run).map(|joules| {
        let source = if run.energy == Some(EnergySource::Modelled) { " (modelled)" } else { "" };
        format!("{} per answer{source}", quantity(joules, "J"))
    });
    let speed = summary.tokens.output_per_second.map(|speed| format!("{} output tokens per second", thousands(speed)));
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
    if !summary.complete {
        but(String::from("The run is incomplete."));
    }
    if summary.load.as_ref().is_some_and(|load| load.client_limited) {
        but(String::from("The client limited the load, so the results may not reflect the server."));
    }
    if run.energy == Some(EnergySource::Modelled) {
        but(String::from("The energy is modelled, not measured."));
    }
    Block::Verdict { text, tone }
}

fn failed(run: &Run) -> f64 {
    run.summary.failed() as f64
}

/// Gross joules of all queries, including failed ones, per answered query.
fn per_answer(run: &Run) -> Option<f64> {
    let joules: f64 = run.queries.iter().filter_map(|query| query.energy).map(|energy| energy.gross).sum();
    let answers = run.completed().filter(|query| query.energy.is_some()).count();
    (answers > 0).then(|| joules / answers as f64)
}

/// The main figures of one run.
pub(super) fn figures(run: &Run) -> Vec<Figure> {
    let source = run.energy.map_or("", EnergySource::name);
    let mut figures = Vec::new();
    let mut add = |label: &str, value: Option<(String, String)>, comment: &str| {
        let Some((value, interval)) = value else { return };
        figures.push(Figure { label: label.to_owned(), value, interval, comment: comment.to_owned() });
    };
    let with_interval = |found: Option<Estimate>, show: &dyn Fn(f64) -> String| {
        let found = found?;
        let interval = found.ends().map_or(String::new(), |(low, high)| format!("{} to {}", show(low), show(high)));
        Some((show(found.value), interval))
    };
    let (summary, totals) = (&run.summary, run.energy_totals());
    let joules = |value: f64| quantity(value, "J");
    let counted = if failed(run) > 0.0 { ", including failed queries" } else { "" };
    add(
        "accuracy",
        with_interval(summary.accuracy.as_ref().map(|accuracy| accuracy.rate), &percent),
        "correct answers, Wilson's interval",
    );
    add(
        "energy per query",
        with_interval(totals.map(|totals| totals.gross_j_per_query), &joules),
        &format!("gross, {source}{counted}"),
    );
    if failed(run) > 0.0 {
        let value = per_answer(run).map(|value| (joules(value), String::new()));
        add("energy per answer", value, "gross joules of all queries / answered queries");
    }
    add(
        "net energy per query",
        with_interval(totals.and_then(|totals| totals.net_j_per_query), &joules),
        "above idle power",
    );
    let per_token = totals.and_then(|totals| totals.gross_j_per_output_token).map(Estimate::exact);
    add("energy per output token", with_interval(per_token, &joules), &format!("gross, {source}"));
    let intelligence = summary.intelligence.as_ref();
    let per_joule = intelligence.map(|found| found.per_joule_with_meter.unwrap_or(found.per_joule));
    add("correct answers per joule", with_interval(per_joule, &significant), "correct answers / all energy of the run");
    let per_watt = intelligence.and_then(|found| found.per_watt_with_meter.or(found.per_watt));
    add("accuracy per watt", with_interval(per_watt, &significant), "accuracy / mean power");
    let latency = &summary.latency;
    for (label, found) in [("TTFT", latency.ttft_ms), ("TPOT", latency.tpot_ms), ("E2E latency", latency.e2e_ms)] {
        let Some(found) = found else { continue };
        let seconds = |time_ms: f64| quantity(time_ms / 1e3, "s");
        let tail = found.p99.map(|time_ms| format!("p99 {}", seconds(time_ms)));
        let tail = tail.unwrap_or_else(|| format!("p95 {}", seconds(found.p95)));
        add(label, Some((seconds(found.p50), tail)), "median");
    }
    let speed = summary.tokens.output_per_second.map(|speed| (format!("{} tok/s", digits(speed)), String::new()));
    add("throughput", speed, "output tokens / duration of the run");
    let power = totals.map(|totals| (quantity(totals.mean_power_w, "W"), String::new()));
    add("mean power", power, source);
    let queries = run.queries.len() as f64;
    let seconds = summary.duration_s;
    let time = if seconds > 0.0 { format!("in {}", quantity(seconds, "s")) } else { String::new() };
    add("queries", Some((thousands(queries), time)), &format!("{} failed", thousands(failed(run))));
    figures
}

/// The main figures of several runs, one column per run.
pub(super) fn side_by_side(analyzed: &[AnalyzedRun]) -> Table {
    let all: Vec<Vec<Figure>> = analyzed.iter().map(|one| figures(one.run)).collect();
    let mut labels: Vec<&str> = Vec::new();
    for figure in all.iter().flatten() {
        if !labels.contains(&figure.label.as_str()) {
            labels.push(&figure.label);
        }
    }
    let heads: Vec<(&str, &str)> =
        std::iter::once(("", "figure")).chain(analyzed.iter().map(|one| (one.label, one.label))).collect();
    let mut table = Table::new("side_by_side", "All runs", &heads);
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
