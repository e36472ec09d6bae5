//! The mean of repeated measurements and how well it is known.

use ergometer_statistics::t_quantile;

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
        let freedom = (count - 1) as f64;
        // Without a degree of freedom there is no quantile.
        let half_width = t_quantile(0.975, freedom).map(|quantile| {
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            quantile * (squares / freedom / count as f64).sqrt()
        });
        Some(Self { value: mean, half_width, count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        let mean = Mean::of(&[9.0, 10.0, 11.0]).unwrap();
        assert_eq!((mean.value, mean.count), (10.0, 3));
        // s = 1, t(2) = 4.302653: 4.302653 / sqrt(3).
        assert!((mean.half_width.unwrap() - 2.484_138).abs() < 1e-6);
        assert_eq!(Mean::of(&[5.0]).unwrap().half_width, None);
        assert_eq!(Mean::of(&[]), None);
    }
}
