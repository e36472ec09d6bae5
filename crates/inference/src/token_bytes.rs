//! How many bytes of text a token covers at most, to refuse a prompt that cannot fit before it is tokenized.
//!
//! Tokenizing needs about 140 bytes of memory per byte of text.

use serde_json::Value;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{ModelWrapper, Tokenizer};

/// Some tokenizers shorten a text before they split it (Unicode normalization, stripped white space), or make one token
/// of a whole unknown word. On average over a prompt that does not gain more than this factor.
const SHORTENED: usize = 16;

/// The most bytes of text that a token covers, on average over a long text.
pub(crate) fn bytes_per_token(tokenizer: &Tokenizer) -> usize {
    // The text of a token has at least as many bytes as the text that it covers: a space may be written as `▁`, and a
    // byte as `<0x0A>` or as a letter of two bytes.
    let longest = tokenizer.get_vocab(true).keys().map(String::len).max().unwrap_or(0).max(1);
    if keeps_all_text(tokenizer) { longest } else { longest.saturating_mul(SHORTENED) }
}

/// Whether every byte of a text is in a token of the vocabulary.
fn keeps_all_text(tokenizer: &Tokenizer) -> bool {
    let ModelWrapper::BPE(model) = tokenizer.get_model() else { return false };
    let normalizer = tokenizer.get_normalizer().map(serde_json::to_value);
    let splitter = tokenizer.get_pre_tokenizer().map(serde_json::to_value);
    let is_known = |token: &str| tokenizer.token_to_id(token).is_some();
    let splits_bytes = splitter.as_ref().is_some_and(|splitter| splitter.as_ref().is_ok_and(has_byte_level));
    let has_all_bytes = (splits_bytes && ByteLevel::alphabet().iter().all(|letter| is_known(&letter.to_string())))
        || (model.byte_fallback && (0..=u8::MAX).all(|byte| is_known(&format!("<{byte:#04X}>"))));
    has_all_bytes
        && model.continuing_subword_prefix.is_none()
        && model.end_of_word_suffix.is_none()
        && normalizer.is_none_or(|normalizer| normalizer.is_ok_and(|normalizer| only_lengthens(&normalizer)))
        && splitter.is_none_or(|splitter| splitter.is_ok_and(|splitter| only_splits(&splitter)))
        && tokenizer.get_added_tokens_decoder().values().all(|token| !token.lstrip && !token.rstrip)
}

fn kind(step: &Value) -> &str {
    step["type"].as_str().unwrap_or_default()
}

/// Whether a normalizer never makes a text shorter.
fn only_lengthens(normalizer: &Value) -> bool {
    match kind(normalizer) {
        "Prepend" => true,
        "Replace" => match (normalizer["pattern"]["String"].as_str(), normalizer["content"].as_str()) {
            (Some(pattern), Some(content)) => content.len() >= pattern.len(),
            _ => false,
        },
        "Sequence" => normalizer["normalizers"].as_array().is_some_and(|steps| steps.iter().all(only_lengthens)),
        _ => false,
    }
}

/// Whether a pre-tokenizer removes no text.
fn only_splits(splitter: &Value) -> bool {
    match kind(splitter) {
        "ByteLevel" | "Metaspace" | "Digits" => true,
        "Split" => splitter["behavior"].as_str().is_some_and(|behavior| behavior != "Removed"),
        "Sequence" => splitter["pretokenizers"].as_array().is_some_and(|steps| steps.iter().all(only_splits)),
        _ => false,
    }
}

fn has_byte_level(splitter: &Value) -> bool {
    kind(splitter) == "ByteLevel"
        || splitter["pretokenizers"].as_array().is_some_and(|steps| steps.iter().any(has_byte_level))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::demo::Demo;

    /// The bound for the demo tokenizer with some fields replaced.
    fn bound(changes: &[(&str, Value)]) -> usize {
        let mut json: Value = serde_json::from_slice(&Demo::Tiny.files().tokenizer.bytes).unwrap();
        for (pointer, value) in changes {
            *json.pointer_mut(pointer).unwrap() = value.clone();
        }
        bytes_per_token(&Tokenizer::from_bytes(serde_json::to_vec(&json).unwrap()).unwrap())
    }

    #[test]
    fn the_longest_token_is_the_bound() {
        assert_eq!(bound(&[]), "<answer>".len());
        let split = json!({"type": "Split", "pattern": {"String": " "}, "behavior": "Isolated", "invert": false});
        let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
        let both = json!({"type": "Sequence", "pretokenizers": [split, bytes]});
        assert_eq!(bound(&[("/pre_tokenizer", both)]), 8);
        let space = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
        let normalizers = json!({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, space]});
        assert_eq!(bound(&[("/normalizer", normalizers)]), 8);
    }

    #[test]
    fn a_tokenizer_that_may_shorten_the_text_has_a_wide_bound() {
        let removed = json!({"type": "Replace", "pattern": {"String": "a"}, "content": ""});
        let split = json!({"type": "Split", "pattern": {"String": " "}, "behavior": "Removed", "invert": false});
        for (pointer, value) in [
            ("/normalizer", json!({"type": "NFC"})),
            ("/normalizer", removed),
            ("/pre_tokenizer", split),
            ("/pre_tokenizer", json!(null)),
            ("/added_tokens/0/rstrip", json!(true)),
            ("/model/end_of_word_suffix", json!("</w>")),
        ] {
            assert_eq!(bound(&[(pointer, value.clone())]), 8 * SHORTENED, "{pointer} {value}");
        }
    }
}
