//! Compares the load of the whole run with its steady state, from `summary.json`, and warns if the client limited the
//! load.

use ergometer_charts::{Cell, Table};
use ergometer_diagnostics::{Message, command, hint};
use ergometer_units::format;
use serde_json::{Value, json};

use super::super::Findings;
use super::super::entries;
use ergometer_runs::metrics::{Metric, named};
use ergometer_runs::saved::Run;
use ergometer_runs::summary::LoadFigures;

/// A value of the whole run or its steady state.
struct Figure {
    /// The label in tables.
    head: &'static str,
    /// The name in JSON.
    name: &'static str,
    unit: &'static str,
    value: fn(&LoadFigures) -> Option<f64>,
}

const fn figure(
    head: &'static str,
    name: &'static str,
    unit: &'static str,
    value: fn(&LoadFigures) -> Option<f64>,
) -> Figure {
    Figure { head, name, unit, value }
}

/// A figure with the label and the unit of a metric.
const fn metric(metric: &'static str, name: &'static str, value: fn(&LoadFigures) -> Option<f64>) -> Figure {
    let metric = named(metric);
    figure(metric.label, name, metric.unit.name(), value)
}

/// Converts milliseconds to seconds.
fn seconds(time_ms: Option<f64>) -> Option<f64> {
    time_ms.map(|time_ms| time_ms * 1e-3)
}

const FIGURES: [Figure; 16] = [
    metric("duration", "duration_s", |load| Some(load.duration_s)),
    metric("completed", "completed", |load| Some(load.completed as f64)),
    figure("requests per second", "requests_per_second", "/s", |load| load.requests_per_second),
    figure("output tokens per second", "output_tokens_per_second", "/s", |load| load.output_tokens_per_second),
    figure("in flight, mean", "in_flight/mean", "", |load| Some(load.in_flight?.mean)),
    metric("goodput", "goodput/requests_per_second", |load| Some(load.goodput?.requests_per_second)),
    metric("ttft_p50", "ttft_ms/p50", |load| seconds(Some(load.ttft_ms?.p50))),
    metric("ttft_p99", "ttft_ms/p99", |load| seconds(load.ttft_ms?.p99)),
    figure("TTFT from scheduled time p99", "ttft_scheduled_ms/p99", "s", |load| seconds(load.ttft_scheduled_ms?.p99)),
    metric("itl_p50", "itl_ms/p50", |load| seconds(Some(load.itl_ms?.p50))),
    metric("itl_p99", "itl_ms/p99", |load| seconds(load.itl_ms?.p99)),
    metric("tpot_p50", "tpot_ms/p50", |load| seconds(Some(load.tpot_ms?.p50))),
    metric("tpot_p99", "tpot_ms/p99", |load| seconds(load.tpot_ms?.p99)),
    metric("e2e_p50", "e2e_ms/p50", |load| seconds(Some(load.e2e_ms?.p50))),
    metric("e2e_p99", "e2e_ms/p99", |load| seconds(load.e2e_ms?.p99)),
    figure("schedule lag p99", "schedule_lag_ms/p99", "s", |load| seconds(load.schedule_lag_ms?.p99)),
];

const MEAN_POWER: &Metric = named("mean_power_w");

