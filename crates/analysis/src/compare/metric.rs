//! What runs are compared by: one line for each metric says its name, its unit, which way is better and where it is.
//!
//! The value of a run is that of its summary; where a summary does not have it (runs of other tools), it is made from
//! the records by the same formula.

use ergometer_statistics::{Aim, Change, Distribution};
use ergometer_units::format::{digits, percent, quantity, significant, thousands};
use serde::{Serialize, Serializer};

use super::sample;
use crate::saved::{Query, Run};

/// A metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name, as in `--fail-if`.
    pub name: &'static str,
    /// What people read.
    pub label: &'static str,
    /// What it is counted in.
    pub unit: Unit,
    /// Which way is better; `None` where neither is.
    pub better: Option<Aim>,
    /// Where a summary has it; `*` is where the joules come from. The first place with a number counts.
    pub(super) paths: &'static [&'static str],
    /// What a number of the summary is multiplied by.
    pub(super) factor: f64,
    pub(super) made_of: MadeOf,
}

/// A numerator and a denominator of a query, where it has them.
type Fraction = fn(&Query) -> Option<(f64, f64)>;

/// The same of two factors, which go together.
type Fractions = fn(&Query) -> Option<[(f64, f64); 2]>;

/// What of the queries a metric is made of.
#[derive(Debug, Clone, Copy)]
pub(super) enum MadeOf {
    /// A ratio of sums over queries.
    Sums(Fraction),
    /// Something that goes with a ratio of sums over queries, and is not it: joules between requests, and seconds, are in it
    /// too. Only a summary has it.
    Proportional(Fraction),
    /// The same with a product of two such ratios.
    ProportionalProduct(Fractions),
    /// A percentile over the completed queries.
    Percentile(f64, fn(&Query) -> Option<f64>),
    /// A sum over the time of the run.
    Rate(fn(&Query) -> Option<f64>),
    /// Nothing that is known of single queries.
    Whole,
}

/// What a metric is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A part of a whole, from 0 to 1; people read percent.
    Share,
    /// Seconds.
    Seconds,
    /// Joules.
    Joules,
    /// Watts.
    Watts,
    /// US dollars.
    Dollars,
    /// Things, of this name.
    Count(&'static str),
}

impl Unit {
    /// Its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Share => "share",
            Self::Seconds => "s",
            Self::Joules => "J",
            Self::Watts => "W",
            Self::Dollars => "USD",
            Self::Count(name) => name,
        }
    }

    /// A value as people read it.
    #[must_use]
    pub fn shown(self, value: f64) -> String {
        match self {
            Self::Share => percent(value),
            Self::Seconds | Self::Joules | Self::Watts => quantity(value, self.name()),
            Self::Dollars => format!("${}", significant(value)),
            Self::Count(name) => {
                let number = if value.abs() >= 1000.0 { thousands(value) } else { number(value) };
                format!("{number} {name}").trim_end().to_owned()
            }
        }
    }
}

fn number(value: f64) -> String {
    if value.abs() >= 1.0 { digits(value) } else { significant(value) }
}

impl Serialize for Unit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl Metric {
    /// That of a name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        METRICS.iter().find(|metric| metric.name == name)
    }

    /// How a change of it is told: of parts and times the difference, of everything else the ratio.
    #[must_use]
    pub fn change(&self) -> Change {
        match self.unit {
            Unit::Share | Unit::Seconds if self.name != "duration" => Change::Difference,
            _ => Change::Ratio,
        }
    }

    /// Whether it depends on where joules come from.
    #[must_use]
    pub fn is_energy(&self) -> bool {
        self.paths.iter().any(|path| path.contains('*') || path.starts_with("/intelligence"))
    }

    /// What a run came to.
    #[must_use]
    pub fn value(&self, run: &Run) -> Option<f64> {
        let source = run.energy.map_or("measured", crate::saved::EnergySource::name);
        let number = |path: &&str| run.summary.number(&path.replace('*', source));
        let found = self.paths.iter().find_map(number).map(|value| value * self.factor);
        let is_there = !matches!(self.made_of, MadeOf::Proportional(_) | MadeOf::ProportionalProduct(_));
        found.or_else(|| self.from_records(run).filter(|_| is_there)).filter(|value| value.is_finite())
    }

    /// The same from the records; of what only a summary has, what it goes with.
    #[must_use]
    pub fn from_records(&self, run: &Run) -> Option<f64> {
        match self.made_of {
            MadeOf::Sums(fraction) | MadeOf::Proportional(fraction) => ratio(run.queries.iter().filter_map(fraction)),
            MadeOf::ProportionalProduct(fractions) => product(run.queries.iter().filter_map(fractions)),
            MadeOf::Percentile(percent, value) => {
                let values: Vec<f64> = run.completed().filter_map(value).collect();
                let found = Distribution::from_values(&values)?;
                match percent {
                    50.0 => Some(found.p50),
                    90.0 => Some(found.p90),
                    _ => found.p99,
                }
            }
            MadeOf::Rate(amount) => {
                let seconds = sample::seconds(run)?;
                Some(run.queries.iter().filter_map(amount).sum::<f64>() / seconds)
            }
            MadeOf::Whole => None,
        }
    }
}

