//! The JSON of `ergo trace functions`: every statistic in picoseconds, and every time.

use ergometer_statistics::{ConfidenceInterval, SampleSummary, Verdict};
use ergometer_trace::{FunctionId, ProgramId};
use ergometer_units::Picos;
use serde::{Serialize, Serializer};

use super::cell::whole;
use super::functions::Variant;

/// A variant with its comparison to the fastest.
#[derive(Serialize)]
pub(super) struct Report<'a> {
    id: &'a FunctionId,
    modules: &'a [String],
    program_ids: &'a [ProgramId],
    n: usize,
    devices: usize,
    busy: Figures,
    span: Figures,
    /// The time of each execution, by session and time.
    #[serde(serialize_with = "as_ps")]
    busy_times_ps: &'a [Picos],
    #[serde(serialize_with = "as_ps")]
    span_times_ps: &'a [Picos],
    #[serde(skip_serializing_if = "Option::is_none")]
    comparison: Option<&'a Comparison>,
}

/// The comparison to the fastest variant.
#[derive(Serialize)]
pub(super) struct Comparison {
    /// The rank, from 1.
    pub(super) rank: usize,
    pub(super) ratio: Option<f64>,
    pub(super) ratio_interval: Option<ConfidenceInterval>,
    pub(super) p: Option<f64>,
    pub(super) corrected_p: Option<f64>,
    pub(super) verdict: Verdict,
}

/// Statistics of repeated times, in picoseconds. One time has no spread.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Figures {
    #[serde(serialize_with = "whole")]
    pub(super) median_ps: f64,
    #[serde(serialize_with = "maybe_whole")]
    pub(super) mad_ps: Option<f64>,
    #[serde(serialize_with = "whole")]
    pub(super) mean_ps: f64,
    #[serde(serialize_with = "maybe_whole")]
    pub(super) std_ps: Option<f64>,
    pub(super) mean_interval_ps: Option<ConfidenceInterval>,
    #[serde(serialize_with = "whole")]
    pub(super) min_ps: f64,
    #[serde(serialize_with = "whole")]
    pub(super) max_ps: f64,
    pub(super) trimmed: Option<Trimmed>,
}

/// Statistics without the minimum and the maximum.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Trimmed {
    n: usize,
    #[serde(serialize_with = "whole")]
    pub(super) mean_ps: f64,
    #[serde(serialize_with = "whole")]
    pub(super) std_ps: f64,
}

impl<'a> Report<'a> {
    pub(super) fn new(variant: &'a Variant<'a>) -> Self {
        let times = variant.times;
        Self {
            id: &times.id,
            modules: &times.modules,
            program_ids: &times.program_ids,
            n: times.n,
            devices: times.devices,
            busy: variant.busy,
            span: variant.span,
            busy_times_ps: &times.busy_times,
            span_times_ps: &times.span_times,
            comparison: variant.comparison.as_ref(),
        }
    }
}

impl Figures {
    pub(super) fn new(summary: &SampleSummary) -> Self {
        let repeated = summary.n > 1;
        let trimmed = summary.trimmed;
        Self {
            median_ps: picos(summary.median_s),
            mad_ps: repeated.then(|| picos(summary.mad_s)),
            mean_ps: picos(summary.mean_s),
            std_ps: summary.std_s.map(picos),
            mean_interval_ps: summary.mean_interval_s.map(|interval| ConfidenceInterval {
                low: picos(interval.low),
                high: picos(interval.high),
                ..interval
            }),
            min_ps: picos(summary.min_s),
            max_ps: picos(summary.max_s),
            trimmed: repeated.then(|| Trimmed {
                n: trimmed.n,
                mean_ps: picos(trimmed.mean_s),
                std_ps: picos(trimmed.std_s),
            }),
        }
    }
}

/// Picoseconds without floating-point noise.
fn picos(seconds: f64) -> f64 {
    (seconds * 1e15).round() / 1e3
}

fn as_ps<S: Serializer>(times: &[Picos], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(times.iter().map(|time| time.get()))
}

#[expect(clippy::ref_option, reason = "serde hands out references")]
fn maybe_whole<S: Serializer>(number: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match number {
        Some(number) => whole(number, serializer),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use ergometer_statistics::Sample;

    use super::*;

    #[test]
    fn one_time_has_no_spread() {
        let figures = |times: &[i64]| {
            let sample = Sample::from_picos(&times.iter().map(|&time| Picos::new(time)).collect::<Vec<_>>()).unwrap();
            serde_json::to_value(Figures::new(&sample.summary())).unwrap()
        };
        let one = figures(&[13_054_000]);
        assert_eq!((&one["median_ps"], &one["mean_ps"]), (&13_054_000.into(), &13_054_000.into()));
        assert!(["mad_ps", "std_ps", "trimmed", "mean_interval_ps"].iter().all(|key| one[key].is_null()), "{one}");
        let two = figures(&[1, 2]);
        assert_eq!((&two["median_ps"], &two["mad_ps"], &two["trimmed"]["n"]), (&1.5.into(), &0.5.into(), &2.into()));
    }
}
