//! The rows of a summary that say how the energy of queries that ran together was divided among them.

use std::path::Path;

use ergometer::attribution::Calibration;
use ergometer::journal::JournalFolder;
use ergometer_runs::cost_model::Evidence;
use ergometer_runs::record::EnergyMethod;
use ergometer_runs::summary::{AttributionSummary, EnergyTotals, Summary};

use super::show::scaled;
use crate::figures::thousands;

/// The run whose calibration a run used; `None` if it sent its own calibration requests, or used none.
pub(super) fn calibration_source(run: &Path) -> Option<String> {
    let path = JournalFolder::of_run(run).calibration_path();
    Calibration::read(&path).ok().flatten()?.run
}

/// How the energy was divided, and the net joules per token of prefill and decode. None if no queries ran together.
pub(super) fn rows(
    summary: &Summary,
    totals: &EnergyTotals,
    calibration_source: Option<&str>,
    row: &mut impl FnMut(&'static str, String, String, String),
) {
    let in_flight = summary.load.as_ref().and_then(|load| load.whole.in_flight);
    let Some(found) = summary.attribution.as_ref().filter(|_| in_flight.is_some_and(|found| found.max > 1)) else {
        return;
    };
    let count: u64 = found.methods.values().sum();
    let parts = [Some(divided(found)), fitted(found, calibration_source)];
    let comment = parts.into_iter().flatten().collect::<Vec<_>>().join("; ");
    row("attribution", queries(count), width(found, count), comment);
    let mut per_token = |joules: Option<f64>, comment: &str| {
        if let Some(joules) = joules {
            row("", format!("{}/token", scaled(joules, "J")), String::new(), comment.to_owned());
        }
    };
    per_token(totals.prefill_j_per_input_token, "prefill, net, per input token that was not cached");
    per_token(totals.decode_j_per_output_token, "decode, net, per output token");
}

fn queries(count: u64) -> String {
    if count == 1 { String::from("1 query") } else { format!("{} queries", thousands(count as f64)) }
}

/// The typical interval of one query: the mean over all queries, relative to their mean net energy. In joules if it is wider
/// than that energy, which may be near zero or negative.
fn width(found: &AttributionSummary, count: u64) -> String {
    let half = (found.high - found.low) / 2.0;
    let percent = half / found.share * 100.0;
    if (0.0..=100.0).contains(&percent) {
        let decimals = usize::from(percent < 10.0);
        format!("± {percent:.decimals$} % per query")
    } else {
        format!("± {} per query", scaled(half / count.max(1) as f64, "J"))
    }
}

/// How the energy was divided. With several methods, the most common one is first.
fn divided(found: &AttributionSummary) -> String {
    let mut methods: Vec<(&str, u64)> = found.methods.iter().map(|(name, &count)| (words(name), count)).collect();
    methods.sort_by_key(|&(words, _)| words);
    // The methods of single windows have the same words.
    let mut parts: Vec<(&str, u64)> = Vec::new();
    for (words, count) in methods {
        match parts.last_mut() {
            Some((last, sum)) if *last == words => *sum += count,
            _ => parts.push((words, count)),
        }
    }
    parts.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    if let [(words, _)] = parts[..] {
        return shared(words);
    }
    let parts = parts.into_iter().map(|(words, count)| format!("{} {}", thousands(count as f64), shared(words)));
    parts.collect::<Vec<_>>().join(", ")
}

/// The words for the methods of single windows: a request with no others in flight.
const ALONE: &str = "measured alone";
const EQUALLY: &str = "equally";

/// A method in words: how energy was shared among requests.
pub(in crate::commands) fn words(method: &str) -> &'static str {
    match method.parse::<EnergyMethod>() {
        Ok(EnergyMethod::CostModel(Evidence::StepLog)) => "by the engine log",
        Ok(EnergyMethod::CostModel(Evidence::Arrivals)) => "by token arrival times",
        Ok(EnergyMethod::CostModel(Evidence::Tokens)) => "by token counts",
        Ok(EnergyMethod::EqualShare) => EQUALLY,
        Ok(EnergyMethod::Window(_)) | Err(_) => ALONE,
    }
}

fn shared(words: &str) -> String {
    match words {
        ALONE => words.to_owned(),
        EQUALLY => String::from("shared equally among the requests in flight"),
        words => format!("shared among requests {words}"),
    }
}