/// Σ numerators / Σ denominators.
pub(super) fn ratio(fractions: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    product(fractions.map(|fraction| [fraction]))
}

/// Π (Σ numerators / Σ denominators).
pub(super) fn product<const FACTORS: usize>(items: impl Iterator<Item = [(f64, f64); FACTORS]>) -> Option<f64> {
    let mut sums = [(0.0, 0.0); FACTORS];
    for item in items {
        for (sum, part) in sums.iter_mut().zip(item) {
            *sum = (sum.0 + part.0, sum.1 + part.1);
        }
    }
    sums.iter().all(|sum| sum.1 > 0.0).then(|| sums.iter().map(|sum| sum.0 / sum.1).product())
}

fn of_energy(query: &Query, per: Option<u64>) -> Option<(f64, f64)> {
    Some((query.energy?.gross, per? as f64))
}

fn yes(is: bool) -> f64 {
    f64::from(u8::from(is))
}

fn completed_tokens(query: &Query) -> Option<f64> {
    query.output_tokens.filter(|_| query.is_completed()).map(|tokens| tokens as f64)
}

const fn metric(name: &'static str, label: &'static str, unit: Unit, better: Option<Aim>) -> Metric {
    Metric { name, label, unit, better, paths: &[], factor: 1.0, made_of: MadeOf::Whole }
}

const fn sums(metric: Metric, paths: &'static [&'static str], fraction: Fraction) -> Metric {
    Metric { paths, made_of: MadeOf::Sums(fraction), ..metric }
}

const fn proportional(metric: Metric, paths: &'static [&'static str], fraction: Fraction) -> Metric {
    Metric { paths, made_of: MadeOf::Proportional(fraction), ..metric }
}

const fn rate(metric: Metric, paths: &'static [&'static str], amount: fn(&Query) -> Option<f64>) -> Metric {
    Metric { paths, made_of: MadeOf::Rate(amount), ..metric }
}

/// A latency: of its name the summary has milliseconds.
const fn latency(
    (name, label): (&'static str, &'static str),
    paths: &'static [&'static str],
    percent: f64,
    value: fn(&Query) -> Option<f64>,
) -> Metric {
    let metric = metric(name, label, Unit::Seconds, Some(Aim::Lower));
    Metric { paths, factor: 1e-3, made_of: MadeOf::Percentile(percent, value), ..metric }
}

const HIGHER: Option<Aim> = Some(Aim::Higher);
const LOWER: Option<Aim> = Some(Aim::Lower);

