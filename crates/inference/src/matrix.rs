//! Weight matrices, multiplied with one vector (decode) or many vectors (prefill).
//!
//! A panel interleaves sixteen rows, so that one input is multiplied with sixteen adjacent weights: no sum runs across
//! lanes, and the compiler vectorises plain loops. The last panel is padded with zeros. A batch uses one block of a
//! panel (16 KiB, half of a small L1 cache) before the next block.
//!
//! Matrices of [`PARALLEL_WEIGHTS`] or more weights are split over rayon's threads by panel. This depends on the
//! matrix, not on the batch: a small model stays on the calling thread, however long its prompt is. One thread computes
//! a panel in a fixed order, so the result does not depend on the number of threads.

use rayon::prelude::*;

/// Rows in a panel.
const LANES: usize = 16;
/// Columns in a block of a panel.
const BLOCK: usize = 256;
/// Matrices with at least this many weights use several threads. 2^18 weights take about 30 us on one core, several
/// times as long as rayon takes to wake a thread; the largest matrix of the demo models has 49,152 weights.
pub(crate) const PARALLEL_WEIGHTS: usize = 1 << 18;
/// The minimum number of weights per task.
const TASK_WEIGHTS: usize = 1 << 16;

/// A matrix of weights, stored in panels.
pub(crate) struct Matrix {
    /// `panels[panel][column][lane]`, flat.
    panels: Vec<f32>,
    rows: usize,
    columns: usize,
}

impl Matrix {
    /// Packs a matrix in row-major order. `weights` has `rows * columns` elements and is not empty.
    pub(crate) fn pack(weights: &[f32], rows: usize, columns: usize) -> Self {
        debug_assert_eq!(weights.len(), rows * columns);
        let mut panels = vec![0.0; rows.div_ceil(LANES) * LANES * columns];
        for (rows, panel) in weights.chunks(LANES * columns).zip(panels.chunks_exact_mut(LANES * columns)) {
            for (lane, row) in rows.chunks_exact(columns).enumerate() {
                for (column, weight) in row.iter().enumerate() {
                    panel[column * LANES + lane] = *weight;
                }
            }
        }
        Self { panels, rows, columns }
    }

    /// The number of rows, which is the length of a product.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The size of the panels in bytes, including padding.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.panels.as_slice())
    }

    /// Whether products use several threads.
    pub(crate) fn is_parallel(&self) -> bool {
        self.rows * self.columns >= PARALLEL_WEIGHTS
    }

    /// Copies a row, such as the embedding of a token, into a slice. `row` is below [`Matrix::rows`].
    pub(crate) fn copy_row(&self, row: usize, into: &mut [f32]) {
        let panel = &self.panels[row / LANES * LANES * self.columns..];
        let (weights, _) = panel.as_chunks::<LANES>();
        for (value, weights) in into.iter_mut().zip(weights) {
            *value = weights[row % LANES];
        }
    }

    /// Multiplies the matrix with each input vector. `inputs` holds the vectors one after another, and `outputs` holds
    /// as many vectors of length [`Matrix::rows`]. The caller keeps `scratch` between calls to reuse its memory.
    pub(crate) fn multiply(&self, inputs: &[f32], outputs: &mut [f32], scratch: &mut Vec<f32>) {
        let vectors = inputs.len() / self.columns;
        debug_assert_eq!(outputs.len(), vectors * self.rows);
        let panel_weights = LANES * self.columns;
        // The scratch buffer is grouped by panel, so threads get disjoint slices without unsafe code.
        scratch.clear();
        scratch.resize(self.panels.len() / self.columns * vectors, 0.0);
        let multiply = |(panel, products): (&[f32], &mut [f32])| multiply_panel(panel, inputs, self.columns, products);
        if self.is_parallel() {
            let panels = self.panels.par_chunks_exact(panel_weights);
            let products = scratch.par_chunks_exact_mut(LANES * vectors);
            panels.zip(products).with_min_len(TASK_WEIGHTS.div_ceil(panel_weights * vectors)).for_each(multiply);
        } else {
            let panels = self.panels.chunks_exact(panel_weights);
            panels.zip(scratch.chunks_exact_mut(LANES * vectors)).for_each(multiply);
        }
        for (panel, products) in scratch.chunks_exact(LANES * vectors).enumerate() {
            let first = panel * LANES;
            let used = LANES.min(self.rows - first);
            for (output, products) in outputs.chunks_exact_mut(self.rows).zip(products.chunks_exact(LANES)) {
                output[first..first + used].copy_from_slice(&products[..used]);
            }
        }
    }
}

