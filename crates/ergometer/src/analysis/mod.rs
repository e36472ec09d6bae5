//! The statistics of a saved run: values go in, distributions and 95 % intervals come out.
//!
//! A statistic that the data cannot give is `None`, and the function says when; no function panics on its values.

mod bootstrap;
mod gaps;
mod interval;
mod percentile;
mod proportion;

pub use bootstrap::{MINIMUM_BLOCKS, Resampling, ratio_interval};
pub use gaps::Gaps;
pub use interval::Interval;
pub use percentile::{Distribution, MINIMUM_FOR_P99, percentile};
pub use proportion::proportion_interval;
