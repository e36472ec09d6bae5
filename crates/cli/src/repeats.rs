//! The mean of repeated measurements and how well it is known.

/// The mean and half of its 95 % interval by Student's t (W. S. Gosset, "The probable error of a mean", 1908). The
/// interval is absent below two values: one value says nothing of its spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Mean {
    pub(crate) value: f64,
    pub(crate) half_width: Option<f64>,
    pub(crate) count: usize,
}

impl Mean {
    /// Of some values, `None` of none.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let count = values.len();
        if count == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count as f64;
        let half_width = (count > 1).then(|| {
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            let error = (squares / (count - 1) as f64 / count as f64).sqrt();
            t_quantile(count - 1) * error
        });
        Some(Self { value: mean, half_width, count })
    }
}

/// The 97.5 % point of Student's t for 1 to 30 degrees of freedom.
const T_QUANTILES: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// The 97.5 % point of Student's t; beyond the table by its expansion in 1/n (Abramowitz & Stegun 26.7.5).
fn t_quantile(freedom: usize) -> f64 {
    if let Some(&quantile) = freedom.checked_sub(1).and_then(|index| T_QUANTILES.get(index)) {
        return quantile;
    }
    let (z, n) = (1.959_964_f64, freedom as f64);
    z + (z.powi(3) + z) / (4.0 * n) + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * n * n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        let mean = Mean::of(&[9.0, 10.0, 11.0]).unwrap();
        assert_eq!((mean.value, mean.count), (10.0, 3));
        // s = 1, t(2) = 4.303: 4.303 / sqrt(3).
        assert!((mean.half_width.unwrap() - 2.4843).abs() < 1e-3);
        assert_eq!(Mean::of(&[5.0]).unwrap().half_width, None);
        assert_eq!(Mean::of(&[]), None);
    }

    #[test]
    fn the_expansion_goes_on_where_the_table_ends() {
        assert!((t_quantile(40) - 2.0211).abs() < 1e-4);
        assert!((t_quantile(1000) - 1.9623).abs() < 1e-4);
    }
}
