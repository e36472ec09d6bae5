//! Distributions, fits, confidence intervals and significance tests for measurements.
//!
//! A statistic that cannot be computed from the data is `None`, and each function says when. No function panics on its
//! values. There is no I/O.
//!
//! ```
//! use ergometer_statistics::{Distribution, Mean, median};
//!
//! let latencies_ms = [12.1, 11.8, 13.0, 12.4, 58.9];
//! assert_eq!(median(latencies_ms), Some(12.4));
//! assert_eq!(Distribution::from_values(&latencies_ms).unwrap().max, 58.9);
//!
//! let joules = Mean::from_values(&[9.0, 10.0, 11.0]).unwrap();
//! assert!(joules.interval().unwrap().contains(10.0));
//! ```

mod bootstrap;
mod confidence;
mod density;
mod distribution;
mod draws;
mod effect;
mod estimate;
mod fit;
mod gaps;
mod homogeneity;
mod huber;
mod interval;
mod knee;
mod least_squares;
mod mean;
mod median;
mod nonnegative;
mod normal;
mod pareto;
mod percentile;
mod plane;
mod proportion;
mod rank_sum;
mod ranking;
mod sample;
mod student;
mod theil_sen;

pub use bootstrap::{MINIMUM_BLOCKS, Resampling, ratio_interval};
pub use confidence::{ConfidenceInterval, DEFAULT_LEVEL, holm};
pub use density::{DENSITY_POINTS, Density};
pub use distribution::{Distribution, MINIMUM_FOR_P99};
pub use effect::{
    Change, Drawing, NoInterval, Pairing, block_for, percentile_effect, products_effect, proportion_effect,
    sums_effect, welch_interval, welch_ratio_interval,
};
pub use estimate::Estimate;
pub use fit::{Coefficient, NoFit};
pub use gaps::Gaps;
pub use homogeneity::{Homogeneity, TestedBy, homogeneity};
pub use huber::Huber;
pub use interval::Interval;
pub use knee::{NoKnee, knee, power};
pub use least_squares::LeastSquares;
pub use mean::{Mean, mean};
pub use median::{median_interval, median_interval_at};
pub use nonnegative::{Likelihood, NonNegative, NonNegativeOptions, Series};
pub use normal::normal_p_value;
pub use pareto::{Aim, pareto_front};
pub use percentile::{Interpolate, median, percentile, percentiles};
pub use plane::{MOST_VARIANCE_INFLATION, Plane};
pub use proportion::proportion_interval;
pub use rank_sum::{RankSum, pairwise_ratio, pairwise_ratio_interval, rank_sum};
pub use ranking::{RankedVariant, Ranking, Variant, Verdict, rank};
pub use sample::{Sample, SampleSummary, TrimmedMean};
pub use student::{t_cumulative, t_p_value, t_quantile};
pub use theil_sen::{MOST_THEIL_SEN, TheilSen};
