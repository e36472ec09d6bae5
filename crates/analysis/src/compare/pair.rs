//! Compares two groups of runs, metric by metric.

use ergometer_statistics::{
    Change, Drawing, Interval, NoInterval, Pairing, block_for, mean, percentile_effect, products_effect,
    proportion_effect, sums_effect, welch_interval, welch_ratio_interval,
};

use super::metric::{self, Formula, formula, product, ratio};
use super::row::{Effect, Method, Row, Verdict};
use super::sample::{Samples, slices};
use super::{Group, Options};
use ergometer_runs::EnergySource;
use ergometer_runs::metrics::{Metric, Unit, named};
use ergometer_runs::saved::{Query, Run};

/// A relative change of at most this size is rounding.
const ROUNDING: f64 = 1e-9;

/// A baseline and a candidate.
pub(super) struct Pair<'a> {
    baseline: &'a Group<'a>,
    candidate: &'a Group<'a>,
    samples: Option<Samples<'a>>,
}

/// The estimated change of a metric.
struct ChangeEstimate {
    value: f64,
    interval: Result<(Interval, Method), NoInterval>,
    /// Whether no query changed.
    is_same: bool,
}

impl<'a> Pair<'a> {
    pub(super) fn new(baseline: &'a Group<'a>, candidate: &'a Group<'a>) -> Self {
        let samples = match (baseline.runs, candidate.runs) {
            ([first], [second]) => Some(Samples::from_runs(first, second)),
            _ => None,
        };
        Self { baseline, candidate, samples }
    }

    pub(super) fn paired(&self) -> Option<usize> {
        self.samples.as_ref().filter(|samples| samples.is_paired()).map(|samples| samples.first.len())
    }

    /// Whether only some of the queries are in both runs.
    fn is_part(&self) -> bool {
        let whole = self.baseline.runs[0].queries.len().max(self.candidate.runs[0].queries.len());
        self.paired().is_some_and(|common| common < whole)
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.samples.is_none() {
            let (one, two) = (self.baseline.runs.len(), self.candidate.runs.len());
            notes.push(format!(
                "values are means over {one} and {two} runs; intervals reflect the variation between runs (Welch's t; Fieller's for ratios)"
            ));
            return notes;
        }
        if let Some(common) = self.paired().filter(|_| self.is_part()) {
            notes.push(format!("the change column uses only the {common} queries that both runs have; the value columns, and changes of rates, use the whole runs"));
        }
        notes.push(String::from(
            "intervals reflect the variation inside each run, not from run to run (temperature, other load); to include that, repeat the runs and join them with +",
        ));
        notes
    }

    /// The row of a metric; `None` if neither side has a value.
    pub(super) fn row(&self, metric: &'static Metric, options: &Options) -> Option<Row> {
        let values =
            |group: &Group<'_>| group.runs.iter().filter_map(|run| metric::value(metric, run)).collect::<Vec<f64>>();
        let (before, after) = (values(self.baseline), values(self.candidate));
        let (baseline, candidate) = (mean(before.iter().copied()), mean(after.iter().copied()));
        if baseline.is_none() && candidate.is_none() {
            return None;
        }
        let mut row =
            Row { metric, unit: metric.unit, baseline, candidate, change: None, verdict: Verdict::None, reason: None };
        let (Some(first), Some(second)) = (baseline, candidate) else {
            let lacks = if baseline.is_none() { self.baseline.label } else { self.candidate.label };
            row.reason = Some(format!("run `{lacks}` has no value"));
            return Some(row);
        };
        if metric.needs_energy() {
            row.reason = self.sources_differ();
            if row.reason.is_some() {
                return Some(row);
            }
        }
        row.reason = self.is_nothing(metric);
        if row.reason.is_some() {
            return Some(row);
        }
        let kind = metric::change(metric);
        let Some(whole) = between(kind, first, second) else {
            row.reason = Some(NoInterval::NoBaseline.to_string());
            return Some(row);
        };
        let found = match &self.samples {
            Some(samples) => self.inside(metric, samples, whole, options),
            None => repeats(kind, (&before, &after), whole),
        };
        let found = found.without_rounding(kind, first);
        let (interval, method) =
            found.interval.map_or((None, None), |(interval, method)| (Some(interval), Some(method)));
        let effect = Effect {
            kind,
            value: found.value,
            interval,
            method,
            is_constant: found.interval == Err(NoInterval::NoVariation),
        };
        row.verdict = if found.is_same {
            Verdict::Same
        } else {
            Verdict::from_effect(metric, &effect, first, options.least_effect)
        };
        let is_equal_share = self.samples.is_some() && metric.unit == Unit::Share && effect.value == effect.none();
        row.reason = match found.interval {
            _ if found.is_same && self.samples.is_none() => Some(String::from("all runs have the same value")),
            _ if found.is_same => Some(String::from("no query differs between the two runs")),
            Ok(_) if is_equal_share && row.verdict == Verdict::CannotTell => Some(String::from(
                "no difference found, but too few queries to rule out a difference; the verdict `same` needs \
                 identical queries in both runs, each with an identical result",
            )),
            Err(_) if matches!(formula(metric), Formula::Whole) && self.samples.is_some() => Some(String::from(
                "a run stores a single value of this metric, so there is no interval; repeat the runs and join them with +",
            )),
            // A rate is resampled in time slices of twice the mean latency, see `slices`.
            Err(NoInterval::TooFewBlocks { .. }) if matches!(formula(metric), Formula::Rate(_)) => Some(String::from(
                "runs too short: an interval needs runs of at least 20 times the mean time from sending a request \
                     to the end of its answer",
            )),
            Err(why) => Some(why.to_string()),
            Ok(_) => None,
        };
        row.change = Some(effect);
        Some(row)
    }

