//! Divides time into cells of constant power.
//!
//! Every known edge of activity is a cell boundary; long intervals between edges are divided further.

use ergometer_statistics::mean;

/// A partition of a time interval, in seconds from a base.
#[derive(Debug, Clone)]
pub(super) struct Cells {
    /// The boundaries: one more than the number of cells.
    bounds: Vec<f64>,
    /// For each boundary between two cells: whether it is an edge of activity. Power may jump there.
    edges: Vec<bool>,
}

/// How finely time is divided.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grading {
    /// The maximum length of a cell, in seconds.
    pub(super) longest: f64,
    /// Edges closer together than this, in seconds, are merged.
    pub(super) shortest: f64,
    /// Cells far from all edges may be this many times longer.
    pub(super) coarse: f64,
    /// The approximate maximum number of cells. All cells are longer if there would be more.
    pub(super) most: f64,
}

impl Grading {
    /// Whether the middle of an interval between two edges is far from both.
    fn is_coarse(self, length: f64) -> bool {
        self.coarse > 1.0 && length > 4.0 * NEAR
    }

    /// The approximate number of cells of an interval between two edges.
    fn count(self, length: f64) -> f64 {
        let near = if self.is_coarse(length) { 2.0 * NEAR } else { length };
        (near + (length - near) / self.coarse) / self.longest
    }
}

/// Times within this distance of an edge, in seconds, are near it. It is far longer than the memory of any sensor.
const NEAR: f64 = 2.0;

impl Cells {
    /// Divides `start..end` at `edges` (sorted), and the intervals between them evenly into cells of at most `longest`
    /// seconds. Edges closer together than `shortest` are merged, because no sensor can resolve them.
    #[cfg(test)]
    pub(super) fn new(start: f64, end: f64, edges: &[f64], longest: f64, shortest: f64) -> Self {
        Self::graded(start, end, edges, Grading { longest, shortest, coarse: 1.0, most: f64::INFINITY })
    }

    /// Like [`new`](Self::new), with cells up to `coarse` times longer far from all edges.
    pub(super) fn graded(start: f64, end: f64, edges: &[f64], grading: Grading) -> Self {
        let Grading { longest, shortest, coarse, most } = grading;
        let mut cuts = vec![start];
        let mut cluster: Vec<f64> = Vec::new();
        for &edge in edges.iter().filter(|&&edge| edge > start + shortest && edge < end - shortest) {
            if cluster.first().is_some_and(|&first| edge - first >= shortest) {
                cuts.extend(mean(cluster.drain(..)));
            }
            cluster.push(edge);
        }
        cuts.extend(mean(cluster));
        cuts.push(end);
        // Every gap in the readings adds edges with short cells around them: without a limit, a recording of a few
        // kilobytes with many gaps would need gigabytes.
        let count: f64 = cuts.windows(2).map(|pair| grading.count(pair[1] - pair[0])).sum();
        let longest = longest * (count / most).max(1.0);
        let mut bounds = vec![start];
        let mut is_edge = Vec::new();
        let mut divide = |from: f64, to: f64, longest: f64, ends_at_edge: bool| {
            let count = ((to - from) / longest).ceil().max(1.0);
            let mut index = 1.0;
            while index < count {
                bounds.push(from + (to - from) * index / count);
                is_edge.push(false);
                index += 1.0;
            }
            bounds.push(to);
            is_edge.push(ends_at_edge);
        };
        for pair in cuts.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            if grading.is_coarse(to - from) {
                divide(from, from + NEAR, longest, false);
                divide(from + NEAR, to - NEAR, coarse * longest, false);
                divide(to - NEAR, to, longest, true);
            } else {
                divide(from, to, longest, true);
            }
        }
        is_edge.pop();
        Self { bounds, edges: is_edge }
    }

    pub(super) fn len(&self) -> usize {
        self.bounds.len() - 1
    }

    pub(super) fn start(&self, cell: usize) -> f64 {
        self.bounds[cell]
    }

    pub(super) fn end(&self, cell: usize) -> f64 {
        self.bounds[cell + 1]
    }

    pub(super) fn middle(&self, cell: usize) -> f64 {
        f64::midpoint(self.start(cell), self.end(cell))
    }

    /// Whether power may jump between `cell` and the next cell.
    pub(super) fn jumps_after(&self, cell: usize) -> bool {
        self.edges[cell]
    }

    /// The cell that contains `at`. Times outside map to the first or the last cell.
    pub(super) fn containing(&self, at: f64) -> usize {
        self.bounds.partition_point(|&bound| bound <= at).saturating_sub(1).min(self.len() - 1)
    }

    /// The first cell that overlaps `from..to`, and the seconds of overlap with it and each following cell.
    pub(super) fn overlaps(&self, from: f64, to: f64) -> (usize, Vec<f64>) {
        let (first, last) = (self.containing(from), self.containing(to));
        let seconds = (first..=last).map(|cell| (self.end(cell).min(to) - self.start(cell).max(from)).max(0.0));
        (first, seconds.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_end_at_edges_and_are_at_most_the_maximum_length() {
        let cells = Cells::new(0.0, 1.0, &[0.3, 0.3001, 0.7], 0.1, 0.001);
        assert!((0..cells.len()).all(|cell| cells.end(cell) - cells.start(cell) <= 0.1 + 1e-12));
        let jumps: Vec<f64> =
            (0..cells.len() - 1).filter(|&cell| cells.jumps_after(cell)).map(|cell| cells.end(cell)).collect();
        assert_eq!(jumps.len(), 2);
        assert!((jumps[0] - 0.30005).abs() < 1e-9 && (jumps[1] - 0.7).abs() < 1e-9);
    }

    #[test]
    fn many_edges_do_not_make_more_cells_than_the_maximum() {
        let edges: Vec<f64> = (1..1000).map(|edge| 9.0 * f64::from(edge)).collect();
        for coarse in [1.0, 40.0] {
            let grading = Grading { longest: 1e-3, shortest: 5e-5, coarse, most: 20_000.0 };
            let cells = Cells::graded(0.0, 9000.0, &edges, grading);
            assert!(cells.len() < 25_000, "{} cells", cells.len());
            let jumps = (0..cells.len() - 1).filter(|&cell| cells.jumps_after(cell)).count();
            assert_eq!(jumps, edges.len(), "every edge is kept");
        }
    }

    #[test]
    fn overlaps_cover_the_window_once() {
        let cells = Cells::new(0.0, 1.0, &[0.25], 0.02, 0.001);
        let (first, seconds) = cells.overlaps(0.111, 0.777);
        assert_eq!(first, cells.containing(0.111));
        assert!((seconds.iter().sum::<f64>() - 0.666).abs() < 1e-12);
        assert_eq!(cells.containing(-5.0), 0);
        assert_eq!(cells.containing(5.0), cells.len() - 1);
    }
}
