//! Parses and checks `config.json`.
//!
//! A parsed configuration has no size of zero, its heads divide into groups, the size of a head is even, and no product
//! of two sizes overflows. A model with an unsupported feature is an error that names the feature.

use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::error::ModelError;
use crate::rope::RopeScaling;

/// The checked configuration of a model.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) hidden_size: usize,
    pub(crate) intermediate_size: usize,
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    pub(crate) key_value_heads: usize,
    pub(crate) head_size: usize,
    pub(crate) vocabulary: usize,
    pub(crate) context: usize,
    pub(crate) norm_epsilon: f32,
    pub(crate) rope_theta: f32,
    pub(crate) rope_scaling: RopeScaling,
    pub(crate) tied_embeddings: bool,
    pub(crate) attention_bias: bool,
    pub(crate) mlp_bias: bool,
    pub(crate) end_tokens: Vec<u32>,
}

/// The fields of `config.json`, unchecked.
#[derive(Deserialize)]
struct RawConfig {
    model_type: Option<String>,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    vocab_size: usize,
    max_position_embeddings: usize,
    rms_norm_eps: f32,
    rope_theta: Option<f32>,
    rope_scaling: Option<RawRope>,
    /// Newer files have `rope_theta` and `rope_scaling` in here.
    rope_parameters: Option<RawRope>,
    partial_rotary_factor: Option<f32>,
    hidden_act: Option<String>,
    tie_word_embeddings: Option<bool>,
    attention_bias: Option<bool>,
    mlp_bias: Option<bool>,
    sliding_window: Option<usize>,
    quantization_config: Option<IgnoredAny>,
    eos_token_id: Option<TokenIds>,
}

#[derive(Deserialize)]
struct RawRope {
    rope_type: Option<String>,
    /// The older name.
    r#type: Option<String>,
    rope_theta: Option<f32>,
    factor: Option<f32>,
    low_freq_factor: Option<f32>,
    high_freq_factor: Option<f32>,
    original_max_position_embeddings: Option<f32>,
}

/// One token or a list of them.
#[derive(Deserialize)]
#[serde(untagged)]
enum TokenIds {
    One(u32),
    Many(Vec<u32>),
}

impl TokenIds {
    fn into_list(self) -> Vec<u32> {
        match self {
            Self::One(token) => vec![token],
            Self::Many(tokens) => tokens,
        }
    }
}

/// The model type alone. It is parsed first, because an unsupported model type may lack the other fields.
#[derive(Deserialize)]
struct ModelType {
    model_type: Option<String>,
}

/// Parses JSON. Errors name `path`.
pub(crate) fn parse_json<'a, T: Deserialize<'a>>(path: &Path, bytes: &'a [u8]) -> Result<T, ModelError> {
    serde_json::from_slice(bytes).map_err(|cause| ModelError::Json { path: path.to_owned(), cause })
}

/// The end-of-sequence tokens in `generation_config.json`.
pub(crate) fn parse_generation_config(path: &Path, bytes: &[u8]) -> Result<Vec<u32>, ModelError> {
    #[derive(Deserialize)]
    struct GenerationConfig {
        eos_token_id: Option<TokenIds>,
    }
    let config: GenerationConfig = parse_json(path, bytes)?;
    Ok(config.eos_token_id.map(TokenIds::into_list).unwrap_or_default())
}

impl Config {
    /// Parses and checks `config.json`. Errors name `path`.
    pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Result<Self, ModelError> {
        let ModelType { model_type } = parse_json(path, bytes)?;
        let unsupported = |feature: String| ModelError::Unsupported { path: path.to_owned(), feature };
        if !matches!(model_type.as_deref(), Some("llama" | "mistral")) {
            return Err(unsupported(format!("model_type {}", model_type.as_deref().unwrap_or("(none)"))));
        }
        let raw: RawConfig = parse_json(path, bytes)?;
        if let Some(feature) = unsupported_feature(&raw) {
            return Err(unsupported(feature));
        }
        let rope_scaling = rope_scaling(&raw, path)?;
        Self::check(raw, rope_scaling).map_err(|reason| ModelError::Config { path: path.to_owned(), reason })
    }

