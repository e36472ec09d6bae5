//! Computes attention over cached keys and values.
//!
//! A query at position `p` attends to positions up to and including `p`. If there are fewer key-value heads than query
//! heads, neighbouring query heads share one (grouped-query attention).

use rayon::prelude::*;

use crate::vector::{add_scaled, dot, softmax};

/// The number and size of the attention heads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heads {
    /// Query heads.
    pub(crate) count: usize,
    /// Key-value heads; `count` is a multiple of this.
    pub(crate) key_value_count: usize,
    /// Elements in a head.
    pub(crate) size: usize,
}

/// Keys and values of one layer. Each key-value head has its own vector, so that a head reads memory sequentially.
#[derive(Debug, Default)]
pub(crate) struct LayerCache {
    keys: Vec<Vec<f32>>,
    values: Vec<Vec<f32>>,
}

impl LayerCache {
    pub(crate) fn new(heads: Heads) -> Self {
        Self { keys: vec![Vec::new(); heads.key_value_count], values: vec![Vec::new(); heads.key_value_count] }
    }

    /// Appends the keys and values of further positions. Each row holds all key-value heads of a position.
    pub(crate) fn extend(&mut self, keys: &[f32], values: &[f32], heads: Heads) {
        for (cached, rows) in [(&mut self.keys, keys), (&mut self.values, values)] {
            for row in rows.chunks_exact(heads.key_value_count * heads.size) {
                for (cached, head) in cached.iter_mut().zip(row.chunks_exact(heads.size)) {
                    cached.extend_from_slice(head);
                }
            }
        }
    }

    /// Attends from each row of `queries`; the first row is at position `first`. `parallel` splits the heads of all
    /// rows over rayon's threads. Each head is computed in a fixed order, so the result is the same.
    pub(crate) fn attend(&self, queries: &[f32], first: usize, heads: Heads, parallel: bool, outputs: &mut [f32]) {
        let group = heads.count / heads.key_value_count;
        let attend_one = |scores: &mut Vec<f32>, (index, output): (usize, &mut [f32])| {
            let (row, head) = (index / heads.count, index % heads.count);
            let query = &queries[index * heads.size..][..heads.size];
            let visible = (first + row + 1) * heads.size;
            let (keys, values) = (&self.keys[head / group][..visible], &self.values[head / group][..visible]);
            attend_head(query, keys, values, scores, output);
        };
        if parallel {
            outputs.par_chunks_exact_mut(heads.size).enumerate().for_each_init(Vec::new, attend_one);
        } else {
            let mut scores = Vec::new();
            outputs.chunks_exact_mut(heads.size).enumerate().for_each(|output| attend_one(&mut scores, output));
        }
    }
}

/// Computes the output of one head at one position.
fn attend_head(query: &[f32], keys: &[f32], values: &[f32], scores: &mut Vec<f32>, output: &mut [f32]) {
    let scale = 1.0 / (query.len() as f32).sqrt();
    scores.clear();
    scores.extend(keys.chunks_exact(query.len()).map(|key| dot(query, key) * scale));
    softmax(scores);
    output.fill(0.0);
    for (weight, value) in scores.iter().zip(values.chunks_exact(query.len())) {
        add_scaled(output, value, *weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_weighs_values_by_the_softmax_of_its_scaled_scores() {
        // Scores 0 and ln 3 after the scale of 1/2: weights 1/4 and 3/4.
        let keys = [0.0, 1.0, 0.0, 0.0, 2.0 * 3_f32.ln(), 0.0, 0.0, 0.0];
        let values = [4.0, 0.0, 8.0, 0.0, 0.0, 4.0, 8.0, 0.0];
        let mut output = [f32::NAN; 4];
        attend_head(&[1.0, 0.0, 0.0, 0.0], &keys, &values, &mut Vec::new(), &mut output);
        let expected = [1.0, 3.0, 8.0, 0.0];
        assert!(output.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-5), "{output:?}");
    }

    #[test]
    fn a_query_ignores_later_positions_and_uses_the_head_of_its_group() {
        let heads = Heads { count: 4, key_value_count: 2, size: 2 };
        let mut cache = LayerCache::new(heads);
        // Equal keys give equal weights: the output is the mean of the visible values.
        cache.extend(&[0.0; 8], &[1.0, 1.0, 10.0, 10.0, 3.0, 3.0, 30.0, 30.0], heads);
        let (mut serial, mut parallel) = (vec![0.0; 16], vec![0.0; 16]);
        cache.attend(&[1.0; 16], 0, heads, false, &mut serial);
        let first = [1.0, 1.0, 1.0, 1.0, 10.0, 10.0, 10.0, 10.0];
        let second = [2.0, 2.0, 2.0, 2.0, 20.0, 20.0, 20.0, 20.0];
        assert_eq!(serial, [first, second].concat());
        cache.attend(&[1.0; 16], 0, heads, true, &mut parallel);
        assert_eq!(parallel, serial);
    }
}
