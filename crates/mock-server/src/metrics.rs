//! `GET /metrics`: the current state as Prometheus text, with vLLM's metric names.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use crate::state::ServerState;

/// The metrics page.
pub(crate) fn page(state: &ServerState) -> String {
    let ledger = &state.ledger;
    let running = ledger.running.load(Ordering::Relaxed);
    let figures = [
        ("num_requests_running", "gauge", "Requests being answered.", running as f64),
        (
            "num_requests_waiting",
            "gauge",
            "Requests waiting for a slot.",
            ledger.waiting.load(Ordering::Relaxed) as f64,
        ),
        ("kv_cache_usage_perc", "gauge", "Share of slots in use.", running as f64 / state.script.slots as f64),
        ("prompt_tokens_total", "counter", "Prompt tokens.", ledger.prompt_tokens_ever.load(Ordering::Relaxed) as f64),
        ("generation_tokens_total", "counter", "Tokens sent.", ledger.tokens_ever.load(Ordering::Relaxed) as f64),
    ];
    let model = state.script.listed_models().first().copied().unwrap_or_default().replace(['\\', '"', '\n'], "_");
    let mut page = String::new();
    for (name, kind, help, value) in figures {
        let _ = writeln!(page, "# HELP vllm:{name} {help}");
        let _ = writeln!(page, "# TYPE vllm:{name} {kind}");
        let _ = writeln!(page, "vllm:{name}{{engine=\"0\",model_name=\"{model}\"}} {value:?}");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Script;
    use crate::stats::GaugeGuard;

    #[test]
    fn metrics_show_the_current_state() {
        let script = Script { slots: 4, models: vec![String::from("a\"b")], ..Script::default() };
        let state = ServerState::new(script).unwrap();
        let _running = GaugeGuard::new(&state.ledger.running);
        let page = page(&state);
        assert!(page.contains("# TYPE vllm:num_requests_running gauge\n"), "{page}");
        assert!(page.contains("vllm:num_requests_running{engine=\"0\",model_name=\"a_b\"} 1.0\n"), "{page}");
        assert!(page.contains("vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"a_b\"} 0.25\n"), "{page}");
        assert!(page.contains("vllm:generation_tokens_total{engine=\"0\",model_name=\"a_b\"} 0.0\n"), "{page}");
    }
}
