//! The metric names of each server, and reading signals from the Prometheus text.
//!
//! The names come from the documentation or source of each server. Several series with one name (engines, models) are
//! summed; ratios are averaged. Values that are not finite are skipped.

use ergometer_telemetry::Signal;
use ergometer_telemetry::exposition::{Line, Malformed, Sample, lines};

/// The metric names of a server.
#[derive(Debug, PartialEq)]
pub(super) struct Dialect {
    /// The id in sensor ids: `vllm`.
    pub id: &'static str,
    /// The display name: `vLLM`.
    pub name: &'static str,
    /// The prefix of its metric names. Some metrics appear only after the first request; others with this prefix exist
    /// from the start.
    prefix: &'static str,
    metrics: &'static [Metric],
}

/// A signal and its metric names, the newest first.
#[derive(Debug, PartialEq)]
struct Metric {
    signal: Signal,
    names: &'static [Name],
}

/// A metric name, and a label that the series must have.
#[derive(Debug, PartialEq)]
struct Name(&'static str, Option<(&'static str, &'static str)>);

const fn metric(signal: Signal, names: &'static [Name]) -> Metric {
    Metric { signal, names }
}

const VLLM: Dialect = Dialect {
    id: "vllm",
    name: "vLLM",
    prefix: "vllm:",
    metrics: &[
        metric(Signal::RequestsRunning, &[Name("vllm:num_requests_running", None)]),
        metric(Signal::RequestsWaiting, &[Name("vllm:num_requests_waiting", None)]),
        metric(Signal::PromptTokens, &[Name("vllm:prompt_tokens_total", None)]),
        metric(Signal::GenerationTokens, &[Name("vllm:generation_tokens_total", None)]),
        metric(Signal::KvCacheUse, &[Name("vllm:kv_cache_usage_perc", None), Name("vllm:gpu_cache_usage_perc", None)]),
        metric(Signal::Preemptions, &[Name("vllm:num_preemptions_total", None)]),
        metric(
            Signal::PrefixCacheHits,
            &[Name("vllm:prefix_cache_hits_total", None), Name("vllm:gpu_prefix_cache_hits_total", None)],
        ),
        metric(
            Signal::PrefixCacheQueries,
            &[Name("vllm:prefix_cache_queries_total", None), Name("vllm:gpu_prefix_cache_queries_total", None)],
        ),
    ],
};

const SGLANG: Dialect = Dialect {
    id: "sglang",
    name: "SGLang",
    prefix: "sglang:",
    metrics: &[
        metric(Signal::RequestsRunning, &[Name("sglang:num_running_reqs", None)]),
        metric(Signal::RequestsWaiting, &[Name("sglang:num_queue_reqs", None)]),
        metric(Signal::PromptTokens, &[Name("sglang:prompt_tokens_total", None)]),
        metric(Signal::GenerationTokens, &[Name("sglang:generation_tokens_total", None)]),
        metric(Signal::KvCacheUse, &[Name("sglang:token_usage", None)]),
        metric(Signal::Preemptions, &[Name("sglang:num_retracted_requests_total", None)]),
        metric(Signal::PrefixCacheHits, &[Name("sglang:cached_tokens_total", None)]),
    ],
};

const LLAMA_CPP: Dialect = Dialect {
    id: "llama.cpp",
    name: "llama.cpp",
    prefix: "llamacpp:",
    metrics: &[
        metric(Signal::RequestsRunning, &[Name("llamacpp:requests_processing", None)]),
        metric(Signal::RequestsWaiting, &[Name("llamacpp:requests_deferred", None)]),
        metric(Signal::PromptTokens, &[Name("llamacpp:prompt_tokens_total", None)]),
        metric(Signal::GenerationTokens, &[Name("llamacpp:tokens_predicted_total", None)]),
        // Newer versions do not have it.
        metric(Signal::KvCacheUse, &[Name("llamacpp:kv_cache_usage_ratio", None)]),
        metric(Signal::PrefixCacheHits, &[Name("llamacpp:prompt_tokens_cached_total", None)]),
    ],
};

/// The token counts of TGI are sums of histograms over finished requests.
const TGI: Dialect = Dialect {
    id: "tgi",
    name: "TGI",
    prefix: "tgi_",
    metrics: &[
        metric(Signal::RequestsRunning, &[Name("tgi_batch_current_size", None)]),
        metric(Signal::RequestsWaiting, &[Name("tgi_queue_size", None)]),
        metric(Signal::PromptTokens, &[Name("tgi_request_input_length_sum", None)]),
        metric(Signal::GenerationTokens, &[Name("tgi_request_generated_tokens_sum", None)]),
    ],
};

/// `trtllm-serve`, which has its metrics at `/prometheus/metrics`.
const TENSORRT_LLM: Dialect = Dialect {
    id: "tensorrt-llm",
    name: "TensorRT-LLM",
    prefix: "trtllm_",
    metrics: &[
        metric(Signal::RequestsRunning, &[Name("trtllm_num_requests_running", None)]),
        metric(Signal::RequestsWaiting, &[Name("trtllm_num_requests_waiting", None)]),
        metric(Signal::KvCacheUse, &[Name("trtllm_kv_cache_utilization", None)]),
    ],
};

/// TensorRT-LLM in Triton, which has its metrics on a separate port.
const TRITON: Dialect = Dialect {
    id: "triton",
    name: "Triton with TensorRT-LLM",
    prefix: "nv_trt_llm_",
    metrics: &[
        metric(Signal::RequestsRunning, &[Name("nv_trt_llm_request_metrics", Some(("request_type", "scheduled")))]),
        metric(Signal::RequestsWaiting, &[Name("nv_trt_llm_request_metrics", Some(("request_type", "waiting")))]),
        metric(
            Signal::KvCacheUse,
            &[Name("nv_trt_llm_kv_cache_block_metrics", Some(("kv_cache_block_type", "fraction")))],
        ),
    ],
};

static DIALECTS: [Dialect; 6] = [VLLM, SGLANG, LLAMA_CPP, TGI, TENSORRT_LLM, TRITON];

/// Why no server was recognized in a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unknown {
    /// The text is not in the Prometheus format.
    #[error("the response is not Prometheus text: {0}")]
    Malformed(#[from] Malformed),
    /// The text has no metrics.
    #[error("the response has no metrics")]
    Empty,
    /// The metrics are not those of a known server.
    #[error("the response has no metrics of {}", names())]
    Other,
}

/// The names of the known servers, for an error.
fn names() -> String {
    let names: Vec<&str> = DIALECTS.iter().map(|dialect| dialect.name).collect();
    names.join(", ")
}

impl Dialect {
    /// Detects the server: the one with the most metric names in the text.
    pub(super) fn detect(text: &str) -> Result<&'static Self, Unknown> {
        let mut scores = [0_usize; DIALECTS.len()];
        let mut is_empty = true;
        for line in lines(text) {
            let line = line?;
            is_empty = false;
            let name = match &line {
                Line::Sample(sample) => &*sample.name,
                Line::Family(name) => name,
            };
            for (score, dialect) in scores.iter_mut().zip(&DIALECTS) {
                *score += usize::from(name.starts_with(dialect.prefix));
            }
        }
        let (best, score) = DIALECTS.iter().zip(scores).max_by_key(|&(_, score)| score).ok_or(Unknown::Other)?;
        match score {
            0 if is_empty => Err(Unknown::Empty),
            0 => Err(Unknown::Other),
            _ => Ok(best),
        }
    }

    /// The signals of the server, in the order of the values of [`read`](Self::read).
    pub(super) fn signals(&self) -> impl Iterator<Item = Signal> {
        self.metrics.iter().map(|metric| metric.signal)
    }

    /// The value of each signal in its unit; `None` if the text has no value.
    pub(super) fn read(&self, text: &str) -> Result<Vec<Option<f64>>, Unknown> {
        let mut found: Vec<Vec<Series>> =
            self.metrics.iter().map(|metric| vec![Series::default(); metric.names.len()]).collect();
        for line in lines(text) {
            let Line::Sample(sample) = line? else { continue };
            if !sample.name.starts_with(self.prefix) {
                continue;
            }
            for (metric, found) in self.metrics.iter().zip(&mut found) {
                for (name, series) in metric.names.iter().zip(found) {
                    if name.matches(&sample) && sample.value.is_finite() {
                        series.sum += sample.value;
                        series.count += 1;
                    }
                }
            }
        }
        let value = |(metric, found): (&Metric, Vec<Series>)| {
            let series = found.into_iter().find(|series| series.count > 0)?;
            Some(match metric.signal {
                Signal::KvCacheUse => series.sum / f64::from(series.count) * 100.0,
                _ => series.sum,
            })
        };
        Ok(self.metrics.iter().zip(found).map(value).collect())
    }
}

