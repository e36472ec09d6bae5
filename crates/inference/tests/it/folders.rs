//! Loading model folders: complete, sharded, in several number formats, and damaged.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ergometer_diagnostics::{CommandLine, Diagnostic as _};
use ergometer_inference::{Demo, GenerateError, Generation, Model, ModelError, Sampling, WeightType};
use half::bf16;
use proptest::prelude::*;
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::accuracy::answer;

const QUESTION: &str = "What is 39 + 1?";

/// A copy of the tiny model's folder.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/models/tiny");
    for name in ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"] {
        fs::copy(source.join(name), folder.path().join(name)).expect("copied");
    }
    folder
}

fn edit(folder: &TempDir, name: &str, change: impl FnOnce(&mut Value)) {
    let path = folder.path().join(name);
    let mut json = serde_json::from_slice(&fs::read(&path).expect("there")).expect("JSON");
    change(&mut json);
    fs::write(path, json.to_string()).expect("written");
}

type Tensors = BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

fn tensors(folder: &TempDir) -> Tensors {
    let bytes = fs::read(folder.path().join("model.safetensors")).expect("there");
    let file = SafeTensors::deserialize(&bytes).expect("whole");
    let own = |tensor: TensorView| (tensor.dtype(), tensor.shape().to_vec(), tensor.data().to_vec());
    file.tensors().into_iter().map(|(name, tensor)| (name, own(tensor))).collect()
}

fn write(path: PathBuf, tensors: &Tensors) {
    let view = |(dtype, shape, bytes)| TensorView::new(dtype, shape, bytes).expect("consistent");
    let views = tensors.iter().map(|(name, (dtype, shape, bytes))| (name, view((*dtype, shape.clone(), bytes))));
    fs::write(path, serialize(views, None).expect("serialized")).expect("written");
}

fn rewrite(folder: &TempDir, change: impl FnOnce(&mut Tensors)) {
    let mut tensors = tensors(folder);
    change(&mut tensors);
    write(folder.path().join("model.safetensors"), &tensors);
}

/// A few tokens.
fn generate(model: &Model, problem: &str) -> Result<Generation, GenerateError> {
    let sampling = Sampling { max_tokens: Some(3), ..Sampling::default() };
    model.generate(&model.encode(None, problem)?, &sampling, &mut |_| ControlFlow::Continue(()))
}

fn error(folder: &TempDir) -> ModelError {
    Model::load(folder.path()).expect_err("a broken folder")
}

#[test]
fn a_copy_of_the_demo_loads_from_its_folder() {
    let folder = folder();
    let model = Model::load(folder.path()).expect("loads");
    assert_eq!(answer(&model, QUESTION), "40");
    assert_eq!(model.info().name, folder.path().file_name().expect("a name").to_string_lossy());
    let demo = Model::demo(Demo::Tiny).expect("loads");
    assert_eq!(model.info().weight_bytes, demo.info().weight_bytes);
}

#[test]
fn shards_are_loaded_together() {
    let folder = folder();
    let mut first = tensors(&folder);
    let second = first.split_off("model.layers.1");
    let map =
        |tensors: &Tensors, shard: &str| tensors.keys().map(|name| (name.clone(), json!(shard))).collect::<Vec<_>>();
    let (one, two) = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors");
    let weight_map: serde_json::Map<String, Value> = map(&first, one).into_iter().chain(map(&second, two)).collect();
    write(folder.path().join(one), &first);
    write(folder.path().join(two), &second);
    fs::remove_file(folder.path().join("model.safetensors")).expect("removed");
    let index = folder.path().join("model.safetensors.index.json");
    fs::write(&index, json!({"metadata": {}, "weight_map": weight_map}).to_string()).expect("written");
    assert_eq!(answer(&Model::load(folder.path()).expect("loads"), QUESTION), "40");

    fs::remove_file(folder.path().join(two)).expect("removed");
    assert!(error(&folder).to_string().contains(two));
    for broken in [json!({"weight_map": {}}), json!({"weight_map": {"a": "../outside.safetensors"}}), json!([1])] {
        fs::write(&index, broken.to_string()).expect("written");
        assert!(matches!(error(&folder), ModelError::Index { .. } | ModelError::Json { .. }), "{broken}");
    }
}

#[test]
fn weights_in_other_formats_are_converted() {
    let convert = |into: Dtype, bytes: &[u8]| -> Vec<u8> {
        let (halves, _) = bytes.as_chunks::<2>();
        let floats = halves.iter().map(|&two| half::f16::from_le_bytes(two).to_f32());
        match into {
            Dtype::F32 => floats.flat_map(f32::to_le_bytes).collect(),
            _ => floats.flat_map(|float| bf16::from_f32(float).to_le_bytes()).collect(),
        }
    };
    for (dtype, weight_type) in [(Dtype::F32, WeightType::F32), (Dtype::BF16, WeightType::Bf16)] {
        let folder = folder();
        rewrite(&folder, |tensors| {
            for tensor in tensors.values_mut() {
                *tensor = (dtype, tensor.1.clone(), convert(dtype, &tensor.2));
            }
        });
        let model = Model::load(folder.path()).expect("loads");
        assert_eq!(model.info().weight_type, weight_type);
        assert_eq!(answer(&model, QUESTION), "40");
    }
}

