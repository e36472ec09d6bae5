//! `GET /metrics`: what the mock does now, as Prometheus text under vLLM's names.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use crate::shared::Shared;

/// The page.
pub(crate) fn page(shared: &Shared) -> String {
    let ledger = &shared.ledger;
    let running = ledger.running.load(Ordering::Relaxed);
    let figures = [
        ("num_requests_running", "gauge", "Requests that are being answered.", running as f64),
        (
            "num_requests_waiting",
            "gauge",
            "Requests that wait for a slot.",
            ledger.waiting.load(Ordering::Relaxed) as f64,
        ),
        (
            "kv_cache_usage_perc",
            "gauge",
            "The share of slots in use; 1 is all.",
            running as f64 / shared.script.slots as f64,
        ),
        (
            "prompt_tokens_total",
            "counter",
            "Tokens of prompts.",
            ledger.prompt_tokens_ever.load(Ordering::Relaxed) as f64,
        ),
        (
            "generation_tokens_total",
            "counter",
            "Tokens that were sent.",
            ledger.tokens_ever.load(Ordering::Relaxed) as f64,
        ),
    ];
    let model = shared.script.listed_models().first().copied().unwrap_or_default().replace(['\\', '"', '\n'], "_");
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
    use crate::stats::Counted;

    #[test]
    fn figures_are_those_of_the_moment() {
        let script = Script { slots: 4, models: vec![String::from("a\"b")], ..Script::default() };
        let shared = Shared::new(script).unwrap();
        let _running = Counted::new(&shared.ledger.running);
        let page = page(&shared);
        assert!(page.contains("# TYPE vllm:num_requests_running gauge\n"), "{page}");
        assert!(page.contains("vllm:num_requests_running{engine=\"0\",model_name=\"a_b\"} 1.0\n"), "{page}");
        assert!(page.contains("vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"a_b\"} 0.25\n"), "{page}");
        assert!(page.contains("vllm:generation_tokens_total{engine=\"0\",model_name=\"a_b\"} 0.0\n"), "{page}");
    }
}