/// Adds the products of one panel with all vectors to `products`.
fn multiply_panel(panel: &[f32], inputs: &[f32], columns: usize, products: &mut [f32]) {
    let (products, _) = products.as_chunks_mut::<LANES>();
    let (weights, _) = panel.as_chunks::<LANES>();
    for (block, weights) in weights.chunks(BLOCK).enumerate() {
        let first = block * BLOCK;
        for (input, products) in inputs.chunks_exact(columns).zip(&mut *products) {
            accumulate(weights, &input[first..first + weights.len()], products);
        }
    }
}

/// Adds the products of a block with one vector. Even and odd columns have separate sums: with SSE2 that makes eight
/// independent chains of additions, enough to hide the latency of an addition.
fn accumulate(weights: &[[f32; LANES]], inputs: &[f32], products: &mut [f32; LANES]) {
    let (mut even, mut odd) = ([0.0_f32; LANES], [0.0_f32; LANES]);
    let (weight_pairs, last_weights) = weights.as_chunks::<2>();
    let (input_pairs, last_input) = inputs.as_chunks::<2>();
    for ([weights_even, weights_odd], [input_even, input_odd]) in weight_pairs.iter().zip(input_pairs) {
        for lane in 0..LANES {
            even[lane] += weights_even[lane] * input_even;
            odd[lane] += weights_odd[lane] * input_odd;
        }
    }
    for (weights, input) in last_weights.iter().zip(last_input) {
        for lane in 0..LANES {
            even[lane] += weights[lane] * input;
        }
    }
    for lane in 0..LANES {
        products[lane] += even[lane] + odd[lane];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vector::dot;

    /// Multiplies a random matrix of this shape with random vectors and compares with the plain product.
    fn check(rows: usize, columns: usize, vectors: usize) {
        let mut random = fastrand::Rng::with_seed(7);
        let mut numbers = |count: usize| (0..count).map(|_| random.f32() - 0.5).collect::<Vec<f32>>();
        let (weights, inputs) = (numbers(rows * columns), numbers(vectors * columns));
        let matrix = Matrix::pack(&weights, rows, columns);
        let mut outputs = vec![f32::NAN; vectors * rows];
        matrix.multiply(&inputs, &mut outputs, &mut vec![f32::NAN; 3]);
        for (input, output) in inputs.chunks_exact(columns).zip(outputs.chunks_exact(rows)) {
            for (row, found) in weights.chunks_exact(columns).zip(output) {
                assert!((dot(row, input) - found).abs() < 1e-3, "{rows} x {columns}, {vectors} vectors");
            }
        }
        let mut row = vec![0.0; columns];
        matrix.copy_row(rows - 1, &mut row);
        assert_eq!(row, weights[(rows - 1) * columns..], "the last row is copied unchanged");
    }

    #[test]
    fn products_equal_the_plain_product_for_all_shapes() {
        for (rows, columns) in [(1, 1), (15, 3), (16, 16), (17, 255), (260, 64), (33, 257), (5, 1025)] {
            check(rows, columns, 1);
            check(rows, columns, 5);
        }
    }

    #[test]
    fn products_of_a_large_matrix_use_threads_and_equal_the_plain_product() {
        let (rows, columns) = (1030, 260);
        assert!(Matrix::pack(&vec![0.0; rows * columns], rows, columns).is_parallel());
        check(rows, columns, 1);
        check(rows, columns, 3);
    }
}
