//! Computes the logits of the next token with the Llama architecture.
//!
//! The weights are shared and never change; the state of a request is in its [`Session`]. Processing tokens in one
//! batch or one by one gives the same logits up to rounding.

use std::ops::ControlFlow;

use crate::attention::{Heads, LayerCache};
use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::error::ModelError;
use crate::matrix::Matrix;
use crate::rope::{Rope, Rotations};
use crate::vector::{add, rms_norm, silu_gate};

/// The maximum number of tokens in a prefill batch. It bounds the memory of a session: 256 tokens of a feed-forward
/// block of 14,336 take 15 MB.
const BATCH: usize = 256;

/// The weights of a model.
pub(crate) struct Transformer {
    embedding: Matrix,
    layers: Vec<Layer>,
    norm: Vec<f32>,
    /// `None` with tied embeddings.
    head: Option<Matrix>,
    rope: Rope,
    heads: Heads,
    norm_epsilon: f32,
    hidden_size: usize,
}

struct Layer {
    attention_norm: Vec<f32>,
    query: Linear,
    key: Linear,
    value: Linear,
    attention_output: Linear,
    feed_forward_norm: Vec<f32>,
    gate: Linear,
    up: Linear,
    down: Linear,
}

/// A matrix and, in some models, a bias.
struct Linear {
    weight: Matrix,
    bias: Option<Vec<f32>>,
}

/// The state of one request: its key-value cache, its buffers and the logits after its last token.
pub(crate) struct Session {
    caches: Vec<LayerCache>,
    length: usize,
    logits: Vec<f32>,
    buffers: Buffers,
}

/// Buffers reused from token to token, to avoid allocations.
#[derive(Default)]
struct Buffers {
    hidden: Vec<f32>,
    normed: Vec<f32>,
    queries: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
    attended: Vec<f32>,
    gate: Vec<f32>,
    up: Vec<f32>,
    output: Vec<f32>,
    products: Vec<f32>,
    rotations: Rotations,
}

impl Session {
    /// Logits of the token after the last one.
    pub(crate) fn logits(&self) -> &[f32] {
        &self.logits
    }

    /// The number of tokens processed.
    pub(crate) fn length(&self) -> usize {
        self.length
    }
}

impl Linear {
    fn load(from: &mut Checkpoint, name: &str, shape: (usize, usize), bias: bool) -> Result<Self, ModelError> {
        let weight = from.matrix(&format!("{name}.weight"), shape.0, shape.1)?;
        let bias = bias.then(|| from.vector(&format!("{name}.bias"), shape.0)).transpose()?;
        Ok(Self { weight, bias })
    }

    /// Computes one output vector for each of the `count` inputs. It resizes `outputs`.
    fn apply(&self, inputs: &[f32], count: usize, outputs: &mut Vec<f32>, products: &mut Vec<f32>) {
        outputs.resize(count * self.weight.rows(), 0.0);
        self.weight.multiply(inputs, outputs, products);
        if let Some(bias) = &self.bias {
            outputs.chunks_exact_mut(bias.len()).for_each(|output| add(output, bias));
        }
    }
}

impl Transformer {
    /// Loads the weights from a checkpoint.
    pub(crate) fn load(config: &Config, from: &mut Checkpoint) -> Result<Self, ModelError> {
        let embedding = from.matrix("model.embed_tokens.weight", config.vocabulary, config.hidden_size)?;
        let layers = (0..config.layers).map(|index| Layer::load(config, from, index)).collect::<Result<_, _>>()?;
        let norm = from.vector("model.norm.weight", config.hidden_size)?;
        let head = (!config.tied_embeddings)
            .then(|| from.matrix("lm_head.weight", config.vocabulary, config.hidden_size))
            .transpose()?;
        Ok(Self {
            embedding,
            layers,
            norm,
            head,
            rope: Rope::new(config.head_size, config.rope_theta, config.rope_scaling),
            heads: Heads { count: config.heads, key_value_count: config.key_value_heads, size: config.head_size },
            norm_epsilon: config.norm_epsilon,
            hidden_size: config.hidden_size,
        })
    }

    /// The number of tokens with an embedding.
    pub(crate) fn vocabulary(&self) -> usize {
        self.embedding.rows()
    }

    /// An empty session.
    pub(crate) fn session(&self) -> Session {
        let caches = self.layers.iter().map(|_| LayerCache::new(self.heads)).collect();
        Session { caches, length: 0, logits: Vec::new(), buffers: Buffers::default() }
    }

    /// Processes further tokens. Each is below [`Transformer::vocabulary`].
    #[cfg(test)]
    pub(crate) fn forward(&self, tokens: &[u32], session: &mut Session) {
        let _ = self.forward_while(tokens, session, &|| true);
    }

