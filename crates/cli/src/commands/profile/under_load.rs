//! The rows of a summary for runs under load: several requests in flight, or an open loop.

use ergometer_runs::config::{LimitedMetric, RunConfig, Schedule, Slo};
use ergometer_runs::summary::LoadSummary;
use ergometer_statistics::Distribution;

use super::show::scaled;
use crate::figures::{digits, thousands};

/// Whether a run was under load, that is, not one request after the other.
pub(super) fn is_load(load: &LoadSummary) -> bool {
    load.concurrency.is_none_or(|concurrency| concurrency > 1)
}

/// `120.5 p99`, or `98.1 p95` with too few values for a p99.
pub(super) fn tail(found: &Distribution) -> String {
    found.p99.map_or_else(|| format!("{} p95", digits(found.p95)), |p99| format!("{} p99", digits(p99)))
}

/// The median, and its interval if values are independent.
pub(super) fn median(found: &Distribution) -> (String, String) {
    let interval = found.p50_interval.map(|ends| format!("95 % CI {} to {}", digits(ends.low), digits(ends.high)));
    (format!("{} ms p50", digits(found.p50)), interval.unwrap_or_default())
}

/// Load, goodput and latency.
pub(super) fn rows(load: &LoadSummary, config: &RunConfig, row: &mut impl FnMut(&'static str, String, String, String)) {
    let figures = &load.whole;
    let lag = figures.schedule_lag_ms.as_ref();
    let lag = lag.map_or_else(String::new, |lag| {
        format!(", schedule lag (how late the client sent a request) {} ms p50, {}", digits(lag.p50), tail(lag))
    });
    let sent = || figures.sent_per_second.map(|rate| format!("{}/s sent", digits(rate))).unwrap_or_default();
    match config.schedule {
        Schedule::Concurrency { concurrency } => {
            let mean = figures.in_flight.map(|found| format!("{} on average", digits(found.mean))).unwrap_or_default();
            row("load", format!("{} in flight", thousands(f64::from(concurrency))), String::from("closed loop"), mean);
        }
        Schedule::Rate { rate, arrivals } => {
            row("load", format!("{}/s target", digits(rate)), sent(), format!("{arrivals}{lag}"));
        }
        Schedule::Replay { speed } => {
            let asked = load.rate_asked.map_or_else(|| String::from("-"), |rate| format!("{}/s target", digits(rate)));
            let speed = if speed == 1.0 { String::new() } else { format!(" at {speed} x") };
            row("load", asked, sent(), format!("replay{speed}{lag}"));
        }
    }
    if let Some(goodput) = figures.goodput {
        let share = format!("{:.0} %", goodput.share * 100.0);
        let limits = format!("within {}", limits(config.slo));
        row("goodput", format!("{}/s", digits(goodput.requests_per_second)), share, limits);
    }
    let mut times = |label, found: &Option<Distribution>, comment| {
        if let Some(found) = found {
            row(label, format!("{} ms p50", digits(found.p50)), tail(found), comment);
        }
    };
    let scheduled = figures.ttft_scheduled_ms.filter(|_| load.concurrency.is_none());
    let scheduled =
        scheduled.map(|ttft| format!("TTFT from scheduled time {} ms p50, {}", digits(ttft.p50), tail(&ttft)));
    times("TTFT", &figures.ttft_ms, scheduled.unwrap_or_default());
    times("TTFO", &figures.ttfo_ms, String::from("to the first output that is not reasoning"));
    times("ITL", &figures.itl_ms, String::from("between token events"));
    times("TPOT", &figures.tpot_ms, String::from("per output token after the first"));
    times("E2E latency", &figures.e2e_ms, String::new());
}

/// The steady state, or why there is none.
pub(super) fn steady_row(load: &LoadSummary, row: &mut impl FnMut(&'static str, String, String, String)) {
    let Some(steady) = &load.steady_state else {
        let reason = load.steady_state_reason.clone().unwrap_or_default();
        row("steady state", String::from("-"), String::new(), reason);
        return;
    };
    let figures = &steady.figures;
    let speed = figures.output_tokens_per_second.map(|speed| format!("{} tok/s", thousands(speed)));
    let rate = figures.requests_per_second.map(|rate| format!("{}/s completed", digits(rate)));
    let joules = steady.energy.and_then(|energy| {
        Some(format!("{}/output token {}", scaled(energy.gross_j_per_output_token?, "J"), energy.energy))
    });
    let rest: Vec<String> = rate.into_iter().chain(joules).collect();
    row("steady state", format!("{} s long", digits(figures.duration_s)), speed.unwrap_or_default(), rest.join(", "));
}

/// The connections of the run, for --verbose.
pub(super) fn connections(load: &LoadSummary) -> Option<String> {
    let found = load.connections?;
    let [opened, reused, open] = [found.opened, found.reused, found.most_open].map(|count| thousands(count as f64));
    let protocol = found.protocol.name();
    Some(format!(
        "{opened} connections ({protocol}), at most {open} at the same time; {reused} requests used an open one"
    ))
}

/// `ttft ≤ 200 ms, tpot ≤ 50 ms`.
fn limits(slo: Slo) -> String {
    let texts = LimitedMetric::ALL.into_iter().filter_map(|metric| {
        let name = match metric {
            LimitedMetric::TtftScheduled => "ttft from the scheduled time",
            metric => metric.name(),
        };
        Some((name, slo.limit(metric)? * 1e3))
    });
    // Rounds floating-point noise: 200 ms, 1500 ms, 0.5 ms.
    let texts = texts.map(|(name, millis)| format!("{name} ≤ {} ms", (millis * 1e6).round() / 1e6));
    texts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ergometer_clients::{Connections, Protocol};
    use ergometer_runs::config::Axis;
    use ergometer_runs::summary::{
        ClientSummary, EnergySource, Goodput, InFlightSummary, LoadFigures, SteadyEnergy, SteadyState,
    };
    use ergometer_statistics::Estimate;
    use serde_json::{Value, json};

    use super::*;

    fn config(schedule: &Value) -> RunConfig {
        let config = json!({
            "dataset": {"id": "builtin"}, "client": {"id": "openai", "model": "m"}, "request": {"seed": 0},
            "schedule": schedule, "warmup": 0, "idle_s": 0.0, "devices": [], "server_is_local": false,
            "model_cpu": true, "prices": {}, "slo": {"ttft_s": 0.2, "tpot_s": 0.05},
        });
        serde_json::from_value(config).unwrap()
    }

    /// Values from `low` in steps of `step`.
    fn times(low: f64, step: f64) -> Option<Distribution> {
        Distribution::from_values(&(0..=200_u32).map(|place| low + step * f64::from(place)).collect::<Vec<_>>())
    }

    fn whole() -> LoadFigures {
        LoadFigures {
            duration_s: 60.0,
            requests_per_second: Some(44.3),
            output_tokens_per_second: Some(5671.0),
            sent_per_second: Some(11.94),
            completed: 2658,
            failed: BTreeMap::new(),
            goodput: Some(Goodput { requests_per_second: 41.2, share: 0.93, good: 2472 }),
            in_flight: Some(InFlightSummary { mean: 63.2, max: 64 }),
            ttft_ms: times(40.0, 0.5),
            ttfo_ms: None,
            ttft_scheduled_ms: times(41.0, 0.5),
            itl_ms: times(8.0, 0.1),
            tpot_ms: times(9.0, 0.1),
            e2e_ms: times(1200.0, 2.0),
            schedule_lag_ms: times(0.05, 0.001),
        }
    }

    fn load(config: &RunConfig) -> LoadSummary {
        let energy = SteadyEnergy {
            gross_j: Estimate { value: 4e4, low: None, high: None },
            gross_j_per_output_token: Some(0.12),
            mean_power_w: 700.0,
            energy: EnergySource::Measured,
        };
        let (requests_per_second, output_tokens_per_second) = (Some(45.1), Some(5790.0));
        LoadSummary {
            mode: Axis::from_schedule(&config.schedule),
            concurrency: config.schedule.concurrency(),
            rate: config.schedule.rate(),
            rate_asked: Some(12.03),
            client_limited: false,
            client: ClientSummary {
                reasons: Vec::new(),
                wake_lag_ms: None,
                processor_cores: None,
                cores: None,
                machine_utilization: None,
                descriptor_limit: None,
                most_in_flight: 64,
            },
            connections: Some(Connections { protocol: Protocol::Http1, opened: 66, reused: 2592, most_open: 64 }),
            requests_on_new_connections: Some(66),
            ttft_new_connection_ms: None,
            steady_state: Some(SteadyState {
                mode: Axis::Concurrency,
                concurrency: None,
                rate: None,
                client_limited: false,
                windows_ns: vec![Some((0, 57_100_000_000))],
                figures: LoadFigures { duration_s: 57.1, requests_per_second, output_tokens_per_second, ..whole() },
                output_tokens: Some(330_609.0),
                energy: Some(energy),
            }),
            steady_state_reason: None,
            whole: whole(),
        }
    }

    fn shown(load: &LoadSummary, config: &RunConfig) -> String {
        let mut lines = Vec::new();
        let mut row = |label: &'static str, value: String, interval: String, comment: String| {
            lines.push(format!("{label:13} {value:>16}  {interval:14} {comment}").trim_end().to_owned());
        };
        rows(load, config, &mut row);
        steady_row(load, &mut row);
        lines.join("\n")
    }

    #[test]
    fn load_rows_match_the_snapshot() {
        let closed = config(&json!({"mode": "concurrency", "concurrency": 64}));
        let open = config(&json!({"mode": "rate", "rate": 12.0, "arrivals": "poisson"}));
        let mut brief = load(&open);
        (brief.steady_state, brief.whole.goodput) = (None, None);
        brief.steady_state_reason = Some(String::from("no request completed"));
        let replay = config(&json!({"mode": "replay", "speed": 2.0}));
        let texts = [shown(&load(&closed), &closed), shown(&brief, &open), shown(&load(&replay), &replay)];
        insta::assert_snapshot!(texts.join("\n\n"));
        assert_eq!(
            connections(&load(&closed)).unwrap(),
            "66 connections (http/1.1), at most 64 at the same time; 2,592 requests used an open one"
        );
        let one = config(&json!({"mode": "concurrency", "concurrency": 1}));
        assert!(is_load(&load(&open)) && is_load(&load(&closed)) && !is_load(&load(&one)));
    }
}