    /// Why a net energy has no ratio: its interval includes zero.
    fn is_nothing(&self, metric: &Metric) -> Option<String> {
        let may_be_nothing = |run: &Run| {
            let net = run.energy_totals()?.net_j_per_query?;
            Some(net.value <= 0.0 || net.low.is_some_and(|low| low <= 0.0))
        };
        let groups = [self.baseline, self.candidate];
        let is_lost = |group: &&&Group<'_>| group.runs.iter().any(|run| may_be_nothing(run) == Some(true));
        let lost =
            groups.iter().find(is_lost).filter(|_| metric.name == const { named("net_joules_per_query") }.name)?;
        Some(format!("no ratio, because the interval of run `{}` includes zero", lost.label))
    }

    /// Why the energy of the two sides cannot be compared.
    fn sources_differ(&self) -> Option<String> {
        let source = |group: &Group<'_>| {
            let mut sources: Vec<&str> =
                group.runs.iter().filter_map(|run| run.energy.map(EnergySource::name)).collect();
            sources.sort_unstable();
            sources.dedup();
            sources.join(" and ")
        };
        let (one, two) = (source(self.baseline), source(self.candidate));
        let differ = one != two || one.contains(" and ");
        let Group { label: first, .. } = self.baseline;
        let Group { label: second, .. } = self.candidate;
        differ.then(|| format!("energy is {one} in run `{first}` and {two} in run `{second}`, so it is not compared"))
    }

    /// The change, with an interval from the variation inside the runs.
    fn inside(&self, metric: &Metric, samples: &Samples<'_>, whole: f64, options: &Options) -> ChangeEstimate {
        let (first, second) = (&self.baseline.runs[0], &self.candidate.runs[0]);
        let drawing = Drawing { draws: options.draws, seed: options.seed, pairing: samples.pairing };
        let method = samples.method();
        match formula(metric) {
            Formula::Whole => ChangeEstimate { value: whole, interval: Err(NoInterval::OneRun), is_same: false },
            Formula::Rate(amount) => {
                let (one, two) = (slices(first, amount), slices(second, amount));
                let pairing = Pairing::Independent { first: block_for(one.len(), 1), second: block_for(two.len(), 1) };
                let interval = sums_effect(&one, &two, Change::Ratio, Drawing { pairing, ..drawing });
                let scale =
                    whole / ratio(two.into_iter()).zip(ratio(one.into_iter())).map_or(whole, |(two, one)| two / one);
                ChangeEstimate {
                    value: whole,
                    interval: interval.map(|interval| (scaled(interval, scale), Method::Slices)),
                    is_same: false,
                }
            }
            Formula::Percentile(percent, value) => {
                let of = |queries: &[&Query]| -> Vec<Option<f64>> {
                    queries
                        .iter()
                        .map(|query| Some(*query).filter(|query| query.is_completed()).and_then(value))
                        .collect()
                };
                let (one, two) = (of(&samples.first), of(&samples.second));
                let interval = percentile_effect(&one, &two, percent, drawing).map(|interval| (interval, method));
                let value =
                    if self.is_part() { percentile_of(&two, percent) - percentile_of(&one, percent) } else { whole };
                ChangeEstimate { value, interval, is_same: samples.is_paired() && one == two }
            }
            Formula::Sums(fraction) | Formula::Proportional(fraction) => {
                self.products(metric, whole, drawing, |query| fraction(query).map(|fraction| [fraction]))
            }
            Formula::ProportionalProduct(fractions) => self.products(metric, whole, drawing, fractions),
        }
    }

    /// The change of a metric that is, or is proportional to, a product of ratios of sums over queries.
    fn products<const FACTORS: usize>(
        &self,
        metric: &Metric,
        whole: f64,
        drawing: Drawing,
        fractions: impl Fn(&Query) -> Option<[(f64, f64); FACTORS]>,
    ) -> ChangeEstimate {
        let kind = metric::change(metric);
        let of = |queries: &[&Query]| -> Vec<[(f64, f64); FACTORS]> {
            queries.iter().map(|query| fractions(query).unwrap_or([(0.0, 0.0); FACTORS])).collect()
        };
        let Some(samples) = &self.samples else {
            return ChangeEstimate { value: whole, interval: Err(NoInterval::Unusable), is_same: false };
        };
        let (one, two) = (of(&samples.first), of(&samples.second));
        // Scales to the summary's value, which also includes idle energy between requests, retried attempts and time.
        let scale = |run: &Run| {
            let factor =
                metric::value(metric, run).zip(metric::from_records(metric, run)).map(|(value, made)| value / made);
            factor.filter(|factor| factor.is_finite() && *factor > 0.0).unwrap_or(1.0)
        };
        let scale = match kind {
            Change::Ratio => scale(&self.candidate.runs[0]) / scale(&self.baseline.runs[0]),
            Change::Difference => 1.0,
        };
        let method = samples.method();
        let mut interval = products_effect(&one, &two, kind, drawing).map(|interval| (scaled(interval, scale), method));
        if metric.unit == Unit::Share {
            interval = at_the_ends(&one, &two).map_or(interval, |interval| Ok((interval, Method::Proportions)));
        }
        let part = || {
            let (one, two) = (product(one.iter().copied())?, product(two.iter().copied())?);
            between(kind, one, two).map(|change| if kind == Change::Ratio { change * scale } else { change })
        };
        let value = if self.is_part() { part().unwrap_or(whole) } else { whole };
        // Shares without variation are not certain: no failure among three requests proves little.
        let is_alike = samples.is_paired() && one == two || metric.unit != Unit::Share && no_variation(&one, &two);
        let is_same = without_rounding(kind, value, 0.0) == between_none(kind) && is_alike;
        ChangeEstimate { value, interval, is_same }
    }
}

