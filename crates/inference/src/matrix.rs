//! Weight matrices: rows of weights go in, products with one vector (decode) or many (prefill) come out.
//!
//! Sixteen rows are interleaved into a panel, so that one input is multiplied with sixteen weights that lie side by
//! side: no sum runs across lanes, and the compiler makes vector instructions of plain loops. The last panel is filled
//! up with zeros. A batch goes through one block of a panel (16 KiB, half of a small L1 cache) before the next.
//!
//! Matrices of [`PARALLEL_WEIGHTS`] and more are spread over rayon's threads, panel by panel. It is a property of the
//! matrix and not of the batch: a small model stays on the calling thread however long its prompt is. A panel is
//! computed by one thread in one order, so that the result does not depend on the number of threads.

use rayon::prelude::*;

/// Rows of a panel.
const LANES: usize = 16;
/// Columns of a panel that a batch goes through at a time.
const BLOCK: usize = 256;
/// Weights from which on a matrix is spread over threads. 2^18 weights take about 30 us on one core, several times what
/// rayon takes to wake a thread; the largest matrix of the demo models has 49,152.
pub(crate) const PARALLEL_WEIGHTS: usize = 1 << 18;
/// Weights that one task takes at least.
const TASK_WEIGHTS: usize = 1 << 16;

/// A matrix of weights in panels.
pub(crate) struct Matrix {
    /// `panels[panel][column][lane]`, flat.
    panels: Vec<f32>,
    rows: usize,
    columns: usize,
}

impl Matrix {
    /// Packs a matrix given row by row. `weights` has `rows * columns` elements, and there is at least one.
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

    /// Rows, which is the length of a product.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes that the panels take, their filling included.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.panels.as_slice())
    }

    /// Whether products are spread over threads.
    pub(crate) fn is_parallel(&self) -> bool {
        self.rows * self.columns >= PARALLEL_WEIGHTS
    }

    /// Copies a row out, as the embedding of a token. `row` is below [`Matrix::rows`].
    pub(crate) fn copy_row(&self, row: usize, into: &mut [f32]) {
        let panel = &self.panels[row / LANES * LANES * self.columns..];
        let (weights, _) = panel.as_chunks::<LANES>();
        for (value, weights) in into.iter_mut().zip(weights) {
            *value = weights[row % LANES];
        }
    }

    /// Multiplies each of the input vectors, which lie one after another, with the matrix. `outputs` takes as many
    /// vectors of [`Matrix::rows`]; `scratch` is grown as needed and kept by the caller from call to call.
    pub(crate) fn multiply(&self, inputs: &[f32], outputs: &mut [f32], scratch: &mut Vec<f32>) {
        let vectors = inputs.len() / self.columns;
        debug_assert_eq!(outputs.len(), vectors * self.rows);
        let panel_weights = LANES * self.columns;
        // The products of a panel lie together here: disjoint slices for threads, with no unsafe code.
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

/// Adds the products of all vectors with one panel to `products`.
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

/// Adds the products of one vector with a block. Even and odd columns have sums of their own: eight independent chains
/// of additions with SSE2, as many as hide the latency of one.
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

    /// Compares with the plain product: a matrix of the shape, and vectors, of random numbers.
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
        assert_eq!(row, weights[(rows - 1) * columns..], "the last row comes back");
    }

    #[test]
    fn products_are_those_of_the_plain_matrix_whatever_its_shape() {
        for (rows, columns) in [(1, 1), (15, 3), (16, 16), (17, 255), (260, 64), (33, 257), (5, 1025)] {
            check(rows, columns, 1);
            check(rows, columns, 5);
        }
    }

    #[test]
    fn products_of_a_large_matrix_are_spread_over_threads_and_the_same() {
        let (rows, columns) = (1030, 260);
        assert!(Matrix::pack(&vec![0.0; rows * columns], rows, columns).is_parallel());
        check(rows, columns, 1);
        check(rows, columns, 3);
    }
}
