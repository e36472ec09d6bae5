//! Compares the transformer with a simple reference implementation in 64-bit floats without cache or panels. Small
//! random models must give the same logits in both.

use std::collections::HashMap;
use std::path::Path;

use safetensors::tensor::{Dtype, TensorView, serialize};
use serde_json::{Value, json};

use super::Transformer;
use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::files::File;

/// A random model: its configuration, and its weights by name.
struct RandomModel {
    config: Config,
    weights: HashMap<String, (Vec<usize>, Vec<f32>)>,
}

impl RandomModel {
    fn new(changes: &Value) -> Self {
        let mut written = json!({"model_type": "llama", "hidden_size": 24, "intermediate_size": 40, "vocab_size": 37,
            "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 512, "rms_norm_eps": 1e-5});
        for (name, value) in changes.as_object().unwrap() {
            written[name] = value.clone();
        }
        let config = Config::parse(Path::new("config.json"), &serde_json::to_vec(&written).unwrap()).unwrap();
        let mut random = fastrand::Rng::with_seed(11);
        let mut weights = HashMap::new();
        for (name, shape) in shapes(&config) {
            let length = shape.iter().product();
            weights.insert(name, (shape, (0..length).map(|_| random.f32() - 0.5).collect()));
        }
        Self { config, weights }
    }

    fn transformer(&self) -> Transformer {
        let bytes: HashMap<&str, Vec<u8>> = self
            .weights
            .iter()
            .map(|(name, (_, w))| (name.as_str(), w.iter().flat_map(|w| w.to_le_bytes()).collect()))
            .collect();
        let view = |(name, (shape, _)): (&String, &(Vec<usize>, Vec<f32>))| {
            (name.clone(), TensorView::new(Dtype::F32, shape.clone(), &bytes[name.as_str()]).unwrap())
        };
        let file = serialize(self.weights.iter().map(view), None).unwrap();
        let files = [File { path: "model.safetensors".into(), bytes: file.into() }];
        let mut checkpoint = Checkpoint::open(&files).unwrap();
        let transformer = Transformer::load(&self.config, &mut checkpoint).unwrap();
        let parameters: usize = self.weights.values().map(|(_, weights)| weights.len()).sum();
        assert_eq!(checkpoint.tally().parameters, parameters as u64, "each weight counts once");
        transformer
    }

    /// Computes `weight * input + bias`.
    fn linear(&self, name: &str, input: &[f64]) -> Vec<f64> {
        let (_, weights) = &self.weights[&format!("{name}.weight")];
        let bias = self.weights.get(&format!("{name}.bias"));
        let product = |row: &[f32]| row.iter().zip(input).map(|(w, x)| f64::from(*w) * x).sum::<f64>();
        let rows = weights.chunks_exact(input.len()).map(product).enumerate();
        rows.map(|(row, product)| product + bias.map_or(0.0, |(_, bias)| f64::from(bias[row]))).collect()
    }

    fn norm(&self, name: &str, input: &[f64]) -> Vec<f64> {
        let mean = input.iter().map(|x| x * x).sum::<f64>() / input.len() as f64;
        let scale = 1.0 / (mean + f64::from(self.config.norm_epsilon)).sqrt();
        input.iter().zip(&self.weights[name].1).map(|(x, w)| x * scale * f64::from(*w)).collect()
    }

    fn rotate(&self, position: usize, row: &mut [f64]) {
        let size = self.config.head_size;
        for head in row.chunks_exact_mut(size) {
            for pair in 0..size / 2 {
                let exponent = 2.0 * pair as f64 / size as f64;
                let angle = position as f64 / f64::from(self.config.rope_theta).powf(exponent);
                let (left, right) = (head[pair], head[pair + size / 2]);
                head[pair] = left * angle.cos() - right * angle.sin();
                head[pair + size / 2] = right * angle.cos() + left * angle.sin();
            }
        }
    }

    fn logits(&self, tokens: &[u32]) -> Vec<f64> {
        let Config { hidden_size, heads, key_value_heads, head_size, .. } = self.config;
        let embedding = &self.weights["model.embed_tokens.weight"].1;
        let embed = |token: &u32| &embedding[*token as usize * hidden_size..][..hidden_size];
        let mut hidden: Vec<Vec<f64>> =
            tokens.iter().map(|token| embed(token).iter().map(|w| f64::from(*w)).collect()).collect();
        for layer in 0..self.config.layers {
            let name = |part: &str| format!("model.layers.{layer}.{part}");
            let (mut keys, mut values) = (Vec::new(), Vec::new());
            for (position, row) in hidden.iter_mut().enumerate() {
                let normed = self.norm(&name("input_layernorm.weight"), row);
                let mut query = self.linear(&name("self_attn.q_proj"), &normed);
                let mut key = self.linear(&name("self_attn.k_proj"), &normed);
                self.rotate(position, &mut query);
                self.rotate(position, &mut key);
                keys.push(key);
                values.push(self.linear(&name("self_attn.v_proj"), &normed));
                let mut attended = vec![0.0; heads * head_size];
                for head in 0..heads {
                    let shared = head / (heads / key_value_heads) * head_size;
                    let query = &query[head * head_size..][..head_size];
                    let score = |key: &Vec<f64>| (0..head_size).map(|i| query[i] * key[shared + i]).sum::<f64>();
                    let scores: Vec<f64> =
                        keys.iter().map(|key| (score(key) / (head_size as f64).sqrt()).exp()).collect();
                    let sum: f64 = scores.iter().sum();
                    for (weight, value) in scores.iter().zip(&values) {
                        for i in 0..head_size {
                            attended[head * head_size + i] += weight / sum * value[shared + i];
                        }
                    }
                }
                let output = self.linear(&name("self_attn.o_proj"), &attended);
                row.iter_mut().zip(output).for_each(|(x, more)| *x += more);
                let normed = self.norm(&name("post_attention_layernorm.weight"), row);
                let gate = self.linear(&name("mlp.gate_proj"), &normed);
                let up = self.linear(&name("mlp.up_proj"), &normed);
                let gated: Vec<f64> = gate.iter().zip(up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
                let output = self.linear(&name("mlp.down_proj"), &gated);
                row.iter_mut().zip(output).for_each(|(x, more)| *x += more);
            }
        }
        let last = self.norm("model.norm.weight", hidden.last().unwrap());
        self.linear(if self.config.tied_embeddings { "model.embed_tokens" } else { "lm_head" }, &last)
    }
}

/// Names and shapes of all tensors, as documented for the format.
fn shapes(config: &Config) -> Vec<(String, Vec<usize>)> {
    let (hidden, wide) = (config.hidden_size, config.intermediate_size);
    let (queries, keys) = (config.heads * config.head_size, config.key_value_heads * config.head_size);
    let mut shapes = vec![("model.norm.weight".to_owned(), vec![hidden])];
    let mut matrix = |name: String, rows, columns, bias: bool| {
        if bias {
            shapes.push((format!("{name}.bias"), vec![rows]));
        }
        shapes.push((format!("{name}.weight"), vec![rows, columns]));
    };
    matrix("model.embed_tokens".to_owned(), config.vocabulary, hidden, false);
    if !config.tied_embeddings {
        matrix("lm_head".to_owned(), config.vocabulary, hidden, false);
    }
    for layer in 0..config.layers {
        let (attention, mlp) = (config.attention_bias, config.mlp_bias);
        let name = |part: &str| format!("model.layers.{layer}.{part}");
        matrix(name("self_attn.q_proj"), queries, hidden, attention);
        matrix(name("self_attn.k_proj"), keys, hidden, attention);
        matrix(name("self_attn.v_proj"), keys, hidden, attention);
        matrix(name("self_attn.o_proj"), hidden, queries, attention);
        matrix(name("mlp.gate_proj"), wide, hidden, mlp);
        matrix(name("mlp.up_proj"), wide, hidden, mlp);
        matrix(name("mlp.down_proj"), hidden, wide, mlp);
    }
    for layer in 0..config.layers {
        shapes.push((format!("model.layers.{layer}.input_layernorm.weight"), vec![hidden]));
        shapes.push((format!("model.layers.{layer}.post_attention_layernorm.weight"), vec![hidden]));
    }
    shapes
}

/// Compares the reference with one batch, with single tokens, and with a batch followed by single tokens.
fn check(changes: &Value, length: u32) {
    let random = RandomModel::new(changes);
    let transformer = random.transformer();
    let tokens: Vec<u32> = (0..length).map(|index| index * index % 37).collect();
    let expected = random.logits(&tokens);
    for batch in [tokens.len(), 0, tokens.len() / 2] {
        let mut session = transformer.session();
        transformer.forward(&tokens[..batch], &mut session);
        tokens[batch..].iter().for_each(|token| transformer.forward(&[*token], &mut session));
        assert_eq!(session.length(), tokens.len());
        let differences =
            session.logits().iter().zip(&expected).map(|(found, expected)| (f64::from(*found) - expected).abs());
        let largest = differences.fold(0.0, f64::max);
        assert!(largest < 1e-4, "{changes}, batch of {batch}: off by {largest}");
    }
}

#[test]
fn multi_head_attention_with_untied_embeddings() {
    check(&json!({}), 12);
}

#[test]
fn grouped_query_attention_tied_embeddings_and_biases() {
    check(&json!({"num_key_value_heads": 2}), 12);
    check(&json!({"num_key_value_heads": 1, "tie_word_embeddings": true}), 12);
    check(&json!({"num_key_value_heads": 2, "attention_bias": true, "mlp_bias": true}), 12);
    check(&json!({"head_dim": 10, "rope_theta": 500_000.0, "tie_word_embeddings": true}), 12);
}

#[test]
fn a_prompt_longer_than_one_batch() {
    check(&json!({"num_key_value_heads": 2}), 300);
}

#[test]
fn matrices_that_use_several_threads() {
    // 512 x 512 = 2^18 weights. Smaller weights keep a model this wide from saturating.
    let wide = json!({"hidden_size": 512, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 8});
    let mut random = RandomModel::new(&wide);
    for (_, weights) in random.weights.values_mut() {
        for weight in weights {
            *weight *= 0.2;
        }
    }
    let (transformer, tokens) = (random.transformer(), [1, 5, 9, 2, 5]);
    assert!(transformer.layers[0].query.weight.is_parallel());
    let mut session = transformer.session();
    transformer.forward(&tokens, &mut session);
    let mut differences = session.logits().iter().zip(random.logits(&tokens));
    assert!(differences.all(|(found, expected)| (f64::from(*found) - expected).abs() < 1e-4));
}