/// The sum and number of the series with one name.
#[derive(Debug, Clone, Copy, Default)]
struct Series {
    sum: f64,
    count: u32,
}

impl Name {
    fn matches(&self, sample: &Sample<'_>) -> bool {
        sample.name == self.0 && self.1.is_none_or(|(label, value)| sample.label(label) == Some(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn read(text: &str) -> (&'static str, Vec<(Signal, f64)>) {
        let dialect = Dialect::detect(text).unwrap();
        let values = dialect.read(text).unwrap();
        let found = dialect.signals().zip(values).filter_map(|(signal, value)| Some((signal, value?)));
        (dialect.id, found.collect())
    }

    #[test]
    fn a_recorded_text_of_llama_cpp() {
        let text = include_str!("../../../../fixtures/metrics/llama_cpp.txt");
        let expected = vec![
            (Signal::RequestsRunning, 0.0),
            (Signal::RequestsWaiting, 0.0),
            (Signal::PromptTokens, 64.0),
            (Signal::GenerationTokens, 70.0),
            (Signal::PrefixCacheHits, 120.0),
        ];
        assert_eq!(read(text), ("llama.cpp", expected));
        let (_, old) = read("llamacpp:kv_cache_usage_ratio 0.25\n");
        assert_eq!(old, [(Signal::KvCacheUse, 25.0)]);
    }

    #[test]
    fn engines_are_summed_and_cache_usage_is_averaged() {
        let text = "# TYPE vllm:num_requests_running gauge\n\
            vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 3.0\n\
            vllm:num_requests_running{engine=\"1\",model_name=\"m\"} 4.0\n\
            vllm:num_requests_waiting{engine=\"0\"} NaN\n\
            vllm:kv_cache_usage_perc{engine=\"0\"} 0.25\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.75\n\
            vllm:gpu_cache_usage_perc{engine=\"0\"} 0.9\n\
            vllm:generation_tokens_total{engine=\"0\"} 100.0\nvllm:generation_tokens_total{engine=\"1\"} 1e2\n\
            vllm:generation_tokens_created{engine=\"0\"} 1.7e9\n\
            vllm:num_preemptions_total{engine=\"0\"} 2.0\n\
            vllm:prefix_cache_hits_total 7\nvllm:prefix_cache_queries_total 9\n\
            vllm:e2e_request_latency_seconds_bucket{le=\"+Inf\"} 5\npython_gc_objects_collected_total 17\n";
        let expected = vec![
            (Signal::RequestsRunning, 7.0),
            (Signal::GenerationTokens, 200.0),
            (Signal::KvCacheUse, 50.0),
            (Signal::Preemptions, 2.0),
            (Signal::PrefixCacheHits, 7.0),
            (Signal::PrefixCacheQueries, 9.0),
        ];
        assert_eq!(read(text), ("vllm", expected));
        let (_, old) = read("vllm:gpu_cache_usage_perc{model_name=\"m\"} 0.5\n");
        assert_eq!(old, [(Signal::KvCacheUse, 50.0)]);
    }

    #[test]
    fn the_names_of_the_other_servers() {
        let sglang = "sglang:num_running_reqs{tp_rank=\"0\"} 2.0\nsglang:num_queue_reqs 1.0\nsglang:token_usage 0.28\n\
            sglang:prompt_tokens_total{is_streaming=\"true\"} 10\nsglang:prompt_tokens_total{is_streaming=\"false\"} 5\n\
            sglang:generation_tokens_total 7\nsglang:cached_tokens_total{cache_source=\"device\"} 3\n\
            sglang:num_retracted_requests_total 1\nsglang:num_retracted_reqs 9\n";
        let values = |text| read(text).1.into_iter().map(|(_, value)| value).collect::<Vec<_>>();
        assert_eq!(values(sglang), [2.0, 1.0, 15.0, 7.0, 28.000_000_000_000_004, 1.0, 3.0]);
        let tgi = "tgi_batch_current_size 4\ntgi_queue_size 7\ntgi_request_input_length_sum 90\n\
            tgi_request_generated_tokens_sum 8123\ntgi_request_generated_tokens_count 44\n";
        assert_eq!(values(tgi), [4.0, 7.0, 90.0, 8123.0]);
        let tensorrt = "trtllm_num_requests_running{model_name=\"m\"} 1\ntrtllm_num_requests_waiting 2\n\
            trtllm_kv_cache_utilization 0.5\n";
        assert_eq!(values(tensorrt), [1.0, 2.0, 50.0]);
        let triton = "nv_trt_llm_request_metrics{model=\"m\",request_type=\"waiting\"} 2\n\
            nv_trt_llm_request_metrics{model=\"m\",request_type=\"scheduled\"} 1\n\
            nv_trt_llm_request_metrics{model=\"m\",request_type=\"max\"} 64\n\
            nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"fraction\"} 0.5\n\
            nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"max\"} 6239\n";
        assert_eq!(values(triton), [1.0, 2.0, 50.0]);
    }

    #[test]
    fn a_server_is_detected_before_its_first_request() {
        let declared = "# HELP sglang:prompt_tokens_total Tokens\n# TYPE sglang:prompt_tokens_total counter\nup 1\n";
        assert_eq!(read(declared), ("sglang", vec![]));
    }

    #[test]
    fn text_of_no_known_server_is_an_error() {
        assert_eq!(Dialect::detect(""), Err(Unknown::Empty));
        assert_eq!(Dialect::detect("up 1\n"), Err(Unknown::Other));
        assert!(Dialect::detect("up 1\n").unwrap_err().to_string().contains("vLLM, SGLang, llama.cpp, TGI"));
        assert!(matches!(Dialect::detect("[{\"iter\":1}]"), Err(Unknown::Malformed(_))));
    }
}
