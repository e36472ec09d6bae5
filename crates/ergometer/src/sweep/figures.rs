//! The summaries of runs go in; the figures that points of a sweep are compared by come out.
//!
//! They are taken from the summary as it is written, so one of an earlier run is read like that of the run just made. What
//! a summary does not have is absent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Spread;

/// Figures of one point, each over its repeats.
pub type Figures = BTreeMap<String, Spread>;

/// Where the joules of a run come from. The two are never put into one mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnergySource {
    /// From a sensor.
    Measured,
    /// From a model of utilization.
    Modelled,
}

impl EnergySource {
    /// The word for it in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Modelled => "modelled",
        }
    }
}

/// What one run came to.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RunFigures {
    /// Where its joules come from.
    pub energy: Option<EnergySource>,
    /// Whether the sender, not the server, was what kept requests back; `None` where that was not looked at.
    pub client_limited: Option<bool>,
    /// Its figures by their names.
    pub values: BTreeMap<String, f64>,
}

/// Names of figures, in the order in which tables have them, and where a summary has them: the first place that has a
/// number counts.
pub const FIGURES: [(&str, &[&str]); 24] = [
    ("requests_per_second", &["/load/requests_per_second", "/tokens/requests_per_second"]),
    ("output_tokens_per_second", &["/load/output_tokens_per_second", "/tokens/output_per_second"]),
    ("steady_output_tokens_per_second", &["/load/steady_state/output_tokens_per_second"]),
    ("goodput_requests_per_second", &["/load/goodput/requests_per_second"]),
    ("ttft_p50_ms", &["/load/ttft_ms/p50", "/latency/ttft_ms/p50"]),
    ("ttft_p99_ms", &["/load/ttft_ms/p99", "/latency/ttft_ms/p99"]),
    ("itl_p50_ms", &["/load/itl_ms/p50", "/latency/itl_ms/p50"]),
    ("itl_p99_ms", &["/load/itl_ms/p99", "/latency/itl_ms/p99"]),
    ("tpot_p50_ms", &["/load/tpot_ms/p50", "/latency/tpot_ms/p50"]),
    ("tpot_p99_ms", &["/load/tpot_ms/p99", "/latency/tpot_ms/p99"]),
    ("e2e_p50_ms", &["/load/e2e_ms/p50", "/latency/e2e_ms/p50"]),
    ("e2e_p99_ms", &["/load/e2e_ms/p99", "/latency/e2e_ms/p99"]),
    ("gross_j_per_output_token", &["/energy/*/gross_j_per_output_token"]),
    ("gross_j_per_query", &["/energy/*/gross_j_per_query/value"]),
    ("net_j_per_output_token", &["/energy/*/net_j_per_output_token"]),
    ("net_j_per_query", &["/energy/*/net_j_per_query/value"]),
    ("mean_power_w", &["/energy/*/mean_power_w"]),
    ("accuracy", &["/accuracy/rate/value"]),
    ("intelligence_per_joule", &["/intelligence/per_joule_with_meter/value"]),
    ("intelligence_per_watt", &["/intelligence/per_watt_with_meter/value"]),
    ("cost_usd", &["/cost_usd"]),
    ("completed", &["/outcomes/completed"]),
    ("failed", &[]),
    ("duration_s", &["/duration_s"]),
];

impl RunFigures {
    /// From the summary of a run, as `summary.json` has it.
    #[must_use]
    pub fn of(summary: &Value) -> Self {
        let sources = [EnergySource::Measured, EnergySource::Modelled];
        let has = |source: &EnergySource| summary["energy"][source.name()].is_object();
        let energy = sources.into_iter().find(has);
        let source = energy.map_or("measured", EnergySource::name);
        let number = |place: &&str| summary.pointer(&place.replace('*', source))?.as_f64();
        let mut values: BTreeMap<String, f64> = FIGURES
            .iter()
            .filter_map(|(name, places)| Some(((*name).to_owned(), places.iter().find_map(number)?)))
            .collect();
        if let Some(failed) = summary["outcomes"]["failed"].as_object() {
            // The sum of nothing is -0.
            let count = failed.values().filter_map(Value::as_f64).sum::<f64>() + 0.0;
            values.insert(String::from("failed"), count);
        }
        Self { energy, client_limited: summary.pointer("/load/client_limited").and_then(Value::as_bool), values }
    }

