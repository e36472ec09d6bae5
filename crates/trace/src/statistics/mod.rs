//! Statistics of repeated times: samples go in; their summary, and which of several is the fastest, come out.
//!
//! A statistic is absent where there are too few values for it. Nothing here panics, whatever the numbers.

mod compare;
mod confidence;
mod percentile;
mod rank_sum;
mod sample;

pub use compare::{Ranking, Row, Variant, Verdict, rank};
pub use confidence::{DEFAULT_LEVEL, Interval, holm};
pub use percentile::{percentile, percentiles};
pub use rank_sum::{RankSum, rank_sum, ratio, ratio_interval};
pub use sample::{Sample, Summary, Trimmed};
