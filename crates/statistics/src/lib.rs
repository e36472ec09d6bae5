//! Statistics: values go in; distributions, fits, 95 % intervals and verdicts come out. No I/O, and nothing of runs or
//! traces.
//!
//! A statistic that the data cannot give is `None`, and the function says when; no function panics on its values.

mod bootstrap;
mod gaps;
mod homogeneity;
mod interval;
mod normal;
mod percentile;
mod proportion;
mod student;

pub use bootstrap::{MINIMUM_BLOCKS, Resampling, ratio_interval};
pub use gaps::Gaps;
pub use homogeneity::{Homogeneity, TestedBy, homogeneity};
pub use interval::Interval;
pub use normal::normal_p_value;
pub use percentile::{Distribution, MINIMUM_FOR_P99, percentile};
pub use proportion::proportion_interval;
pub use student::{t_cumulative, t_p_value, t_quantile};
