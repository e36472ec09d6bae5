//! The figures by which the points of a sweep are compared, from the summaries of their runs.
//!
//! The metrics are those of the table in [`metrics`], by their keys. A metric that a summary lacks is absent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Spread;
use crate::metrics::{self, Metric};
use crate::{EnergySource, Summary};

/// The figures of one point, each over its repeats.
pub type Figures = BTreeMap<String, Spread>;

/// The figures of one run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RunFigures {
    /// The energy source.
    pub energy: Option<EnergySource>,
    /// Whether the client was a limit; `None` if that was not checked.
    pub client_limited: Option<bool>,
    /// The figures by key.
    pub values: BTreeMap<String, f64>,
}

impl RunFigures {
    /// The figures of a run, from its summary.
    #[must_use]
    pub fn from_summary(summary: &Summary) -> Self {
        let values =
            metrics::in_sweeps().filter_map(|metric| Some((metric.key.to_owned(), metric.key_value(summary)?)));
        let client_limited = summary.load.as_ref().map(|load| load.client_limited);
        Self { energy: summary.energy_source(), client_limited, values: values.collect() }
    }

    /// Computes each figure over these runs. If some runs have measured energy, the energy of the others is left out.
    #[must_use]
    pub fn over(runs: &[&Self]) -> Figures {
        let best = Self::source(runs);
        let spread = |metric: &Metric| {
            let counted = runs.iter().filter(|run| !metric.needs_energy() || run.energy == best);
            let values = counted.filter_map(|run| run.values.get(metric.key).copied());
            Spread::new(&values.collect::<Vec<f64>>())
        };
        metrics::in_sweeps().filter_map(|metric| Some((metric.key.to_owned(), spread(metric)?))).collect()
    }

    /// The energy source of these runs: measured, if any of them is.
    #[must_use]
    pub fn source(runs: &[&Self]) -> Option<EnergySource> {
        let sources: Vec<EnergySource> = runs.iter().filter_map(|run| run.energy).collect();
        sources.iter().copied().find(|source| *source == EnergySource::Measured).or(sources.first().copied())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::testing;

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
    fn figures_come_from_the_load_or_else_from_the_run() {
        let mut summary = summary();
        let run = RunFigures::from_summary(&testing::summary(summary.clone()));
        let value = |run: &RunFigures, name: &str| run.values.get(name).copied();
        assert_eq!((value(&run, "requests_per_second"), value(&run, "ttft_p50_ms")), (Some(3.0), Some(21.0)));
        assert_eq!((value(&run, "ttft_p99_ms"), value(&run, "itl_p50_ms")), (None, None), "absent values stay absent");
        assert_eq!((value(&run, "failed"), value(&run, "completed")), (Some(3.0), Some(9.0)));
        assert_eq!((run.energy, value(&run, "gross_j_per_query")), (Some(EnergySource::Modelled), Some(20.0)));
        assert_eq!(run.client_limited, None);
        summary["load"] = json!({
            "requests_per_second": 2.5, "ttft_ms": {"p50": 22.0, "p99": 40.0}, "client_limited": true,
            "goodput": {"requests_per_second": 1.5}, "steady_state": {"output_tokens_per_second": 130.0},
        });
        summary["energy"]["measured"] = json!({"mean_power_w": 70.0});
        let run = RunFigures::from_summary(&testing::summary(summary.clone()));
        assert_eq!((value(&run, "requests_per_second"), value(&run, "ttft_p99_ms")), (Some(2.5), Some(40.0)));
        assert_eq!(value(&run, "goodput_requests_per_second"), Some(1.5));
        assert_eq!(value(&run, "steady_output_tokens_per_second"), Some(130.0));
        assert_eq!((run.energy, value(&run, "mean_power_w")), (Some(EnergySource::Measured), Some(70.0)));
        assert_eq!(value(&run, "gross_j_per_output_token"), None, "modelled joules do not replace measured joules");
        assert_eq!(run.client_limited, Some(true));
    }

    #[test]
    fn a_figure_covers_the_runs_that_have_it() {
        let one = RunFigures::from_summary(&testing::summary(summary()));
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
        assert_eq!(
            (figures["mean_power_w"].mean, figures["mean_power_w"].n),
            (90.0, 1),
            "measured and modelled are not mixed"
        );
        assert_eq!(figures["requests_per_second"].n, 2);
    }
}