#[test]
fn any_of_the_files_can_name_the_end_token() {
    let no_end = |folder: &TempDir| {
        edit(folder, "config.json", |config| config["eos_token_id"] = Value::Null);
        edit(folder, "tokenizer_config.json", |config| config["eos_token"] = Value::Null);
    };
    let folder = folder();
    no_end(&folder);
    let endless = Model::load(folder.path()).expect("loads");
    assert!(answer(&endless, QUESTION).len() > 2, "the answer fills the context");
    fs::write(folder.path().join("generation_config.json"), r#"{"eos_token_id": [258, 257]}"#).expect("written");
    assert_eq!(answer(&Model::load(folder.path()).expect("loads"), QUESTION), "40");
    fs::write(folder.path().join("generation_config.json"), "{}").expect("written");
    edit(&folder, "tokenizer_config.json", |config| config["eos_token"] = json!({"content": "</s>"}));
    assert_eq!(answer(&Model::load(folder.path()).expect("loads"), QUESTION), "40");
}

#[test]
fn a_model_without_template_gets_the_plain_text() {
    let folder = folder();
    fs::remove_file(folder.path().join("tokenizer_config.json")).expect("removed");
    let model = Model::load(folder.path()).expect("loads");
    assert_eq!(model.encode(Some("a"), "b").expect("a prompt").tokens(), [97, 10, 10, 98]);
    assert!(matches!(generate(&model, ""), Err(GenerateError::EmptyPrompt)));
    fs::write(folder.path().join("chat_template.jinja"), "<s>{{ messages[-1].content }}<answer>\n").expect("written");
    assert_eq!(answer(&Model::load(folder.path()).expect("loads"), QUESTION), "40");
}

#[test]
fn the_error_names_a_missing_file() {
    for (name, expected) in [
        ("config.json", "use a model folder"),
        ("tokenizer.json", "use a model folder"),
        ("model.safetensors", ".gguf"),
    ] {
        let folder = folder();
        fs::remove_file(folder.path().join(name)).expect("removed");
        let error = error(&folder);
        let hint = error.hint().expect("a hint").phrase(&CommandLine);
        assert!(error.to_string().contains(name) && hint.contains(expected), "{error}: {hint}");
    }
    let nowhere = Model::load(Path::new("/nowhere/at/all")).expect_err("not there");
    assert!(nowhere.to_string().contains("/nowhere/at/all/config.json"), "{nowhere}");
}

#[test]
fn the_error_names_an_invalid_file() {
    let names =
        ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors", "generation_config.json"];
    for name in names {
        for content in [b"".as_slice(), b"{", b"[]", b"\xFF\xFE\x00", b"null", b"\x08\0\0\0\0\0\0\0{}"] {
            let folder = folder();
            fs::write(folder.path().join(name), content).expect("written");
            let message = error(&folder).to_string();
            assert!(message.contains(name), "{content:?} in {name}: {message}");
        }
    }
    let folder = folder();
    edit(&folder, "tokenizer_config.json", |config| config["chat_template"] = json!("{% if %}"));
    assert!(matches!(error(&folder), ModelError::Template { .. }));
}

#[test]
fn weights_that_contradict_the_configuration_are_errors() {
    let broken = |change: fn(&mut Tensors)| {
        let folder = folder();
        rewrite(&folder, change);
        error(&folder)
    };
    let missing = broken(|tensors| drop(tensors.remove("model.layers.1.mlp.up_proj.weight")));
    assert!(matches!(&missing, ModelError::MissingTensor { name, .. } if name.ends_with("1.mlp.up_proj.weight")));
    let shape = broken(|tensors| tensors.get_mut("lm_head.weight").expect("there").1 = vec![64, 260]);
    assert!(shape.to_string().contains("[64, 260]") && shape.to_string().contains("[260, 64]"), "{shape}");
    let integers = broken(|tensors| tensors.get_mut("model.norm.weight").expect("there").0 = Dtype::I16);
    assert!(integers.to_string().contains("I16 of tensor model.norm.weight"), "{integers}");

    let folder = folder();
    edit(&folder, "config.json", |config| config["num_hidden_layers"] = json!(100_000_000));
    assert!(matches!(error(&folder), ModelError::MissingTensor { name, .. } if name.contains("layers.2.")));
    let bytes = fs::read(folder.path().join("model.safetensors")).expect("there");
    fs::write(folder.path().join("model.safetensors"), &bytes[..bytes.len() - 1]).expect("written");
    assert!(matches!(error(&folder), ModelError::Safetensors { .. }), "a truncated file");
}

#[test]
fn weights_that_are_not_numbers_fail_the_generation() {
    let folder = folder();
    rewrite(&folder, |tensors| tensors.get_mut("model.norm.weight").expect("there").2.fill(0xFF));
    let model = Model::load(folder.path()).expect("the shapes are right");
    assert!(matches!(generate(&model, QUESTION), Err(GenerateError::NotFinite { position: 17 })));
}

#[test]
fn a_token_outside_the_vocabulary_fails_the_generation() {
    let folder = folder();
    edit(&folder, "tokenizer.json", |tokenizer| {
        let mut extra = tokenizer["added_tokens"][0].clone();
        (extra["id"], extra["content"]) = (json!(260), json!("<extra>"));
        tokenizer["added_tokens"].as_array_mut().expect("a list").push(extra);
    });
    let model = Model::load(folder.path()).expect("loads");
    assert!(matches!(generate(&model, "<extra>"), Err(GenerateError::UnknownToken { token: 260, vocabulary: 260 })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A damaged file is an error or gives some answer; it never panics.
    #[test]
    fn damaged_files_never_panic(file in 0_usize..4, damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let folder = folder();
        let name = ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"][file];
        let mut bytes = fs::read(folder.path().join(name)).expect("there");
        // Damages the header of the weights only: any values are valid weights.
        let damageable = bytes.len().min(5_000);
        for (place, byte) in damage {
            bytes[place.index(damageable)] = byte;
        }
        fs::write(folder.path().join(name), bytes).expect("written");
        if let Ok(model) = Model::load(folder.path()) {
            let _ = generate(&model, QUESTION);
        }
    }
}
