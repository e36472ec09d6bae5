//! Observations, and the sums of their products, from which every fit to them can be computed.

/// Observations in order of time: an amount of work for each term, and a measured value.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series {
    terms: usize,
    work: Vec<f64>,
    values: Vec<f64>,
}

impl Series {
    /// An empty series with this many terms.
    #[must_use]
    pub const fn new(terms: usize) -> Self {
        Self { terms, work: Vec::new(), values: Vec::new() }
    }

    /// Adds an observation. One with the wrong number of terms, or with a value that is not finite, is left out.
    pub fn push(&mut self, work: &[f64], value: f64) {
        if work.len() == self.terms && value.is_finite() && work.iter().all(|amount| amount.is_finite()) {
            self.work.extend_from_slice(work);
            self.values.push(value);
        }
    }

    /// The number of observations.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is no observation.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The number of terms.
    #[must_use]
    pub const fn terms(&self) -> usize {
        self.terms
    }

    /// The work and the value of each observation.
    pub fn observations(&self) -> impl Iterator<Item = (&[f64], f64)> {
        self.work.chunks_exact(self.terms.max(1)).zip(self.values.iter().copied())
    }

    /// The sums over blocks of this many neighbours.
    pub(super) fn blocks(&self, length: usize, terms: usize) -> Vec<Gram> {
        let observations: Vec<_> = self.observations().collect();
        let blocks = observations.chunks(length).map(|block| {
            let mut gram = Gram::new(terms);
            for (work, value) in block {
                gram.add(work, *value);
            }
            gram
        });
        blocks.collect()
    }
}

/// The sums of products of observations: enough to fit them, and to compute the error of any fit.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Gram {
    terms: usize,
    /// Σ work x work, row by row.
    products: Vec<f64>,
    /// Σ work x value.
    targets: Vec<f64>,
    squares: f64,
    sum: f64,
    count: usize,
}

impl Gram {
    pub(super) fn new(terms: usize) -> Self {
        Self { terms, products: vec![0.0; terms * terms], targets: vec![0.0; terms], squares: 0.0, sum: 0.0, count: 0 }
    }

    /// From the sums of work x work and of work x value alone, which is enough to solve for coefficients.
    pub(super) const fn from_sums(products: Vec<f64>, targets: Vec<f64>) -> Self {
        Self { terms: targets.len(), products, targets, squares: 0.0, sum: 0.0, count: 0 }
    }

    pub(super) fn sum<'a>(parts: impl Iterator<Item = &'a Self>, terms: usize) -> Self {
        let mut whole = Self::new(terms);
        for part in parts {
            whole.products.iter_mut().zip(&part.products).for_each(|(sum, product)| *sum += product);
            whole.targets.iter_mut().zip(&part.targets).for_each(|(sum, target)| *sum += target);
            whole.squares += part.squares;
            whole.sum += part.sum;
            whole.count += part.count;
        }
        whole
    }

    fn add(&mut self, work: &[f64], value: f64) {
        for (row, &one) in work.iter().enumerate() {
            for (column, &other) in work.iter().enumerate() {
                self.products[row * self.terms + column] += one * other;
            }
            self.targets[row] += one * value;
        }
        self.squares += value * value;
        self.sum += value;
        self.count += 1;
    }

    pub(super) const fn terms(&self) -> usize {
        self.terms
    }

    pub(super) const fn count(&self) -> usize {
        self.count
    }

    pub(super) const fn squares(&self) -> f64 {
        self.squares
    }

    pub(super) fn mean(&self) -> f64 {
        self.sum / self.count.max(1) as f64
    }

    pub(super) fn product(&self, row: usize, column: usize) -> f64 {
        self.products[row * self.terms + column]
    }

    pub(super) fn target(&self, term: usize) -> f64 {
        self.targets[term]
    }

    /// Whether any observation has work of this term.
    pub(super) fn has(&self, term: usize) -> bool {
        self.product(term, term) > 0.0
    }

    /// Σ (value - predicted)².
    pub(super) fn squared_error(&self, coefficients: &[f64]) -> f64 {
        let mut error = self.squares;
        for (row, one) in coefficients.iter().enumerate() {
            error -= 2.0 * one * self.targets[row];
            for (column, other) in coefficients.iter().enumerate() {
                error += one * other * self.product(row, column);
            }
        }
        error.max(0.0)
    }

    /// Σ (value - mean)².
    pub(super) fn variance_sum(&self) -> f64 {
        self.squares - self.sum * self.mean()
    }

    /// The share of the variance that the coefficients explain.
    pub(super) fn r2(&self, coefficients: &[f64]) -> Option<f64> {
        let variance = self.variance_sum();
        (variance > 1e-12 * self.squares).then(|| 1.0 - self.squared_error(coefficients) / variance)
    }
}
