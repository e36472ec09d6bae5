//! Splits the power of a run over time into idle power, prefill and decode.
//!
//! Time is divided into bins. The energy of a bin above idle power is divided by the cost model: in proportion to the
//! modelled joules of prompts and of output tokens in the bin. The joules of a prompt are those of its first token. Every
//! later token has those of its sequence, its context, and an equal part of its decode step among the requests that were
//! decoding. If no token of any request arrived for a while, the joules of the next one are spread over that while, because
//! a long prefill shows only when it ends.

use std::collections::HashMap;

use ergometer_runs::EnergySource;
use ergometer_runs::cost_model::{CostModels, Term, Work};
use ergometer_runs::saved::{Attempt, Query, Run};
use ergometer_statistics::mean;

use crate::AnalysisError;
use crate::power::PowerCurve;
use crate::time_axis::TimeAxis;

/// Bins are at least this long: a prefill takes less, and a token arrives some milliseconds after its work.
const SHORTEST_S: f64 = 0.2;

/// The same for a running average, which covers about a second.
const SHORTEST_OF_AVERAGE_S: f64 = 1.0;

/// The maximum number of bins.
const MOST_BINS: f64 = 300.0;

/// A bin has a power if readings cover at least this share of it.
const COVERED: f64 = 0.5;

/// The power of a run over time, in bins of equal length from the first request on.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PhasePower {
    /// The length of a bin in seconds.
    pub(crate) width_s: f64,
    /// The bins; `None` where power is unknown.
    pub(crate) bins: Vec<Option<Layers>>,
    /// Whether prefill and decode are separated.
    pub(crate) division: Division,
}

/// Whether prefill and decode are separated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Division {
    /// By the cost model of the run.
    CostModel,
    /// The run has no cost model.
    NoCostModel,
    /// The cost model cannot be read, for this reason.
    Unreadable(String),
}

/// The mean power of a bin, in watts. The parts sum to the measured power.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Layers {
    pub(crate) idle: f64,
    pub(crate) decode: f64,
    pub(crate) prefill: f64,
    /// Above idle power, but not divided: the run has no cost model, or the bin is after the last token.
    pub(crate) undivided: f64,
}

impl PhasePower {
    /// The power of a run by phase; `None` if its idle power or its power over time is unknown.
    pub(crate) fn read(run: &Run, axis: &TimeAxis) -> Result<Option<Self>, AnalysisError> {
        let curves = PowerCurve::read_all(run, axis)?;
        let places = run.queries.iter().filter_map(|query| axis.place(query.session, query.end?));
        let length_s = places.fold(0.0, f64::max);
        let Some(idle) = idle_power(run, curves.len()).filter(|_| length_s > 0.0) else { return Ok(None) };
        let is_average = curves.iter().any(|curve| curve.signal == "power_average");
        let width_s = width(length_s, if is_average { SHORTEST_OF_AVERAGE_S } else { SHORTEST_S });
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most the number of bins")]
        let count = (length_s / width_s).ceil().max(1.0) as usize;
        let watts = mean_power(&curves, width_s, count);
        let models = CostModels::read(&run.folder);
        let costs = models.as_ref().ok().and_then(Option::as_ref).and_then(costs);
        let division = match (&models, &costs) {
            (Err(error), _) => Division::Unreadable(error.to_string()),
            (Ok(_), None) => Division::NoCostModel,
            (Ok(_), Some(_)) => Division::CostModel,
        };
        let work = costs.as_ref().map(|costs| PhaseWork::read(run, axis, costs, (width_s, count))).transpose()?;
        let layers = |place: usize| {
            let (prefill, decode) = work.as_ref().map_or((0.0, 0.0), |work| (work.prefill[place], work.decode[place]));
            Some(Layers::new(watts[place]?, idle, prefill, decode))
        };
        Ok(Some(Self { width_s, bins: (0..count).map(layers).collect(), division }))
    }
}

impl Layers {
    fn new(watts: f64, idle: f64, prefill_j: f64, decode_j: f64) -> Self {
        let idle = idle.min(watts);
        let (above, modelled) = (watts - idle, prefill_j + decode_j);
        if modelled > 0.0 {
            let prefill = above * prefill_j / modelled;
            Self { idle, decode: above - prefill, prefill, undivided: 0.0 }
        } else {
            Self { idle, undivided: above, ..Self::default() }
        }
    }
}

