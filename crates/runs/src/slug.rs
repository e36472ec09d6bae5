//! Builds names of run folders from the names of hardware, models and datasets.
//!
//! A result is never empty, has only letters, digits and `_`, and is one path component.

use sha2::{Digest, Sha256};

/// The longest file name, in bytes, on common file systems.
const LONGEST_NAME: usize = 255;

/// The longest other parts, in bytes. With `profile_` and three `_`, 44 bytes are left for the model.
const LONGEST_HARDWARE: usize = 40;
const LONGEST_PART: usize = 80;

/// The slug of a model: every character that is not alphanumeric becomes `_`, and `_` at the ends is removed; `model`
/// if nothing is left.
///
/// ```
/// assert_eq!(ergometer_runs::slug::slug("meta-llama/Llama-3.1-8B"), "meta_llama_Llama_3_1_8B");
/// ```
#[must_use]
pub fn slug(name: &str) -> String {
    slug_or(name, "model")
}

/// The name of a run's folder: `profile_<hardware>_<model>_<dataset>[_<suffix>]`, each part slugged.
///
/// It has at most 255 bytes. A part that is too long is cut, and ends in eight hexadecimal digits of the SHA-256 of the
/// full name, so that two long names get different folders; the model is cut first. A suffix without letters or digits is
/// ignored.
#[must_use]
pub fn folder_name(hardware: &str, model: &str, dataset: &str, suffix: Option<&str>) -> String {
    named("profile", hardware, model, [dataset, suffix.unwrap_or_default()])
}

/// The name of a sweep's folder: `sweep_<hardware>_<model>_<dataset>[_<suffix>]`, by the rules of [`folder_name`].
#[must_use]
pub fn sweep_folder_name(hardware: &str, model: &str, dataset: &str, suffix: Option<&str>) -> String {
    named("sweep", hardware, model, [dataset, suffix.unwrap_or_default()])
}

fn named(kind: &str, hardware: &str, model: &str, [dataset, suffix]: [&str; 2]) -> String {
    let hardware_part = cut(slug_or(hardware, "UNKNOWN_HW"), hardware, LONGEST_HARDWARE);
    let dataset_part = cut(slug_or(dataset, "dataset"), dataset, LONGEST_PART);
    let suffix_part = match slug_or(suffix, "") {
        empty if empty.is_empty() => empty,
        name => format!("_{}", cut(name, suffix, LONGEST_PART)),
    };
    let others = kind.len() + "___".len() + hardware_part.len() + dataset_part.len() + suffix_part.len();
    let model_part = cut(slug(model), model, LONGEST_NAME.saturating_sub(others));
    format!("{kind}_{hardware_part}_{model_part}_{dataset_part}{suffix_part}")
}

fn slug_or(name: &str, otherwise: &str) -> String {
    let replaced: String =
        name.chars().map(|character| if character.is_alphanumeric() { character } else { '_' }).collect();
    match replaced.trim_matches('_') {
        "" => otherwise.to_owned(),
        slug => slug.to_owned(),
    }
}

/// Cuts a slug to a number of bytes, with a hash of the whole name at its end.
fn cut(slug: String, name: &str, longest: usize) -> String {
    if slug.len() <= longest {
        return slug;
    }
    let digest = Sha256::digest(name.as_bytes());
    let hash = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
    let kept = longest.saturating_sub("_01234567".len());
    let end = slug.char_indices().map(|(start, character)| start + character.len_utf8()).take_while(|&end| end <= kept);
    format!("{}_{hash:08x}", slug[..end.last().unwrap_or(0)].trim_end_matches('_'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn slugs_match_the_record_layout() {
        for (name, expected) in [
            ("tiny", "tiny"),
            ("Qwen/Qwen2.5-0.5B-Instruct", "Qwen_Qwen2_5_0_5B_Instruct"),
            ("llama3.2:1b", "llama3_2_1b"),
            ("./models/a.gguf", "models_a_gguf"),
            ("../../etc/passwd", "etc_passwd"),
            ("a--b", "a__b"),
            ("", "model"),
            ("/..-", "model"),
            ("模型-7B", "模型_7B"),
        ] {
            assert_eq!(slug(name), expected, "{name}");
        }
    }

    #[test]
    fn a_folder_is_named_after_hardware_model_and_dataset() {
        assert_eq!(folder_name("H200x8", "org/m-1", "builtin", None), "profile_H200x8_org_m_1_builtin");
        assert_eq!(folder_name("M3", "tiny", "gsm8k", Some("night 2")), "profile_M3_tiny_gsm8k_night_2");
        assert_eq!(folder_name("", "", "", Some("..")), "profile_UNKNOWN_HW_model_dataset");
        assert_eq!(sweep_folder_name("M3", "tiny", "gsm8k", Some("night 2")), "sweep_M3_tiny_gsm8k_night_2");
    }

    #[test]
    fn long_names_are_cut_and_stay_different() {
        let (first, second) = ("m".repeat(300), "m".repeat(301));
        let folders = [&first, &second].map(|model| folder_name("H200", model, "builtin", None));
        assert_ne!(folders[0], folders[1]);
        assert!(folders.iter().all(|folder| folder.len() == 255 && folder.ends_with("_builtin")), "{folders:?}");
        let all = folder_name(&first, &first, &first, Some(&first));
        assert_eq!(all.len(), 255, "{all}");
    }

    proptest! {
        #[test]
        fn a_folder_is_one_safe_component(
            hardware in ".{0,99}", model in ".{0,300}", dataset in ".{0,300}", suffix in prop::option::of(".{0,300}"))
        {
            let folder = folder_name(&hardware, &model, &dataset, suffix.as_deref());
            prop_assert!(folder.starts_with("profile_") && folder.len() <= 255);
            prop_assert!(folder.chars().all(|character| character.is_alphanumeric() || character == '_'));
            prop_assert!(!slug(&model).is_empty() && !folder.ends_with('_'));
        }
    }
}
