//! Prints the summary of a run as a table, each figure with its interval or source.

use std::fmt::Write as _;
use std::io::ErrorKind;

use ergometer::close::ClosedRun;
use ergometer_diagnostics::{Diagnostic, hint, option};
use ergometer_runs::summary::{Accuracy, DeviceSummary, SUMMARY_FILE, ServerSummary, Summary};
use ergometer_statistics::Estimate;

use super::{attribution, under_load};
use crate::arguments::SummaryFormat;
use crate::exit::Failure;
use crate::figures::{digits, significant, thousands};
use crate::report::to_json;
use crate::screen::{self, Align, Screen, Table, Tone};

pub(crate) fn print(closed: &ClosedRun, format: SummaryFormat, screen: Screen) -> Result<(), Failure> {
    let text = match format {
        SummaryFormat::Json => to_json(&closed.summary)?,
        SummaryFormat::Table => {
            let source = attribution::calibration_source(&closed.folder);
            table(&closed.summary, source.as_deref(), screen)
        }
        SummaryFormat::Csv => return Err(no_csv()),
    };
    // A closed pipe is not an error; another error is reported after the run folder is named.
    let unprinted = screen::print(&text).err().filter(|error| error.kind() != ErrorKind::BrokenPipe);
    if let Some(line) = closed.summary.load.as_deref().and_then(under_load::connections) {
        screen.detail(&line);
    }
    for warning in &closed.warnings {
        screen.warning(&warning.to_message());
    }
    let folder = closed.folder.display();
    screen.note(&format!("saved    {folder}"));
    screen.note(&format!("next     ergo report {}", shell_word(&folder.to_string())));
    screen.detail(&format!("also     datasets.load_from_disk(\"{folder}\") in Python; requests.parquet and telemetry.parquet in DuckDB or pandas"));
    match unprinted {
        None => Ok(()),
        Some(error) => Err(Failure::failed(format!("the summary cannot be printed: {error}"))
            .hint(format!("the summary is in {}", closed.folder.join(SUMMARY_FILE).display()))),
    }
}

/// Quotes a path for a shell.
pub(super) fn shell_word(path: &str) -> String {
    let is_plain = |character: char| character.is_alphanumeric() || "/._-+:@%=".contains(character);
    if !path.is_empty() && path.chars().all(is_plain) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}

/// The failure of --format csv for a single run.
pub(super) fn no_csv() -> Failure {
    Failure::usage("--format csv is for sweeps: it has a row for each point")
        .hint(hint!("print the summary of one run with ", option("format").value("json")))
}

/// One line of the table.
struct Row {
    label: &'static str,
    value: String,
    interval: String,
    comment: String,
}

fn table(summary: &Summary, calibration_source: Option<&str>, screen: Screen) -> String {
    let mut table = Table::new([Align::Left, Align::Right, Align::Left, Align::Left]);
    for row in rows(summary, calibration_source) {
        table.row(vec![
            (Tone::Plain, row.label.to_owned()),
            (Tone::Strong, row.value),
            (Tone::Plain, row.interval),
            (Tone::Faint, row.comment),
        ]);
    }
    format!("\n{}\n", table.render(screen))
}

fn rows(summary: &Summary, calibration_source: Option<&str>) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = |label, value, interval, comment| rows.push(Row { label, value, interval, comment });
    let failed: u64 = summary.outcomes.failed.values().sum();
    let mut ended = format!("in {} s", digits(summary.duration_s));
    let load = summary.load.as_deref();
    if let Some(rate) = load.and_then(|load| load.whole.requests_per_second) {
        let _ = write!(ended, ", {}/s", digits(rate));
    }
    let failures = if failed > 0 { format!("{failed} failed") } else { String::new() };
    row("queries", thousands(summary.total_queries as f64), failures, ended);
    if let Some(accuracy) = &summary.accuracy {
        let percent = accuracy.rate.value * 100.0;
        let ends = accuracy.rate.low.zip(accuracy.rate.high);
        let interval = ends.map_or_else(String::new, |(low, high)| {
            let (below, above) = (percent - low * 100.0, high * 100.0 - percent);
            // Near 0 and 100 % an interval is asymmetric.
            let is_even = (below - above).abs() < 0.2 * (below + above);
            if is_even {
                format!("± {:.1}", f64::midpoint(below, above))
            } else {
                format!("95 % CI {:.1} to {:.1}", low * 100.0, high * 100.0)
            }
        });
        row("accuracy", format!("{percent:.1} %"), interval, judged(summary, subjects(accuracy)));
    }
    let busy = load.filter(|load| under_load::is_load(load));
    if let Some((load, config)) = busy.zip(summary.profiler_config.known()) {
        under_load::rows(load, config, &mut row);
    } else {
        let e2e = summary.latency.e2e_ms.as_ref().map(|e2e| format!("; E2E latency {} ms p50", digits(e2e.p50)));
        let comments = [e2e.unwrap_or_default(), String::from("; per output token after the first")];
        let times = [("TTFT", &summary.latency.ttft_ms), ("TPOT", &summary.latency.tpot_ms)];
        for ((label, found), comment) in times.into_iter().zip(comments) {
            let Some(found) = found else { continue };
            let (value, interval) = under_load::median(found);
            row(label, value, interval, format!("{}{comment}", under_load::tail(found)));
        }
    }
    if let Some(speed) = summary.tokens.output_per_second {
        let each = summary.tokens.output.unwrap_or(0) as f64 / summary.tokens.requests.max(1) as f64;
        row("throughput", format!("{} tok/s", thousands(speed)), String::new(), format!("{each:.1} tokens/query"));
    }
    if let Some(load) = busy {
        under_load::steady_row(load, &mut row);
    }
    if let Some(server) = &summary.server {
        server_row(server, &mut row);
    }
    energy_rows(summary, calibration_source, &mut row);
    if let Some(cost) = summary.cost_usd {
        let each = cost / summary.total_queries.max(1) as f64;
        row("cost", format!("{cost:.4} USD"), String::new(), format!("{each:.2e} USD/query"));
    }
    rows
}