/// What the cost model was fitted to besides the run.
fn fitted(found: &AttributionSummary, calibration_source: Option<&str>) -> Option<String> {
    let is_used =
        found.methods.keys().any(|method| matches!(method.parse::<EnergyMethod>(), Ok(EnergyMethod::CostModel(_))));
    let model = found.cost_model.as_ref().filter(|_| is_used)?;
    let runs = (model.runs.len() > 1).then(|| format!("costs fitted to {} runs", model.runs.len()));
    let calibration = (model.calibration_s > 0.0).then(|| {
        let source = calibration_source.map(|run| format!(" reused from {run}")).unwrap_or_default();
        format!("calibration {:.1} s{source}", model.calibration_s)
    });
    let parts: Vec<String> = [runs, calibration].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

#[cfg(test)]
mod tests {
    use ergometer_runs::testing::summary;
    use serde_json::{Value, json};

    use super::*;

    fn shown(attribution: &Value, in_flight: u32, calibration_source: Option<&str>) -> String {
        let has_phases = !attribution["cost_model"].is_null();
        let [prefill, decode] = [0.018_502, 0.147_46].map(|joules| has_phases.then_some(joules));
        let totals = json!({"prefill_j_per_input_token": prefill, "decode_j_per_output_token": decode});
        let load = json!({"in_flight": {"mean": 1.0, "max": in_flight}});
        let summary = summary(json!({"load": load, "attribution": attribution, "energy": {"measured": totals}}));
        let mut lines = Vec::new();
        let totals = summary.energy.measured.as_ref().unwrap();
        rows(&summary, totals, calibration_source, &mut |label, value, interval, comment| {
            lines.push(format!("{label:11} {value:>15}  {interval:18} {comment}").trim_end().to_owned());
        });
        lines.join("\n")
    }

    fn attribution(methods: &Value, runs: &[&str], calibration_s: f64) -> Value {
        json!({
            "methods": methods, "share": 6206.0, "low": 5461.0, "high": 6944.0,
            "cost_model": {
                "evidence": "arrivals", "joules_per": {}, "inseparable": [], "r2": 0.97, "r2_out_of_sample": 0.96,
                "observations": 81, "load_range": 1.2, "runs": runs, "calibration_s": calibration_s,
            },
        })
    }

    #[test]
    fn attribution_rows_match_the_snapshot() {
        let arrivals = json!({"arrivals": 300});
        let mut equal = attribution(&json!({"equal_share": 24}), &[], 0.0);
        (equal["low"], equal["high"], equal["cost_model"]) = (json!(100.0), json!(9000.0), Value::Null);
        let mixed = json!({"step_log": 1250, "activity_aware": 3, "counter": 1});
        let texts = [
            shown(&attribution(&arrivals, &[], 0.0), 16, None),
            shown(&attribution(&arrivals, &[], 5.98), 16, None),
            shown(&attribution(&arrivals, &[], 5.98), 16, Some("profile_H200_8b_questions")),
            shown(&attribution(&mixed, &["one", "four", "sixteen"], 6.0), 16, None),
            shown(&equal, 16, None),
        ];
        insta::assert_snapshot!(texts.join("\n\n"));
    }

    #[test]
    fn queries_one_after_the_other_have_no_rows() {
        assert_eq!(shown(&attribution(&json!({"arrivals": 300}), &[], 0.0), 1, None), "");
        assert_eq!(shown(&Value::Null, 16, None), "");
    }

    #[test]
    fn an_interval_wider_than_the_energy_is_in_joules() {
        let mut found = attribution(&json!({"equal_share": 1}), &[], 0.0);
        (found["low"], found["high"]) = (json!(-3.0), json!(1.0));
        for share in [1e-9, 0.0, -0.5] {
            found["share"] = json!(share);
            let text = shown(&found, 2, None);
            assert!(text.starts_with("attribution         1 query  ± 2.000 J per query shared"), "{text}");
        }
    }

    #[test]
    fn the_source_of_a_calibration_is_in_the_journal() {
        let run = tempfile::tempdir().unwrap();
        assert_eq!(calibration_source(run.path()), None);
        let path = JournalFolder::of_run(run.path()).calibration_path();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, r#"{"run": "earlier", "measured_ns": 0, "seconds": 6.0, "scopes": []}"#).unwrap();
        assert_eq!(calibration_source(run.path()).as_deref(), Some("earlier"));
        std::fs::write(&path, "{").unwrap();
        assert_eq!(calibration_source(run.path()), None);
    }
}