    /// Processes further tokens while `keep_going`, called before every layer, returns true. Each token is below
    /// [`Transformer::vocabulary`]. After a `Break` the session must not be used again.
    pub(crate) fn forward_while(
        &self,
        tokens: &[u32],
        session: &mut Session,
        keep_going: &dyn Fn() -> bool,
    ) -> ControlFlow<()> {
        for batch in tokens.chunks(BATCH) {
            self.embed(batch, &mut session.buffers);
            self.rope.rotations(session.length, batch.len(), &mut session.buffers.rotations);
            for (layer, cache) in self.layers.iter().zip(&mut session.caches) {
                if !keep_going() {
                    return ControlFlow::Break(());
                }
                self.attend(layer, cache, session.length, &mut session.buffers);
                self.feed_forward(layer, &mut session.buffers);
            }
            session.length += batch.len();
        }
        if !tokens.is_empty() {
            self.predict(session);
        }
        ControlFlow::Continue(())
    }

    /// Whether products of any matrix use several threads.
    pub(crate) fn is_parallel(&self) -> bool {
        let has_parallel_matrix = |layer: &Layer| {
            [&layer.query, &layer.key, &layer.value, &layer.attention_output, &layer.gate, &layer.up, &layer.down]
                .iter()
                .any(|linear| linear.weight.is_parallel())
        };
        self.embedding.is_parallel() || self.layers.iter().any(has_parallel_matrix)
    }

    fn embed(&self, tokens: &[u32], buffers: &mut Buffers) {
        buffers.hidden.resize(tokens.len() * self.hidden_size, 0.0);
        for (token, hidden) in tokens.iter().zip(buffers.hidden.chunks_exact_mut(self.hidden_size)) {
            self.embedding.copy_row(*token as usize, hidden);
        }
        buffers.normed.resize(buffers.hidden.len(), 0.0);
    }

    fn attend(&self, layer: &Layer, cache: &mut LayerCache, first: usize, buffers: &mut Buffers) {
        let Buffers { hidden, normed, queries, keys, values, attended, output, products, rotations, .. } = buffers;
        let count = hidden.len() / self.hidden_size;
        rms_norm(hidden, &layer.attention_norm, self.norm_epsilon, normed);
        layer.query.apply(normed, count, queries, products);
        layer.key.apply(normed, count, keys, products);
        layer.value.apply(normed, count, values, products);
        self.rope.rotate(rotations, queries, self.heads.count);
        self.rope.rotate(rotations, keys, self.heads.key_value_count);
        cache.extend(keys, values, self.heads);
        attended.resize(queries.len(), 0.0);
        cache.attend(queries, first, self.heads, layer.query.weight.is_parallel(), attended);
        layer.attention_output.apply(attended, count, output, products);
        add(hidden, output);
    }

    fn feed_forward(&self, layer: &Layer, buffers: &mut Buffers) {
        let Buffers { hidden, normed, gate, up, output, products, .. } = buffers;
        let count = hidden.len() / self.hidden_size;
        rms_norm(hidden, &layer.feed_forward_norm, self.norm_epsilon, normed);
        layer.gate.apply(normed, count, gate, products);
        layer.up.apply(normed, count, up, products);
        silu_gate(gate, up);
        layer.down.apply(gate, count, output, products);
        add(hidden, output);
    }

    /// Computes the logits after the last token. The logits after earlier tokens are not needed.
    fn predict(&self, session: &mut Session) {
        let Buffers { hidden, normed, products, .. } = &mut session.buffers;
        let last = &hidden[hidden.len() - self.hidden_size..];
        normed.resize(self.hidden_size, 0.0);
        rms_norm(last, &self.norm, self.norm_epsilon, normed);
        session.logits.resize(self.vocabulary(), 0.0);
        self.head.as_ref().unwrap_or(&self.embedding).multiply(normed, &mut session.logits, products);
    }
}

impl Layer {
    fn load(config: &Config, from: &mut Checkpoint, index: usize) -> Result<Self, ModelError> {
        let (hidden, intermediate) = (config.hidden_size, config.intermediate_size);
        let (queries, keys) = (config.heads * config.head_size, config.key_value_heads * config.head_size);
        let (attention, mlp) = (config.attention_bias, config.mlp_bias);
        let name = |part: &str| format!("model.layers.{index}.{part}");
        Ok(Self {
            attention_norm: from.vector(&name("input_layernorm.weight"), hidden)?,
            query: Linear::load(from, &name("self_attn.q_proj"), (queries, hidden), attention)?,
            key: Linear::load(from, &name("self_attn.k_proj"), (keys, hidden), attention)?,
            value: Linear::load(from, &name("self_attn.v_proj"), (keys, hidden), attention)?,
            attention_output: Linear::load(from, &name("self_attn.o_proj"), (hidden, queries), attention)?,
            feed_forward_norm: from.vector(&name("post_attention_layernorm.weight"), hidden)?,
            gate: Linear::load(from, &name("mlp.gate_proj"), (intermediate, hidden), mlp)?,
            up: Linear::load(from, &name("mlp.up_proj"), (intermediate, hidden), mlp)?,
            down: Linear::load(from, &name("mlp.down_proj"), (hidden, intermediate), mlp)?,
        })
    }
}

#[cfg(test)]
mod reference;