/// The metrics of the server. A gauge without a reading during the requests is omitted.
fn server_row(server: &ServerSummary, row: &mut impl FnMut(&'static str, String, String, String)) {
    let waiting = server.waiting.map(|waiting| {
        if waiting.max > 0.0 {
            format!("waiting {:.1} mean, {:.0} max", waiting.mean, waiting.max)
        } else {
            String::from("waiting 0")
        }
    });
    let cache = server.kv_cache_max_pct.map(|percent| {
        let decimals = usize::from(percent < 10.0);
        format!("KV cache {percent:.decimals$} % max")
    });
    let preempted = server.preemptions.filter(|&count| count > 0).map(|count| format!("{count} preemptions"));
    let (hits, queries) = (server.prefix_cache_hit_tokens, server.prefix_cache_query_tokens);
    let found = hits.zip(queries).filter(|&(_, queries)| queries > 0);
    let found = found.map(|(hits, queries)| format!("{:.0} % of prompts cached", hits as f64 / queries as f64 * 100.0));
    let rest: Vec<String> = [waiting, cache, found, preempted].into_iter().flatten().collect();
    let (running, most) = match server.running {
        Some(running) => (format!("{:.1} running, mean", running.mean), format!("{:.0} max", running.max)),
        None if rest.is_empty() => return,
        None => (String::from("-"), String::new()),
    };
    row("server", running, most, rest.join("; "));
}

fn energy_rows(
    summary: &Summary,
    calibration_source: Option<&str>,
    row: &mut impl FnMut(&'static str, String, String, String),
) {
    let energy = &summary.energy;
    let (totals, is_modelled) = match (&energy.measured, &energy.modelled) {
        (Some(measured), _) => (measured, false),
        (None, Some(modelled)) => (modelled, true),
        (None, None) => return,
    };
    let parts = energy.devices.iter().filter(|device| device.summed != is_modelled);
    let names: Vec<String> = parts.clone().map(|device| device.device.to_string()).collect();
    let source = if is_modelled { "modelled, not measured" } else { "measured" };
    let per_query = totals.gross_j_per_query;
    let interval =
        |figure: Estimate| half_width(figure).map(|half| format!("± {}", scaled(half, "J"))).unwrap_or_default();
    row(
        "energy",
        format!("{}/query", scaled(per_query.value, "J")),
        interval(per_query),
        format!("{} {source}", names.join(" + ")),
    );
    if let Some(net) = totals.net_j_per_query {
        let interval = interval(net);
        let comment = format!("net of idle ({})", idle_power(&parts.collect::<Vec<_>>()));
        row("", format!("{}/query", scaled(net.value, "J")), interval, comment);
    }
    if let Some(joules) = totals.gross_j_per_output_token {
        let net = totals.net_j_per_output_token.map(|net| format!("; net {}", scaled(net, "J"))).unwrap_or_default();
        // Token counts are exact, so the margin is that of the energy.
        let half = half_width(per_query).map(|half| half / per_query.value * joules).filter(|half| half.is_finite());
        let interval = half.map(|half| format!("± {}", scaled(half, "J"))).unwrap_or_default();
        row("", format!("{}/token", scaled(joules, "J")), interval, format!("output tokens{net}"));
    }
    attribution::rows(summary, totals, calibration_source, row);
    row("power", format!("{} W", digits(totals.mean_power_w)), String::new(), String::from("mean, gross"));
    let balance = totals.balance;
    let share = |joules: f64| format!("{:.1} %", joules / balance.meter_j * 100.0);
    row(
        "total energy",
        format!("{} J", digits(balance.meter_j)),
        String::new(),
        format!(
            "requests {} + no request in flight {} + unattributed {}{}",
            share(balance.requests_j),
            share(balance.idle_j),
            share(balance.unattributed_j),
            // The same threshold as in the figure, which rounds.
            if balance.unattributed_j / balance.meter_j >= 0.0005 { " (while a sensor gave no readings)" } else { "" }
        ),
    );
    if let Some(seconds) = energy.processor_s {
        row(
            "CPU time",
            format!("{} s", digits(seconds)),
            String::new(),
            String::from("of the model threads, for completed requests"),
        );
    }
    if let Some(intelligence) = &summary.intelligence {
        let joule = intelligence.per_joule_with_meter.unwrap_or(intelligence.per_joule);
        row(
            "correct answers per joule",
            format!("{} correct/J", significant(joule.value)),
            range(joule),
            format!(
                "correct answers / all energy of the run{}",
                intelligence.energy.map_or_else(String::new, |energy| format!(", {energy}"))
            ),
        );
        if let Some(watt) = intelligence.per_watt_with_meter {
            row(
                "accuracy per watt",
                format!("{} /W", significant(watt.value)),
                range(watt),
                String::from("accuracy / mean power"),
            );
        }
    }
}

/// `95 % CI 2.1 to 7.4`: these intervals are asymmetric.
fn range(figure: Estimate) -> String {
    let ends = figure.low.zip(figure.high);
    ends.map(|(low, high)| format!("95 % CI {} to {}", significant(low), significant(high))).unwrap_or_default()
}

/// The idle power of the devices: `7.295 W before, 7.301 W after`. A resumed run has a pair for each session.
fn idle_power(devices: &[&DeviceSummary]) -> String {
    let power = |device: &DeviceSummary| match device.idle_w.as_slice() {
        [before, after] => format!("{} W before, {} W after", digits(*before), digits(*after)),
        all => format!("{} W", all.iter().map(|&watts| digits(watts)).collect::<Vec<_>>().join(", ")),
    };
    match devices {
        [device] => power(device),
        _ => devices.iter().map(|device| format!("{} {}", device.device, power(device))).collect::<Vec<_>>().join("; "),
    }
}

fn half_width(figure: Estimate) -> Option<f64> {
    figure.low.zip(figure.high).map(|(low, high)| (high - low) / 2.0)
}

/// Formats a value with a unit prefix that keeps its digits.
pub(super) fn scaled(value: f64, unit: &str) -> String {
    let magnitude = value.abs();
    if magnitude >= 0.1 || magnitude == 0.0 {
        format!("{} {unit}", digits(value))
    } else if magnitude >= 1e-4 {
        format!("{} m{unit}", digits(value * 1e3))
    } else {
        format!("{} µ{unit}", digits(value * 1e6))
    }
}

/// The comment on accuracy, with the judge first.
fn judged(summary: &Summary, comment: String) -> String {
    match &summary.judge {
        None => comment,
        Some(judge) if comment.is_empty() => format!("judged by {}", judge.model),
        Some(judge) => format!("judged by {}; {comment}", judge.model),
    }
}

/// The best and the worst subject.
fn subjects(accuracy: &Accuracy) -> String {
    let named = accuracy.by_subject.iter().filter(|(name, _)| !name.is_empty());
    let rates: Vec<(&str, f64)> = named.map(|(name, subject)| (name.as_str(), subject.rate.value)).collect();
    let best = rates.iter().max_by(|one, other| one.1.total_cmp(&other.1));
    let worst = rates.iter().min_by(|one, other| one.1.total_cmp(&other.1));
    match (best, worst) {
        (Some(best), Some(worst)) if best.1 > worst.1 => {
            format!("best subject: {} {:.0} %; worst: {} {:.0} %", best.0, best.1 * 100.0, worst.0, worst.1 * 100.0)
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use ergometer_runs::summary::GaugeSummary;

    use super::*;

    fn shown(server: &ServerSummary) -> Vec<[String; 4]> {
        let mut rows = Vec::new();
        server_row(server, &mut |label, value, interval, comment| {
            rows.push([label.to_owned(), value, interval, comment]);
        });
        rows
    }

    #[test]
    fn the_server_has_one_line_or_none() {
        let gauge = |mean, max| Some(GaugeSummary { mean, max, readings: 9 });
        let mut server = ServerSummary {
            software: String::from("vllm"),
            metrics_url: String::from("http://h/metrics"),
            running: gauge(3.94, 16.0),
            waiting: gauge(0.0, 0.0),
            kv_cache_max_pct: Some(12.2),
            prompt_tokens: Some(10),
            generation_tokens: Some(10),
            preemptions: Some(0),
            prefix_cache_query_tokens: None,
            prefix_cache_hit_tokens: Some(3),
        };
        assert_eq!(shown(&server), [["server", "3.9 running, mean", "16 max", "waiting 0; KV cache 12 % max"]]);
        (server.waiting, server.kv_cache_max_pct) = (gauge(0.25, 2.0), Some(0.04));
        (server.preemptions, server.prefix_cache_query_tokens) = (Some(4), Some(12));
        let rest = "waiting 0.2 mean, 2 max; KV cache 0.0 % max; 25 % of prompts cached; 4 preemptions";
        assert_eq!(shown(&server)[0][3], rest);
        (server.running, server.waiting, server.kv_cache_max_pct) = (None, None, None);
        (server.preemptions, server.prefix_cache_query_tokens) = (None, None);
        assert!(shown(&server).is_empty(), "a short run has no reading between its requests");
    }
}
