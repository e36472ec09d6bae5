//! The names of the columns that are both written and read. Other columns are named where they are written.

macro_rules! names {
    ($($constant:ident = $name:literal,)*) => {$(
        pub(crate) const $constant: &str = $name;
    )*};
}

// Requests and records.
names! {
    REQUEST = "request",
    REQUEST_ID = "request_id",
    QUERY_INDEX = "query_index",
    SESSION = "session",
    ATTEMPT = "attempt",
    ATTEMPTS = "attempts",
    SCHEDULED_NS = "scheduled_ns",
    SENT_NS = "sent_ns",
    FIRST_TOKEN_NS = "first_token_ns",
    LAST_TOKEN_NS = "last_token_ns",
    END_NS = "end_ns",
    CHUNK_OFFSETS_NS = "chunk_offsets_ns",
    CHUNK_CHOICES = "chunk_choices",
    OUTPUT_TOKENS = "output_tokens",
    CACHED_TOKENS = "cached_tokens",
    OUTCOME = "outcome",
    FAILURE = "failure",
    CAUSE = "cause",
    IS_RETRIED = "is_retried",
    CONNECT_MS = "connect_ms",
    SHARE = "share",
    LOW = "low",
    HIGH = "high",
    PREFILL_J = "prefill_j",
    DECODE_J = "decode_j",
}

// Records.
names! {
    PROBLEM = "problem",
    ANSWER = "answer",
    SUBJECT = "subject",
    MODEL_ANSWERS = "model_answers",
    MODEL_METRICS = "model_metrics",
    ERGOMETER = "ergometer",
    TOKEN_METRICS = "token_metrics",
    INPUT = "input",
    OUTPUT = "output",
    TOTAL = "total",
    LATENCY_METRICS = "latency_metrics",
    TIME_TO_FIRST_TOKEN_SECONDS = "time_to_first_token_seconds",
    TOTAL_QUERY_SECONDS = "total_query_seconds",
    ENERGY_METRICS = "energy_metrics",
    PER_QUERY_JOULES = "per_query_joules",
    POWER_METRICS = "power_metrics",
    GPU = "gpu",
    PER_QUERY_WATTS = "per_query_watts",
    TEMPERATURE_METRICS = "temperature_metrics",
    AVG = "avg",
    MAX = "max",
    MEDIAN = "median",
    MIN = "min",
    PHASE_METRICS = "phase_metrics",
    PREFILL_ENERGY_J = "prefill_energy_j",
    DECODE_ENERGY_J = "decode_energy_j",
    PREFILL_DURATION_MS = "prefill_duration_ms",
    DECODE_DURATION_MS = "decode_duration_ms",
    LM_CORRECTNESS = "lm_correctness",
    COST = "cost",
    TOTAL_COST_USD = "total_cost_usd",
    ENERGY = "energy",
    GROSS = "gross",
    NET = "net",
    JOULES = "joules",
    ATTRIBUTION = "attribution",
}

// Telemetry, which also has `SESSION`.
names! {
    TIME_NS = "time_ns",
    AFTER_NS = "after_ns",
    SENSOR = "sensor",
    DEVICE = "device",
    SCOPE = "scope",
    SIGNAL = "signal",
    VALUE = "value",
    UNIT = "unit",
    PROVENANCE = "provenance",
}