    fn check(raw: RawConfig, rope_scaling: RopeScaling) -> Result<Self, String> {
        let heads = raw.num_attention_heads;
        if heads == 0 {
            return Err("num_attention_heads is 0".into());
        }
        let config = Self {
            hidden_size: raw.hidden_size,
            intermediate_size: raw.intermediate_size,
            layers: raw.num_hidden_layers,
            heads,
            key_value_heads: raw.num_key_value_heads.unwrap_or(heads),
            head_size: raw.head_dim.unwrap_or(raw.hidden_size / heads),
            vocabulary: raw.vocab_size,
            context: raw.max_position_embeddings,
            norm_epsilon: raw.rms_norm_eps,
            rope_theta: rope_theta(&raw),
            rope_scaling,
            tied_embeddings: raw.tie_word_embeddings.unwrap_or(false),
            attention_bias: raw.attention_bias.unwrap_or(false),
            mlp_bias: raw.mlp_bias.unwrap_or(false),
            end_tokens: raw.eos_token_id.map(TokenIds::into_list).unwrap_or_default(),
        };
        let sizes = [
            ("hidden_size", config.hidden_size),
            ("intermediate_size", config.intermediate_size),
            ("num_hidden_layers", config.layers),
            ("num_key_value_heads", config.key_value_heads),
            ("vocab_size", config.vocabulary),
            ("max_position_embeddings", config.context),
        ];
        if let Some((name, _)) = sizes.iter().find(|(_, size)| *size == 0) {
            return Err(format!("{name} is 0"));
        }
        if raw.head_dim.is_none() && !config.hidden_size.is_multiple_of(heads) {
            return Err("hidden_size is not a multiple of num_attention_heads, and head_dim is missing".into());
        }
        if !heads.is_multiple_of(config.key_value_heads) {
            return Err("num_attention_heads is not a multiple of num_key_value_heads".into());
        }
        if config.head_size == 0 || !config.head_size.is_multiple_of(2) {
            return Err("the head size is zero or odd, but rotary embeddings need an even head size".into());
        }
        if !(config.norm_epsilon >= 0.0 && config.norm_epsilon < 1.0) {
            return Err("rms_norm_eps is not between 0 and 1".into());
        }
        if !(config.rope_theta > 0.0 && config.rope_theta.is_finite()) {
            return Err("rope_theta is not positive".into());
        }
        // With this limit, the product of two sizes fits into 64 bits, even in bytes. The largest models are near 2^18.
        let attention_size = ("num_attention_heads times head_dim", heads.saturating_mul(config.head_size));
        if let Some((name, _)) = sizes.iter().chain([&attention_size]).find(|(_, size)| *size > 1 << 28) {
            return Err(format!("{name} is above 2^28"));
        }
        Ok(config)
    }
}

fn rope_theta(raw: &RawConfig) -> f32 {
    let newer = raw.rope_parameters.as_ref().and_then(|rope| rope.rope_theta);
    // 10,000 is the default of transformers.
    raw.rope_theta.or(newer).unwrap_or(10_000.0)
}

fn unsupported_feature(raw: &RawConfig) -> Option<String> {
    if let Some(activation) = raw.hidden_act.as_deref().filter(|&activation| activation != "silu") {
        return Some(format!("hidden_act {activation}"));
    }
    if raw.quantization_config.is_some() {
        return Some(String::from("quantization_config (quantized weights)"));
    }
    if let Some(factor) = raw.partial_rotary_factor.filter(|&factor| factor != 1.0) {
        return Some(format!("partial_rotary_factor {factor}"));
    }
    // A window as long as the context has no effect. Llama models ignore the field.
    let window = raw.sliding_window.filter(|&window| window < raw.max_position_embeddings);
    window
        .filter(|_| raw.model_type.as_deref() == Some("mistral"))
        .map(|window| format!("a sliding_window of {window} tokens"))
}

