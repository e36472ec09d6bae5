//! The load of the whole run beside that of its steady state, as `summary.json` has both, and whether the client was the
//! limit.

use ergometer_charts::{Cell, Table};
use ergometer_units::format;
use serde_json::{Value, json};

use super::super::Findings;
use super::super::entries;
use crate::saved::Run;

/// A figure: what people read, its path below `load` and below `steady_state`, its unit, and what makes it one of it.
type Figure = (&'static str, &'static str, &'static str, f64);

const FIGURES: [Figure; 18] = [
    ("duration", "duration_s", "s", 1.0),
    ("completed", "completed", "", 1.0),
    ("requests a second", "requests_per_second", "/s", 1.0),
    ("output tokens a second", "output_tokens_per_second", "/s", 1.0),
    ("in flight, mean", "in_flight/mean", "", 1.0),
    ("goodput", "goodput/requests_per_second", "/s", 1.0),
    ("TTFT p50", "ttft_ms/p50", "s", 1e-3),
    ("TTFT p99", "ttft_ms/p99", "s", 1e-3),
    ("TTFT from when due p99", "ttft_scheduled_ms/p99", "s", 1e-3),
    ("ITL p50", "itl_ms/p50", "s", 1e-3),
    ("ITL p99", "itl_ms/p99", "s", 1e-3),
    ("TPOT p50", "tpot_ms/p50", "s", 1e-3),
    ("TPOT p99", "tpot_ms/p99", "s", 1e-3),
    ("E2E p50", "e2e_ms/p50", "s", 1e-3),
    ("E2E p99", "e2e_ms/p99", "s", 1e-3),
    ("schedule lag p99", "schedule_lag_ms/p99", "s", 1e-3),
    ("energy per output token", "energy/gross_j_per_output_token", "J", 1.0),
    ("mean power", "energy/mean_power_w", "W", 1.0),
];

/// Adds the load to findings.
pub(super) fn fill(run: &Run, findings: &mut Findings) {
    let summary = &run.summary;
    if summary.at("/load").is_none() {
        findings.data.insert(String::from("load"), Value::Null);
        findings.warnings.push(String::from(
            "summary.json has no load: an earlier version wrote it. hint: `ergo finalize` on the run, while journal/ is there",
        ));
        return;
    }
    let reason = summary.text("/load/steady_state_reason");
    let reasons: Vec<&str> = summary
        .at("/load/client/reasons")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let client_limited = summary.at("/load/client_limited").and_then(Value::as_bool);
    if client_limited == Some(true) {
        findings.warnings.push(format!(
            "the client was the limit ({}): these figures may be its own, not the server's",
            reasons.join(", ")
        ));
    }
    let has_steady = summary.at("/load/steady_state").is_some();
    if !has_steady {
        let why = reason.unwrap_or("it is not told why");
        findings.warnings.push(format!("the run has no steady state: {why}"));
    }
    let mut table = Table::new(
        "load",
        "The whole run and its steady state",
        &[("figure", "figure"), ("whole run", "whole"), ("steady state", "steady")],
    );
    let mut figures = Vec::new();
    for (head, path, unit, factor) in FIGURES {
        let found = whole(run, path).map(|value| value * factor);
        let steady = summary.number(&format!("/load/steady_state/{path}")).map(|value| value * factor);
        if found.is_none() && steady.is_none() {
            continue;
        }
        table.rows.push(vec![Cell::text(head), cell(found, unit), cell(steady, unit)]);
        figures.push(
            json!({"figure": path, "unit": unit, "whole": entries::number(found), "steady": entries::number(steady)}),
        );
    }
    if let Some(why) = reason.filter(|_| !has_steady) {
        table.notes.push(format!("No steady state: {}.", super::super::cell::outside(why)));
    }
    findings.tables.push(table);
    let load = json!({"figures": figures, "steady_state_reason": reason, "client_limited": client_limited,
        "client_limited_by": reasons});
    findings.data.insert(String::from("load"), load);
    findings.summary.insert(String::from("client_limited"), json!(client_limited));
    findings.summary.insert(String::from("has_steady_state"), json!(has_steady));
}

/// Energy of the whole run does not stand under `load`.
fn whole(run: &Run, path: &str) -> Option<f64> {
    match path.strip_prefix("energy/") {
        Some(field) => run.summary.number(&run.energy_path(field)?),
        None => run.summary.number(&format!("/load/{path}")),
    }
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
    fn whole_and_steady_stand_side_by_side() {
        let steady = json!({"ttft_ms": {"p50": 8.0}, "energy": {"mean_power_w": 300.0}});
        let found =
            found(json!({"load": {"ttft_ms": {"p50": 9.0, "p99": null}, "completed": 7, "client_limited": false,
            "client": {"reasons": []}, "steady_state": steady}}));
        let rows: Vec<Vec<String>> =
            found.tables[0].rows.iter().map(|row| row.iter().map(Cell::shown).collect()).collect();
        assert_eq!(
            rows,
            [["completed", "7", "-"], ["TTFT p50", "9.000 ms", "8.000 ms"], ["mean power", "-", "300.0 W"]]
        );
        assert_eq!((found.warnings.len(), &found.summary["client_limited"]), (0, &json!(false)));
    }

    #[test]
    fn what_limits_the_figures_is_told() {
        let found = found(json!({"load": {"client_limited": true, "client": {"reasons": ["cpu", "schedule"]},
            "steady_state": null, "steady_state_reason": "no request completed"}}));
        assert!(found.warnings[0].contains("(cpu, schedule)"), "{:?}", found.warnings);
        assert!(found.warnings[1].ends_with("no request completed"));
        assert_eq!(super::tests::found(json!({})).warnings.len(), 1, "an earlier version");
    }
}
