//! Compares the table of metrics with `summary.json`.

use std::path::Path;

use ergometer_runs::{Summary, metrics};
use serde_json::Value;

#[test]
fn every_metric_has_the_value_of_its_key_in_the_file() {
    let places = [
        ("accuracy", "/accuracy/rate/value", 1.0),
        ("joules_per_query", "/energy/measured/gross_j_per_query/value", 1.0),
        ("net_joules_per_query", "/energy/measured/net_j_per_query/value", 1.0),
        ("joules_per_token", "/energy/measured/gross_j_per_output_token", 1.0),
        ("joules_per_total_token", "/energy/measured/gross_j_per_token", 1.0),
        ("mean_power_w", "/energy/measured/mean_power_w", 1.0),
        ("intelligence_per_joule", "/intelligence/per_joule/value", 1.0),
        ("ttft_p50", "/load/ttft_ms/p50", 1e-3),
        ("ttft_p90", "/load/ttft_ms/p90", 1e-3),
        ("ttft_p99", "/load/ttft_ms/p99", 1e-3),
        ("tpot_p50", "/load/tpot_ms/p50", 1e-3),
        ("e2e_p50", "/load/e2e_ms/p50", 1e-3),
        ("itl_p99", "/load/itl_ms/p99", 1e-3),
        ("output_tokens_per_second", "/load/output_tokens_per_second", 1.0),
        ("requests_per_second", "/load/requests_per_second", 1.0),
        ("goodput", "/load/goodput/requests_per_second", 1.0),
        ("duration", "/duration_s", 1.0),
    ];
    let mut seen = 0;
    for name in ["h200_one", "h200_four", "h200_sixteen", "h200_graded"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs").join(name);
        let (file, summary) = (Summary::read_json(&folder).unwrap(), Summary::read(&folder).unwrap());
        for (metric, place, factor) in places {
            let metric = metrics::find(metric).unwrap();
            let written = file.pointer(place).and_then(Value::as_f64);
            assert_eq!(metric.summary_value(&summary), written.map(|value| value * factor), "{name} {}", metric.name);
            assert_eq!(metric.key_value(&summary), written, "{name} {}", metric.key);
            seen += u32::from(written.is_some());
        }
    }
    assert!(seen > 35, "{seen}");
}