/// Adds the load to the findings.
pub(super) fn fill(run: &Run, findings: &mut Findings) {
    let Some(load) = run.summary.load.as_deref() else {
        findings.data.insert(String::from("load"), Value::Null);
        findings.warnings.push(
            Message::new("summary.json has no load section because an earlier version wrote it").with_hint(hint!(
                "run ",
                command("finalize"),
                " on the run folder to add it, if the folder still has journal/"
            )),
        );
        return;
    };
    let reason = load.steady_state_reason.as_deref();
    let reasons = &load.client.reasons;
    if load.client_limited {
        let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
        findings.warnings.push(Message::new(format!(
            "the client limited the load ({}), so the results may not reflect the server",
            reasons.join("; ")
        )));
    }
    let steady = load.steady_state.as_ref();
    let has_steady = steady.is_some();
    if !has_steady {
        let why = reason.unwrap_or("the summary gives no reason");
        findings.warnings.push(Message::new(format!("the run has no steady state: {why}")));
    }
    let mut table = Table::new(
        "load",
        "Load of the whole run and of its steady state",
        &[("figure", "figure"), ("whole run", "whole"), ("steady state", "steady")],
    );
    let mut figures = Vec::new();
    let mut add = |head: &str, name: &str, unit: &str, [whole, steady]: [Option<f64>; 2]| {
        if whole.is_some() || steady.is_some() {
            table.rows.push(vec![Cell::text(head), cell(whole, unit), cell(steady, unit)]);
            let (whole, steady) = (entries::number(whole), entries::number(steady));
            figures.push(json!({"figure": name, "unit": unit, "whole": whole, "steady": steady}));
        }
    };
    for Figure { head, name, unit, value } in FIGURES {
        add(head, name, unit, [value(&load.whole), steady.and_then(|steady| value(&steady.figures))]);
    }
    let (whole, steady) = (run.energy_totals(), steady.and_then(|steady| steady.energy));
    let per_token = [
        whole.and_then(|totals| totals.gross_j_per_output_token),
        steady.and_then(|energy| energy.gross_j_per_output_token),
    ];
    add("energy per output token", "energy/gross_j_per_output_token", "J", per_token);
    let power = [whole.map(|totals| totals.mean_power_w), steady.map(|energy| energy.mean_power_w)];
    add(MEAN_POWER.label, "energy/mean_power_w", MEAN_POWER.unit.name(), power);
    if has_steady {
        table.notes.push(String::from(
            "In the column `steady state`, `completed` is the number of requests that ended in the steady state. For \
             `requests per second`, a request that was only partly inside counts as a fraction, so the value is not \
             completed / duration. Only tokens that arrived in the steady state count. Latencies and goodput cover the \
             requests sent in it.",
        ));
    }
    if per_token.iter().all(Option::is_some) {
        table.notes.push(String::from(
            "Energy per output token: for the whole run, only the energy of its requests; for the steady state, all \
             energy of the devices, including time without requests.",
        ));
    }
    if let Some(why) = reason.filter(|_| !has_steady) {
        table.notes.push(format!("No steady state: {}.", super::super::cell::one_line(why)));
    }
    findings.tables.push(table);
    let data = json!({"figures": figures, "steady_state_reason": reason, "client_limited": load.client_limited,
        "client_limited_by": reasons});
    findings.data.insert(String::from("load"), data);
    findings.summary.insert(String::from("client_limited"), json!(load.client_limited));
    findings.summary.insert(String::from("has_steady_state"), json!(has_steady));
}

fn cell(value: Option<f64>, unit: &str) -> Cell {
    Cell::number(value, |value| match unit {
        "" => format::thousands(value),
        "/s" => format!("{}/s", format::digits(value)),
        _ => format::quantity(value, unit),
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::example;
    use super::*;

    fn found(summary: Value) -> Findings {
        let mut findings = Findings::default();
        fill(&example::with_summary(Vec::new(), &[], summary), &mut findings);
        findings
    }

    #[test]
    fn the_whole_run_and_its_steady_state_are_compared() {
        let steady = json!({"ttft_ms": {"p50": 8.0}, "energy": {"mean_power_w": 300.0}});
        let found =
            found(json!({"load": {"ttft_ms": {"p50": 9.0, "p99": null}, "completed": 7, "client_limited": false,
            "client": {"reasons": []}, "steady_state": steady}}));
        let rows: Vec<Vec<String>> =
            found.tables[0].rows.iter().map(|row| row.iter().map(Cell::shown).collect()).collect();
        assert_eq!(
            rows,
            [
                ["duration", "1.000 s", "1.000 s"],
                ["completed", "7", "0"],
                ["TTFT p50", "9.000 ms", "8.000 ms"],
                ["mean power", "-", "300.0 W"]
            ]
        );
        assert_eq!((found.warnings.len(), &found.summary["client_limited"]), (0, &json!(false)));
        let [note] = &found.tables[0].notes[..] else { panic!("{:?}", found.tables[0].notes) };
        assert!(note.contains("is not completed / duration"), "{note}");
    }

    #[test]
    fn a_long_reason_is_not_cut() {
        let reason = "requests arrived for less time than the median E2E latency, so the load was never steady";
        let found = found(json!({"load": {"completed": 7, "client_limited": false, "client": {"reasons": []},
            "steady_state": null, "steady_state_reason": reason}}));
        assert_eq!(found.tables[0].notes, [format!("No steady state: {reason}.")]);
    }

    #[test]
    fn a_limited_client_and_a_missing_steady_state_give_warnings() {
        let found = found(json!({"load": {"client_limited": true, "client": {"reasons": ["cpu", "schedule"]},
            "steady_state": null, "steady_state_reason": "no request completed"}}));
        assert!(
            found.warnings[0].text.contains("(its CPU was saturated; requests were sent late)"),
            "{:?}",
            found.warnings
        );
        assert!(found.warnings[1].text.ends_with("no request completed"));
        assert_eq!(found.tables[0].notes, ["No steady state: no request completed."]);
        assert_eq!(super::tests::found(json!({})).warnings.len(), 1, "an earlier version");
    }
}