    /// Each figure over these runs. Joules of runs in which they were modelled are left out where they were measured in
    /// another.
    #[must_use]
    pub fn over(runs: &[&Self]) -> Figures {
        let best = Self::source(runs);
        let counts = |name: &str, run: &Self| {
            let of_energy = FIGURES.iter().any(|(known, places)| *known == name && is_energy(places));
            !of_energy || run.energy == best
        };
        let spread = |name: &str| {
            let values = runs.iter().filter(|run| counts(name, run)).filter_map(|run| run.values.get(name).copied());
            Spread::of(&values.collect::<Vec<f64>>())
        };
        FIGURES.iter().filter_map(|(name, _)| Some(((*name).to_owned(), spread(name)?))).collect()
    }

    /// Where the joules of these runs come from: measured, where any were.
    #[must_use]
    pub fn source(runs: &[&Self]) -> Option<EnergySource> {
        let sources: Vec<EnergySource> = runs.iter().filter_map(|run| run.energy).collect();
        sources.iter().copied().find(|source| *source == EnergySource::Measured).or(sources.first().copied())
    }
}

/// Whether a figure depends on where the joules come from.
fn is_energy(places: &[&str]) -> bool {
    places.iter().any(|place| place.contains('*') || place.starts_with("/intelligence"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn summary() -> Value {
        json!({
            "duration_s": 4.0, "outcomes": {"completed": 9, "failed": {"truncated": 2, "http_429": 1}},
            "latency": {"ttft_ms": {"p50": 21.0, "p99": null}, "e2e_ms": {"p50": 90.0, "p99": 200.0}},
            "tokens": {"requests_per_second": 3.0, "output_per_second": 120.0},
            "energy": {"measured": null, "modelled": {
                "gross_j_per_output_token": 0.5, "gross_j_per_query": {"value": 20.0}, "mean_power_w": 60.0,
            }},
        })
    }

    #[test]
    fn figures_are_those_of_the_load_and_else_of_the_run() {
        let mut summary = summary();
        let run = RunFigures::of(&summary);
        let value = |run: &RunFigures, name: &str| run.values.get(name).copied();
        assert_eq!((value(&run, "requests_per_second"), value(&run, "ttft_p50_ms")), (Some(3.0), Some(21.0)));
        assert_eq!((value(&run, "ttft_p99_ms"), value(&run, "itl_p50_ms")), (None, None), "absent is absent");
        assert_eq!((value(&run, "failed"), value(&run, "completed")), (Some(3.0), Some(9.0)));
        assert_eq!((run.energy, value(&run, "gross_j_per_query")), (Some(EnergySource::Modelled), Some(20.0)));
        assert_eq!(run.client_limited, None);
        summary["load"] = json!({
            "requests_per_second": 2.5, "ttft_ms": {"p50": 22.0, "p99": 40.0}, "client_limited": true,
            "goodput": {"requests_per_second": 1.5}, "steady_state": {"output_tokens_per_second": 130.0},
        });
        summary["energy"]["measured"] = json!({"mean_power_w": 70.0});
        let run = RunFigures::of(&summary);
        assert_eq!((value(&run, "requests_per_second"), value(&run, "ttft_p99_ms")), (Some(2.5), Some(40.0)));
        assert_eq!(value(&run, "goodput_requests_per_second"), Some(1.5));
        assert_eq!(value(&run, "steady_output_tokens_per_second"), Some(130.0));
        assert_eq!((run.energy, value(&run, "mean_power_w")), (Some(EnergySource::Measured), Some(70.0)));
        assert_eq!(value(&run, "gross_j_per_query"), None, "modelled joules do not stand in for measured ones");
        assert_eq!(run.client_limited, Some(true));
    }

    #[test]
    fn a_figure_is_over_the_runs_that_have_it() {
        let one = RunFigures::of(&summary());
        let mut two = one.clone();
        two.values.insert(String::from("ttft_p50_ms"), 23.0);
        two.values.remove("e2e_p50_ms");
        let figures = RunFigures::over(&[&one, &two]);
        assert_eq!((figures["ttft_p50_ms"].mean, figures["ttft_p50_ms"].n), (22.0, 2));
        assert_eq!((figures["e2e_p50_ms"].n, figures["mean_power_w"].n), (1, 2));
        assert!(!figures.contains_key("itl_p50_ms"));
        two.energy = Some(EnergySource::Measured);
        two.values.insert(String::from("mean_power_w"), 90.0);
        let figures = RunFigures::over(&[&one, &two]);
        assert_eq!((figures["mean_power_w"].mean, figures["mean_power_w"].n), (90.0, 1), "measured and modelled apart");
        assert_eq!(figures["requests_per_second"].n, 2);
    }
}
