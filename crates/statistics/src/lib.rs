//! Statistics: values go in; distributions, fits, 95 % intervals and verdicts come out. No I/O, and nothing of runs or
//! traces.
//!
//! A statistic that the data cannot give is `None`, and the function says when; no function panics on its values.

mod bootstrap;
mod effect;
mod gaps;
mod interval;
mod knee;
mod normal;
mod pareto;
mod percentile;
mod proportion;
mod student;

pub use bootstrap::{MINIMUM_BLOCKS, Resampling, ratio_interval};
pub use effect::{
    Change, Drawing, NoInterval, Pairing, block_for, percentile_effect, proportion_effect, sums_effect, welch_interval,
};
pub use gaps::Gaps;
pub use interval::Interval;
pub use knee::{NoKnee, knee, power};
pub use normal::normal_p_value;
pub use pareto::{Aim, pareto_front};
pub use percentile::{Distribution, MINIMUM_FOR_P99, percentile};
pub use proportion::proportion_interval;
pub use student::{t_cumulative, t_p_value, t_quantile};