fn rope_scaling(raw: &RawConfig, path: &Path) -> Result<RopeScaling, ModelError> {
    let Some(rope) = raw.rope_scaling.as_ref().or(raw.rope_parameters.as_ref()) else {
        return Ok(RopeScaling::None);
    };
    let number = |name: &str, value: Option<f32>| {
        value.filter(|value| *value > 0.0 && value.is_finite()).ok_or_else(|| ModelError::Config {
            path: path.to_owned(),
            reason: format!("{name} of the rope scaling is missing or not positive"),
        })
    };
    match rope.rope_type.as_deref().or(rope.r#type.as_deref()).unwrap_or("default") {
        "default" => Ok(RopeScaling::None),
        "linear" => Ok(RopeScaling::Linear { factor: number("factor", rope.factor)? }),
        "llama3" => {
            let low_frequency_factor = number("low_freq_factor", rope.low_freq_factor)?;
            let high_frequency_factor = number("high_freq_factor", rope.high_freq_factor)?;
            if high_frequency_factor <= low_frequency_factor {
                let reason = String::from("high_freq_factor of the rope scaling is not above low_freq_factor");
                return Err(ModelError::Config { path: path.to_owned(), reason });
            }
            let original = rope.original_max_position_embeddings;
            Ok(RopeScaling::Llama3 {
                factor: number("factor", rope.factor)?,
                low_frequency_factor,
                high_frequency_factor,
                original_context: number("original_max_position_embeddings", original)?,
            })
        }
        other => Err(ModelError::Unsupported { path: path.to_owned(), feature: format!("rope scaling {other}") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ergometer_diagnostics::{CommandLine, Diagnostic as _};
    use serde_json::{Value, json};

    /// Parses the tiny model's configuration with some fields changed; null removes a field.
    fn parse(changes: &Value) -> Result<Config, ModelError> {
        let bytes = include_bytes!("../../../assets/models/tiny/config.json");
        let mut config: Value = serde_json::from_slice(bytes).unwrap();
        for (name, value) in changes.as_object().unwrap() {
            config[name] = value.clone();
        }
        let bytes = serde_json::to_vec(&config).unwrap();
        Config::parse(Path::new("config.json"), &bytes)
    }

    #[test]
    fn missing_fields_have_the_defaults_of_transformers() {
        let missing = json!({"num_key_value_heads": null, "head_dim": null, "rope_theta": null, "eos_token_id": [1, 2],
            "tie_word_embeddings": null, "hidden_act": null});
        let config = parse(&missing).unwrap();
        assert_eq!((config.key_value_heads, config.head_size, config.rope_theta), (4, 16, 10_000.0));
        assert_eq!(config.end_tokens, [1, 2]);
        assert_eq!(parse(&json!({"head_dim": 32})).unwrap().head_size, 32);
        assert!(parse(&json!({"model_type": "mistral", "sliding_window": null})).is_ok());
        assert!(parse(&json!({"model_type": "mistral", "sliding_window": 4096})).is_ok(), "longer than the context");
    }

    #[test]
    fn rope_scaling_is_parsed_from_old_and_new_names() {
        let linear = RopeScaling::Linear { factor: 2.0 };
        let old = json!({"rope_scaling": {"type": "linear", "factor": 2.0}});
        assert_eq!(parse(&old).unwrap().rope_scaling, linear);
        let new = json!({"rope_theta": null, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}});
        assert_eq!(parse(&new).unwrap().rope_theta, 5e5);
        let llama = json!({"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}});
        assert!(matches!(parse(&llama).unwrap().rope_scaling, RopeScaling::Llama3 { original_context: 8192.0, .. }));
    }

    #[test]
    fn the_error_names_the_unsupported_feature() {
        for (changes, name) in [
            (json!({"model_type": "qwen3"}), "model_type qwen3"),
            (json!({"model_type": null}), "model_type (none)"),
            (json!({"hidden_act": "gelu"}), "hidden_act gelu"),
            (json!({"quantization_config": {"bits": 4}}), "quantization_config"),
            (json!({"partial_rotary_factor": 0.5}), "partial_rotary_factor 0.5"),
            (json!({"model_type": "mistral", "sliding_window": 128}), "sliding_window of 128"),
            (json!({"rope_scaling": {"rope_type": "yarn", "factor": 2}}), "rope scaling yarn"),
        ] {
            let error = parse(&changes).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
            let hint = error.hint().unwrap().phrase(&CommandLine);
            assert!(hint.starts_with("use a supported model"), "{hint}");
        }
    }

    #[test]
    fn invalid_sizes_are_errors() {
        for changes in [
            json!({"num_attention_heads": 0}),
            json!({"num_key_value_heads": 0}),
            json!({"num_key_value_heads": 3}),
            json!({"num_attention_heads": 5}),
            json!({"hidden_size": 0}),
            json!({"vocab_size": 0}),
            json!({"num_hidden_layers": 0}),
            json!({"max_position_embeddings": 0}),
            json!({"head_dim": 15}),
            json!({"head_dim": 0}),
            json!({"head_dim": u64::MAX - 1}),
            json!({"vocab_size": u64::MAX}),
            json!({"intermediate_size": 1_u64 << 40}),
            json!({"rms_norm_eps": -1.0}),
            json!({"rope_theta": 0.0}),
            json!({"rope_theta": 1e300}),
            json!({"rope_scaling": {"type": "linear"}}),
            json!({"rope_scaling": {"type": "linear", "factor": 0.0}}),
            json!({"hidden_size": -64}),
            json!({"hidden_size": "64"}),
        ] {
            let error = parse(&changes).unwrap_err().to_string();
            assert!(error.contains("config.json"), "{changes}: {error}");
        }
        for (changes, reason) in [
            (json!({"num_hidden_layers": 0}), "num_hidden_layers is 0"),
            (json!({"num_key_value_heads": 0}), "num_key_value_heads is 0"),
            (json!({"vocab_size": u64::MAX}), "vocab_size is above 2^28"),
            (json!({"head_dim": u64::MAX - 1}), "num_attention_heads times head_dim is above 2^28"),
        ] {
            assert!(parse(&changes).unwrap_err().to_string().contains(reason), "{changes}");
        }
    }
}