/// The idle power of the counted devices, if it is known for all of them and each has a curve.
fn idle_power(run: &Run, curves: usize) -> Option<f64> {
    let source = run.energy.unwrap_or(EnergySource::Measured);
    let counted = run.summary.energy.devices.iter().filter(|device| device.counts_for(source));
    let idle: Option<Vec<f64>> = counted.map(|device| mean(device.idle_w.iter().copied())).collect();
    let idle = idle.filter(|idle| !idle.is_empty() && idle.len() == curves)?;
    Some(idle.iter().sum())
}

/// The length of a bin: 1, 2 or 5 times a power of ten.
fn width(length_s: f64, shortest_s: f64) -> f64 {
    let least = (length_s / MOST_BINS).max(shortest_s);
    let power = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|&width| width >= least * 0.999)
        .unwrap_or(least)
}

/// The mean power of each bin, summed over devices; `None` if a device has no readings in the bin.
fn mean_power(curves: &[PowerCurve], width_s: f64, count: usize) -> Vec<Option<f64>> {
    let mut sums = vec![Some(0.0); count];
    for curve in curves {
        let mut device = vec![(0.0, 0.0); count];
        for (place, pair) in curve.at_s.windows(2).enumerate() {
            let watts = curve.watts[place];
            if watts.is_finite() {
                for (bin, seconds) in parts((pair[0], pair[1]), width_s, count) {
                    device[bin] = (device[bin].0 + watts * seconds, device[bin].1 + seconds);
                }
            }
        }
        for (sum, (joules, seconds)) in sums.iter_mut().zip(device) {
            let mean = (seconds >= COVERED * width_s).then(|| joules / seconds);
            *sum = sum.zip(mean).map(|(sum, mean)| sum + mean);
        }
    }
    sums
}

/// The bins that a time span reaches into, with the seconds inside each.
fn parts((from, to): (f64, f64), width_s: f64, count: usize) -> impl Iterator<Item = (usize, f64)> {
    let (from, to) = (from.max(0.0), to.min(width_s * count as f64));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place among the bins")]
    let place = |at: f64| ((at / width_s).max(0.0) as usize).min(count.saturating_sub(1));
    let bins = if to > from { place(from)..place(to) + 1 } else { 0..0 };
    bins.map(move |bin| {
        let start = bin as f64 * width_s;
        (bin, (to.min(start + width_s) - from.max(start)).max(0.0))
    })
}

/// The cost of each term over all counted devices.
fn costs(models: &CostModels) -> Option<Work> {
    let total = models.total(|model| &model.shares)?;
    Some(Term::ALL.map(|term| total.term(term).value))
}

/// The modelled joules of the prompts and the output tokens in each bin.
struct PhaseWork<'a> {
    costs: &'a Work,
    decoding: Decoding,
    quiet: Quiet,
    width_s: f64,
    prefill: Vec<f64>,
    decode: Vec<f64>,
}

impl<'a> PhaseWork<'a> {
    fn new((run, axis): (&Run, &TimeAxis), costs: &'a Work, (width_s, count): (f64, usize)) -> Self {
        let (prefill, decode) = (vec![0.0; count], vec![0.0; count]);
        Self { costs, decoding: Decoding::new(run, axis), quiet: Quiet::new(width_s, count), width_s, prefill, decode }
    }

    fn read(run: &Run, axis: &TimeAxis, costs: &'a Work, bins: (f64, usize)) -> Result<Self, AnalysisError> {
        let queries: HashMap<(u32, u64), &Query> =
            run.queries.iter().map(|query| ((query.session, query.request), query)).collect();
        let place = |attempt: &Attempt| axis.place(attempt.session, attempt.sent?);
        let at = |sent: f64, offset: i64| sent + offset as f64 / 1e9;
        let mut work = Self::new((run, axis), costs, bins);
        Attempt::each_with_offsets(&run.folder, |attempt, offsets| {
            let Some(sent) = place(&attempt) else { return };
            for &offset in offsets {
                work.quiet.end_at(at(sent, offset));
            }
        })?;
        Attempt::each_with_offsets(&run.folder, |attempt, offsets| {
            let Some(query) = queries.get(&(attempt.session, attempt.request)) else { return };
            let Some(sent) = place(&attempt) else { return };
            let arrivals: Vec<f64> = offsets.iter().map(|&offset| at(sent, offset)).collect();
            work.add(query, sent, &arrivals);
        })?;
        Ok(work)
    }