impl ChangeEstimate {
    /// Removes rounding from the value and from the ends of its interval.
    fn without_rounding(self, kind: Change, baseline: f64) -> Self {
        let none = between_none(kind);
        let exact = |change: f64| without_rounding(kind, change, baseline);
        let interval = self.interval.and_then(|(interval, method)| {
            let interval = Interval { low: exact(interval.low), high: exact(interval.high) };
            let is_none = interval.low == none && interval.high == none;
            if is_none { Err(NoInterval::NoVariation) } else { Ok((interval, method)) }
        });
        Self { value: exact(self.value), interval, is_same: self.is_same }
    }
}

/// The change, or exactly "no change" if it is only rounding.
fn without_rounding(kind: Change, change: f64, baseline: f64) -> f64 {
    let none = between_none(kind);
    let scale = if kind == Change::Difference { baseline.abs() } else { 1.0 };
    if (change - none).abs() <= ROUNDING * scale { none } else { change }
}

/// The change, with an interval from the variation between runs.
fn repeats(kind: Change, (before, after): (&[f64], &[f64]), whole: f64) -> ChangeEstimate {
    let interval = match kind {
        Change::Difference => welch_interval(before, after).map(|interval| (interval, Method::Welch)),
        Change::Ratio => welch_ratio_interval(before, after).map(|interval| (interval, Method::Fieller)),
    };
    let is_same = interval == Err(NoInterval::NoVariation) && whole == between_none(kind);
    ChangeEstimate { value: whole, interval, is_same }
}

fn between_none(kind: Change) -> f64 {
    if kind == Change::Difference { 0.0 } else { 1.0 }
}

/// The change between two values; `None` if the baseline of a ratio is not positive.
fn between(kind: Change, first: f64, second: f64) -> Option<f64> {
    let change = match kind {
        Change::Difference => second - first,
        Change::Ratio if first > 0.0 => second / first,
        Change::Ratio => return None,
    };
    change.is_finite().then_some(change)
}

fn scaled(interval: Interval, scale: f64) -> Interval {
    Interval { low: interval.low * scale, high: interval.high * scale }
}

fn percentile_of(values: &[Option<f64>], percent: f64) -> f64 {
    let mut sorted: Vec<f64> = values.iter().copied().flatten().collect();
    sorted.sort_unstable_by(f64::total_cmp);
    ergometer_statistics::percentile(&sorted, percent).unwrap_or(f64::NAN)
}

/// The interval of proportions of 0 or 1, where all resamples are equal.
fn at_the_ends<const FACTORS: usize>(
    first: &[[(f64, f64); FACTORS]],
    second: &[[(f64, f64); FACTORS]],
) -> Option<Interval> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sums of zeros and ones")]
    let of = |items: &[[(f64, f64); FACTORS]]| {
        let sum = items.iter().flatten().fold((0.0, 0.0), |sum, item| (sum.0 + item.0, sum.1 + item.1));
        (sum.0 as u64, sum.1 as u64)
    };
    let (first, second) = (of(first), of(second));
    let is_end = |(yes, all): (u64, u64)| yes == 0 || yes == all;
    if is_end(first) || is_end(second) { proportion_effect(first, second) } else { None }
}

fn no_variation<T: PartialEq>(first: &[T], second: &[T]) -> bool {
    first.first().is_some_and(|item| first.iter().chain(second).all(|other| other == item))
}