/// Every metric, in the order in which people read them.
pub static METRICS: &[Metric] = &[
    sums(metric("accuracy", "accuracy", Unit::Share, HIGHER), &["/accuracy/rate/value"], |query| {
        query.correct.map(|correct| (yes(correct), 1.0))
    }),
    sums(metric("failed_share", "failed", Unit::Share, LOWER), &[], |query| Some((yes(!query.is_completed()), 1.0))),
    sums(metric("joules_per_query", "J/query", Unit::Joules, LOWER), &["/energy/*/gross_j_per_query/value"], |query| {
        of_energy(query, Some(1))
    }),
    sums(
        metric("net_joules_per_query", "net J/query", Unit::Joules, LOWER),
        &["/energy/*/net_j_per_query/value"],
        |query| Some((query.energy?.net?, 1.0)),
    ),
    sums(
        metric("joules_per_token", "J/output token", Unit::Joules, LOWER),
        &["/energy/*/gross_j_per_output_token"],
        |query| of_energy(query, query.output_tokens),
    ),
    sums(metric("joules_per_total_token", "J/token", Unit::Joules, LOWER), &["/energy/*/gross_j_per_token"], |query| {
        of_energy(query, Some(query.input_tokens? + query.output_tokens?))
    }),
    proportional(
        metric("intelligence_per_joule", "intelligence/joule", Unit::Count("/J"), HIGHER),
        &["/intelligence/per_joule/value"],
        |query| Some((yes(query.correct == Some(true)), query.energy?.gross)),
    ),
    Metric {
        paths: &["/intelligence/per_watt/value"],
        // Accuracy over mean power: right / graded x seconds / joules.
        made_of: MadeOf::ProportionalProduct(|query| {
            let (right, graded) = (query.correct == Some(true), query.correct.is_some());
            Some([(yes(right), yes(graded)), (query.total_s?, query.energy?.gross)])
        }),
        ..metric("intelligence_per_watt", "intelligence/watt", Unit::Count("/W"), HIGHER)
    },
    proportional(metric("mean_power_w", "mean power", Unit::Watts, None), &["/energy/*/mean_power_w"], |query| {
        Some((query.energy?.gross, query.total_s?))
    }),
    latency(("ttft_p50", "TTFT p50"), &["/load/ttft_ms/p50", "/latency/ttft_ms/p50"], 50.0, Query::ttft),
    latency(("ttft_p90", "TTFT p90"), &["/load/ttft_ms/p90", "/latency/ttft_ms/p90"], 90.0, Query::ttft),
    latency(("ttft_p99", "TTFT p99"), &["/load/ttft_ms/p99", "/latency/ttft_ms/p99"], 99.0, Query::ttft),
    latency(("tpot_p50", "TPOT p50"), &["/load/tpot_ms/p50", "/latency/tpot_ms/p50"], 50.0, Query::tpot),
    latency(("tpot_p99", "TPOT p99"), &["/load/tpot_ms/p99", "/latency/tpot_ms/p99"], 99.0, Query::tpot),
    whole_latency("itl_p50", "ITL p50", &["/load/itl_ms/p50"]),
    whole_latency("itl_p99", "ITL p99", &["/load/itl_ms/p99"]),
    latency(("e2e_p50", "E2E p50"), &["/load/e2e_ms/p50", "/latency/e2e_ms/p50"], 50.0, Query::e2e),
    latency(("e2e_p99", "E2E p99"), &["/load/e2e_ms/p99", "/latency/e2e_ms/p99"], 99.0, Query::e2e),
    rate(
        metric("output_tokens_per_second", "speed", Unit::Count("tok/s"), HIGHER),
        &["/load/output_tokens_per_second", "/tokens/output_per_second"],
        completed_tokens,
    ),
    rate(
        metric("requests_per_second", "requests", Unit::Count("/s"), HIGHER),
        &["/load/requests_per_second", "/tokens/requests_per_second"],
        |query| query.is_completed().then_some(1.0),
    ),
    Metric { paths: &["/load/goodput/requests_per_second"], ..metric("goodput", "goodput", Unit::Count("/s"), HIGHER) },
    sums(metric("output_tokens_per_query", "tokens/query", Unit::Count(""), None), &[], |query| {
        Some((query.output_tokens? as f64, 1.0))
    }),
    // A summary has the cost of the whole run, which grows with its length.
    sums(metric("cost_usd_per_query", "cost/query", Unit::Dollars, LOWER), &[], |query| Some((query.cost_usd?, 1.0))),
    Metric { paths: &["/duration_s"], ..metric("duration", "duration", Unit::Seconds, None) },
];

/// A latency of which single queries have no value.
const fn whole_latency(name: &'static str, label: &'static str, paths: &'static [&'static str]) -> Metric {
    Metric { paths, factor: 1e-3, ..metric(name, label, Unit::Seconds, Some(Aim::Lower)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_command_line_and_told_apart() {
        for (place, metric) in METRICS.iter().enumerate() {
            let is_plain =
                |character: char| character.is_ascii_lowercase() || character.is_ascii_digit() || character == '_';
            assert!(metric.name.chars().all(is_plain), "{}", metric.name);
            assert!(METRICS[..place].iter().all(|other| other.name != metric.name && other.label != metric.label));
        }
        assert_eq!(Metric::find("ttft_p99").map(Metric::change), Some(Change::Difference));
        assert!(Metric::find("watts").is_none());
    }

    #[test]
    fn values_are_shown_in_their_unit() {
        let shown =
            [(Unit::Share, 0.797), (Unit::Seconds, 0.0019), (Unit::Count("tok/s"), 18_176.4), (Unit::Dollars, 0.5)];
        assert_eq!(shown.map(|(unit, value)| unit.shown(value)), ["79.7 %", "1.900 ms", "18,176 tok/s", "$0.500"]);
    }
}