    fn add(&mut self, query: &Query, sent: f64, arrivals: &[f64]) {
        let [prompt_token, prompt, step, sequence, context, _] = *self.costs;
        let Some((&first, later)) = arrivals.split_first() else { return };
        let input = query.input_tokens.unwrap_or(0) as f64;
        let prefill = prompt_token * query.computed_tokens().unwrap_or(0) as f64 + prompt;
        let tokens = query.output_tokens.map_or(later.len() as f64, |output| output.saturating_sub(1) as f64);
        let token = |decoding: &Decoding, number: f64, at: f64| {
            step / decoding.requests_at(at) + sequence + context * (input + number)
        };
        if later.is_empty() {
            // The answer came at once, so its work is spread over the time of the request.
            let decode = tokens * token(&self.decoding, tokens / 2.0, first);
            spread(&mut self.prefill, prefill, (sent, first), self.width_s);
            spread(&mut self.decode, decode, (sent, first), self.width_s);
            return;
        }
        spread(&mut self.prefill, prefill, self.quiet.before(first, sent), self.width_s);
        let each = tokens / later.len() as f64;
        for (place, &at) in later.iter().enumerate() {
            let joules = each * token(&self.decoding, each * (place + 1) as f64, at);
            spread(&mut self.decode, joules, self.quiet.before(at, sent), self.width_s);
        }
    }
}

/// Adds joules to the bins of a time span, in proportion to the time in each.
fn spread(bins: &mut [f64], joules: f64, (from, to): (f64, f64), width_s: f64) {
    let seconds: f64 = parts((from, to), width_s, bins.len()).map(|(_, seconds)| seconds).sum();
    for (bin, part) in parts((from, to), width_s, bins.len()).filter(|_| seconds > 0.0) {
        bins[bin] += joules * part / seconds;
    }
}

/// The parts of a bin that say whether tokens arrived.
const PARTS: usize = 20;

/// The time without tokens of any request, in parts of bins.
struct Quiet {
    part_s: f64,
    has_tokens: Vec<bool>,
}

impl Quiet {
    fn new(width_s: f64, count: usize) -> Self {
        Self { part_s: width_s / PARTS as f64, has_tokens: vec![false; count * PARTS] }
    }

    fn part(&self, at: f64) -> usize {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place among the parts")]
        let part = (at / self.part_s).max(0.0) as usize;
        part.min(self.has_tokens.len().saturating_sub(1))
    }

    fn end_at(&mut self, at: f64) {
        let part = self.part(at);
        if let Some(has_tokens) = self.has_tokens.get_mut(part) {
            *has_tokens = true;
        }
    }

    /// The time span of the work of a token: from the previous token of any request, but not before its own request was
    /// sent.
    fn before(&self, at: f64, sent: f64) -> (f64, f64) {
        let part = self.part(at);
        let before = &self.has_tokens[..part.min(self.has_tokens.len())];
        let previous = before.iter().rposition(|&has_tokens| has_tokens);
        let start = previous.map_or(0.0, |previous| (previous + 1) as f64 * self.part_s);
        let start = start.max(sent.min(part as f64 * self.part_s));
        (start, (part + 1) as f64 * self.part_s)
    }
}

/// How many requests were decoding at a time: between their first and their last token.
struct Decoding {
    first: Vec<f64>,
    last: Vec<f64>,
}

impl Decoding {
    fn new(run: &Run, axis: &TimeAxis) -> Self {
        let spans = run.queries.iter().filter_map(|query| {
            let place = |at| axis.place(query.session, at);
            // An answer that came at once was decoded since it was sent.
            let first = query.first_token.filter(|first| Some(*first) != query.last_token).or(query.sent)?;
            Some((place(first)?, place(query.last_token?)?))
        });
        let (mut first, mut last): (Vec<f64>, Vec<f64>) = spans.unzip();
        first.sort_by(f64::total_cmp);
        last.sort_by(f64::total_cmp);
        Self { first, last }
    }

