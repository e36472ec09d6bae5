//! Non-negative least squares from sums of products, by active sets (C. Lawson and R. Hanson, "Solving Least Squares
//! Problems", 1974, chapter 23). Terms are scaled to the same size first, so that units do not matter.

use super::gram::Gram;

/// A term joins the solution only if it lowers the error by more than rounding.
const LEAST_GRADIENT: f64 = 1e-10;

/// Added to the scaled diagonal, so that terms that always grow together can be solved at all.
const RIDGE: f64 = 1e-10;

/// The coefficients with the smallest squared error among those that are not negative.
pub(super) fn non_negative(gram: &Gram) -> Vec<f64> {
    let terms = gram.terms();
    let scale: Vec<f64> = (0..terms).map(|term| gram.product(term, term).sqrt()).collect();
    let size = (0..terms).filter(|&term| scale[term] > 0.0).map(|term| (gram.target(term) / scale[term]).abs());
    let size = size.fold(0.0, f64::max);
    let mut active = vec![false; terms];
    let mut found = vec![0.0; terms];
    // Each round adds a term; a term is rarely removed again.
    for _ in 0..3 * terms {
        let gradient = |term: usize| {
            let fitted: f64 = (0..terms)
                .filter(|&other| scale[other] > 0.0)
                .map(|other| gram.product(term, other) / (scale[term] * scale[other]) * found[other])
                .sum();
            gram.target(term) / scale[term] - fitted
        };
        let idle = (0..terms).filter(|&term| !active[term] && scale[term] > 0.0);
        let best = idle.map(|term| (gradient(term), term)).max_by(|one, other| one.0.total_cmp(&other.0));
        let Some((_, joining)) = best.filter(|(gradient, _)| *gradient > LEAST_GRADIENT * size) else { break };
        active[joining] = true;
        while let Some(next) = solve_active(gram, &scale, &active) {
            let negative = |term: &usize| active[*term] && next[*term] <= 0.0;
            let steps = (0..terms).filter(negative).map(|term| (found[term] / (found[term] - next[term]), term));
            let Some((step, leaving)) = steps.min_by(|one, other| one.0.total_cmp(&other.0)) else {
                found = next;
                break;
            };
            for term in (0..terms).filter(|&term| active[term]) {
                found[term] += step.clamp(0.0, 1.0) * (next[term] - found[term]);
            }
            found[leaving] = 0.0;
            active[leaving] = false;
            if leaving == joining {
                break;
            }
        }
    }
    found.iter().zip(&scale).map(|(found, &scale)| if scale > 0.0 { found.max(0.0) / scale } else { 0.0 }).collect()
}

/// Solves for the active terms alone, in scaled units, by elimination with pivots. `None` if nothing is active.
fn solve_active(gram: &Gram, scale: &[f64], active: &[bool]) -> Option<Vec<f64>> {
    let chosen: Vec<usize> = (0..active.len()).filter(|&term| active[term]).collect();
    let count = chosen.len();
    if count == 0 {
        return None;
    }
    let mut rows: Vec<Vec<f64>> = chosen
        .iter()
        .map(|&row| {
            let products = chosen.iter().map(|&column| gram.product(row, column) / (scale[row] * scale[column]));
            products.chain([gram.target(row) / scale[row]]).collect()
        })
        .collect();
    for (place, row) in rows.iter_mut().enumerate() {
        row[place] += RIDGE;
    }
    for pivot in 0..count {
        let largest =
            (pivot..count).max_by(|&one, &other| rows[one][pivot].abs().total_cmp(&rows[other][pivot].abs()))?;
        rows.swap(pivot, largest);
        let row = rows[pivot].clone();
        for lower in &mut rows[pivot + 1..] {
            let factor = lower[pivot] / row[pivot];
            lower.iter_mut().zip(&row).for_each(|(value, above)| *value -= factor * above);
        }
    }
    let mut solution = vec![0.0; active.len()];
    for pivot in (0..count).rev() {
        let known: f64 = (pivot + 1..count).map(|column| rows[pivot][column] * solution[chosen[column]]).sum();
        solution[chosen[pivot]] = (rows[pivot][count] - known) / rows[pivot][pivot];
    }
    Some(solution)
}