    /// At least 1.
    fn requests_at(&self, at: f64) -> f64 {
        let started = self.first.partition_point(|&first| first < at);
        let ended = self.last.partition_point(|&last| last < at);
        started.saturating_sub(ended).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use ergometer_units::{Seconds, Timestamp};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bins_have_round_lengths() {
        let round = |length_s: f64, shortest_s: f64| width(length_s, shortest_s);
        assert_eq!([round(15.0, 0.2), round(15.0, 1.0), round(100.0, 0.2)], [0.2, 1.0, 0.5]);
        assert_eq!([round(3600.0, 0.2), round(1e5, 0.2)], [20.0, 500.0]);
    }

    #[test]
    fn power_is_the_mean_over_time_and_unknown_without_readings() {
        let curve = |watts: &[f64]| PowerCurve {
            device: String::from("gpu:0"),
            signal: String::from("power_ring"),
            at_s: vec![-1.0, 0.5, 1.0, 3.0, 3.0],
            watts: watts.to_vec(),
        };
        let watts = mean_power(&[curve(&[100.0, 300.0, 200.0, f64::NAN, f64::NAN])], 1.0, 4);
        assert_eq!(watts, [Some(200.0), Some(200.0), Some(200.0), None]);
    }

    fn query(first_s: f64, last_s: f64) -> Query {
        let at = |seconds: f64| Some(Timestamp::from_nanos_since_epoch(0) + Seconds::new(seconds));
        Query {
            sent: at(0.0),
            first_token: at(first_s),
            last_token: at(last_s),
            end: at(last_s),
            input_tokens: Some(100),
            cached_tokens: Some(40),
            output_tokens: Some(5),
            ..Query::default()
        }
    }

    fn run(queries: Vec<Query>) -> Run {
        Run {
            folder: std::path::PathBuf::from("/nowhere"),
            summary: ergometer_runs::testing::summary(serde_json::json!({})),
            queries,
            subjects: Vec::new(),
            energy: None,
            not_finite: 0,
        }
    }

    const COSTS: Work = [0.5, 2.0, 8.0, 1.0, 0.01, 0.0];

    fn work(run: &Run, arrivals: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let axis = TimeAxis::from_run(run);
        let mut work = PhaseWork::new((run, &axis), &COSTS, (1.0, 4));
        for &at in arrivals {
            work.quiet.end_at(at);
        }
        work.add(&run.queries[0], 0.0, arrivals);
        (work.prefill, work.decode)
    }

    fn are_close(one: &[f64], other: &[f64]) -> bool {
        one.len() == other.len() && one.iter().zip(other).all(|(one, other)| (one - other).abs() < 1e-9)
    }

    #[test]
    fn first_tokens_are_prefill_and_later_tokens_are_decode() {
        // Two requests decode together from second 1 to 3, so each step is shared.
        let run = run(vec![query(0.5, 3.0), query(1.0, 3.0)]);
        let (prefill, decode) = work(&run, &[0.5, 0.96, 1.96, 2.96, 3.0]);
        assert!(are_close(&prefill, &[0.5 * 60.0 + 2.0, 0.0, 0.0, 0.0]), "{prefill:?}");
        // A token costs its part of a step, 1, and 0.01 for each token before it.
        let expected = [8.0 + 1.0 + 1.01, 4.0 + 1.0 + 1.02, 4.0 + 1.0 + 1.03, 4.0 + 1.0 + 1.04];
        assert!(are_close(&decode, &expected), "{decode:?}");
    }

    #[test]
    fn the_work_of_a_token_is_spread_over_the_quiet_time_before_it() {
        let run = run(vec![query(2.96, 3.0)]);
        let (prefill, _) = work(&run, &[2.96, 3.0]);
        assert!(are_close(&prefill, &[32.0 / 3.0, 32.0 / 3.0, 32.0 / 3.0, 0.0]), "{prefill:?}");
    }

    #[test]
    fn an_answer_that_came_at_once_is_spread_over_its_time() {
        let run = run(vec![query(4.0, 4.0)]);
        let (prefill, decode) = work(&run, &[4.0]);
        assert!(are_close(&prefill, &[8.0; 4]) && are_close(&decode, &[10.02; 4]), "{prefill:?} {decode:?}");
    }

    proptest! {
        #[test]
        fn the_layers_sum_to_the_power(
            watts in 0.0..1e3_f64, idle in 0.0..500.0_f64, prefill in 0.0..1e3_f64, decode in 0.0..1e3_f64,
        ) {
            let found = Layers::new(watts, idle, prefill, decode);
            let sum = found.idle + found.decode + found.prefill + found.undivided;
            prop_assert!((sum - watts).abs() < 1e-6);
            prop_assert!([found.idle, found.decode, found.prefill, found.undivided].iter().all(|&part| part >= -1e-9));
        }

        #[test]
        fn the_parts_of_a_time_span_sum_to_its_length(from in 0.0..5.0_f64, length in 0.0..5.0_f64) {
            let sum: f64 = parts((from, from + length), 0.5, 20).map(|(_, seconds)| seconds).sum();
            prop_assert!((sum - length).abs() < 1e-9);
        }
    }
}
