//! The `energy_per_token` analysis: joules per output token and per total token (input and output), by answer
//! length.
//!
//! The value of each length range is Σ joules / Σ tokens, as for the whole run. Intervals are a bootstrap over the queries of
//! the run in sending order, in blocks if requests overlap. A query outside the range adds nothing to either sum.

use ergometer_charts::{Cell, Table};
use ergometer_diagnostics::Message;
use ergometer_statistics::{Interval, Resampling, ratio_interval};
use serde::Serialize;

use super::cell::{self, Unit};
use super::order::in_sending_order;
use super::{Analysis, Findings, Options, shared_warnings, to_value};
use crate::AnalysisError;
use ergometer_runs::saved::{Query, Run};

/// With fewer ranges by powers of two, ranges with about equally many queries are used instead.
const FEWEST_RANGES: usize = 3;

/// Number of ranges with about equally many queries.
const MOST_QUANTILES: usize = 6;

/// The `energy_per_token` analysis.
pub(super) struct EnergyPerToken;

impl Analysis for EnergyPerToken {
    fn id(&self) -> &'static str {
        "energy_per_token"
    }

    fn about(&self) -> &'static str {
        "joules per output token and per total token (input and output), by answer length; gross (all energy) \
         and net (above idle power)"
    }

    fn run(&self, run: &Run, options: &Options) -> Result<Findings, AnalysisError> {
        shared_warnings::check_queries(run)?;
        let mut findings = Findings::default();
        let queries = in_sending_order(run.completed());
        let counted: Vec<TokenEnergy> = queries.iter().filter_map(|query| TokenEnergy::from_query(query)).collect();
        let resampling = Resampling { block: run.block(), seed: options.seed, ..Resampling::default() };
        let rows: Vec<Row> = std::iter::once(None)
            .chain(ranges(&counted).into_iter().map(Some))
            .map(|range| Row::for_range(range, &counted, resampling))
            .collect();
        let source = run.energy.map(ergometer_runs::EnergySource::name);
        findings.summary.insert(String::from("energy_source"), source.into());
        findings.summary.insert(String::from("queries"), counted.len().into());
        for (name, ratio) in [
            ("gross_j_per_output_token", rows[0].gross_j_per_output_token),
            ("net_j_per_output_token", rows[0].net_j_per_output_token),
        ] {
            findings.summary.insert(name.to_owned(), ratio.map(|ratio| ratio.value).into());
        }
        findings.data.insert(String::from("all"), to_value(&rows[0]));
        findings.data.insert(String::from("by_output_tokens"), to_value(&&rows[1..]));
        findings.warnings.extend(warnings(run, counted.len()));
        findings.tables.push(table(run, &rows));
        Ok(findings)
    }
}

/// Tokens and energy of a query.
struct TokenEnergy {
    output: u64,
    all: u64,
    gross: f64,
    net: Option<f64>,
}

impl TokenEnergy {
    fn from_query(query: &Query) -> Option<Self> {
        let output = query.output_tokens.filter(|&tokens| tokens > 0)?;
        let energy = query.energy?;
        Some(Self { output, all: query.all_tokens().unwrap_or(output), gross: energy.gross, net: energy.net })
    }
}

/// A range of answer lengths, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    from: u64,
    to: u64,
}

/// Ranges by powers of two. If these are few: ranges with about equally many queries, or one per length.
fn ranges(queries: &[TokenEnergy]) -> Vec<Range> {
    let mut lengths: Vec<u64> = queries.iter().map(|query| query.output).collect();
    lengths.sort_unstable();
    let doubling: Vec<Range> = lengths
        .chunk_by(|a, b| a.ilog2() == b.ilog2())
        .map(|chunk| 1 << chunk[0].ilog2())
        .map(|from| Range { from, to: from + (from - 1) })
        .collect();
    if doubling.len() >= FEWEST_RANGES {
        return doubling;
    }
    let equal: Vec<&[u64]> = lengths.chunk_by(|a, b| a == b).collect();
    let mut ranges: Vec<Range> = Vec::new();
    let (mut taken, mut held) = (0, 0);
    for chunk in &equal {
        let (length, is_new) = (chunk[0], held == 0);
        taken += chunk.len();
        held += chunk.len();
        match ranges.last_mut() {
            Some(last) if !is_new => last.to = length,
            _ => ranges.push(Range { from: length, to: length }),
        }
        // A range ends at the next quantile of the queries.
        if equal.len() <= MOST_QUANTILES || taken * MOST_QUANTILES >= ranges.len() * lengths.len() {
            held = 0;
        }
    }
    ranges
}

/// Energy per token in a range of lengths.
#[derive(Debug, Serialize)]
struct Row {
    from_output_tokens: Option<u64>,
    to_output_tokens: Option<u64>,
    queries: usize,
    output_tokens: u64,
    gross_j_per_output_token: Option<Ratio>,
    net_j_per_output_token: Option<Ratio>,
    gross_j_per_token: Option<Ratio>,
    net_j_per_token: Option<Ratio>,
}

/// A ratio of sums with its 95 % interval.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ratio {
    pub(super) value: f64,
    pub(super) interval: Option<Interval>,
}

impl Serialize for Ratio {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        super::entries::estimate(Some(super::entries::with(self.value, self.interval))).serialize(serializer)
    }
}

impl Ratio {
    /// The ratio of sums of pairs in sending order; `None` pairs stand for other queries. `None` without a positive
    /// denominator. An interval needs at least ten blocks that contain a pair.
    pub(super) fn from_pairs(pairs: &[Option<(f64, f64)>], resampling: Resampling) -> Option<Self> {
        let all: Vec<(f64, f64)> = pairs.iter().map(|pair| pair.unwrap_or((0.0, 0.0))).collect();
        let (top, bottom) = all.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
        let value = Some(top / bottom).filter(|value| bottom > 0.0 && value.is_finite())?;
        Some(Self { value, interval: ratio_interval(&all, resampling) })
    }
}

impl Row {
    fn for_range(range: Option<Range>, queries: &[TokenEnergy], resampling: Resampling) -> Self {
        let is_in = |query: &TokenEnergy| range.is_none_or(|range| (range.from..=range.to).contains(&query.output));
        let ratio = |joules: &dyn Fn(&TokenEnergy) -> Option<f64>, tokens: &dyn Fn(&TokenEnergy) -> u64| {
            let pair =
                |query: &TokenEnergy| is_in(query).then(|| Some((joules(query)?, tokens(query) as f64))).flatten();
            Ratio::from_pairs(&queries.iter().map(pair).collect::<Vec<_>>(), resampling)
        };
        let (gross, net) = (|query: &TokenEnergy| Some(query.gross), |query: &TokenEnergy| query.net);
        let (output, all) = (|query: &TokenEnergy| query.output, |query: &TokenEnergy| query.all);
        let there = queries.iter().filter(|query| is_in(query));
        Self {
            from_output_tokens: range.map(|range| range.from),
            to_output_tokens: range.map(|range| range.to),
            queries: there.clone().count(),
            output_tokens: there.map(output).fold(0, u64::saturating_add),
            gross_j_per_output_token: ratio(&gross, &output),
            net_j_per_output_token: ratio(&net, &output),
            gross_j_per_token: ratio(&gross, &all),
            net_j_per_token: ratio(&net, &all),
        }
    }

    fn label(&self) -> String {
        match (self.from_output_tokens, self.to_output_tokens) {
            (Some(from), Some(to)) if from == to => format!("{from} output tokens"),
            (Some(from), Some(to)) => format!("{from}-{to} output tokens"),
            _ => String::from("all"),
        }
    }
}

fn warnings(run: &Run, counted: usize) -> Vec<Message> {
    let mut warnings: Vec<Message> = Vec::new();
    warnings.extend(shared_warnings::failed_left_out(run));
    let completed = run.completed().count();
    if run.energy.is_none() {
        warnings.push(Message::new("the run has no energy values"));
    } else if counted < completed {
        warnings.push(Message::new(format!(
            "{} of {completed} queries are left out: their tokens or energy are unknown",
            completed - counted
        )));
    }
    warnings.extend(shared_warnings::not_finite(run));
    warnings.extend(shared_warnings::modelled(run));
    warnings
}

fn table(run: &Run, rows: &[Row]) -> Table {
    let source = run.energy.map_or("no", ergometer_runs::EnergySource::name);
    let mut table = Table::new(
        "energy_per_token",
        &format!("Energy per token by answer length ({source} energy)"),
        &[
            ("answer length", "answers_of"),
            ("queries", "queries"),
            ("gross/output token", "gross_j_per_output_token"),
            ("net/output token", "net_j_per_output_token"),
            ("gross/total token", "gross_j_per_token"),
            ("net/total token", "net_j_per_token"),
        ],
    );
    let ratio = |ratio: Option<Ratio>| {
        cell::estimate(ratio.map(|ratio| ratio.value), ratio.and_then(|ratio| ratio.interval), Unit::JOULES)
    };
    for row in rows.iter().filter(|row| row.queries > 0) {
        table.rows.push(vec![
            Cell::text(row.label()),
            cell::count_cell(row.queries as u64),
            ratio(row.gross_j_per_output_token),
            ratio(row.net_j_per_output_token),
            ratio(row.gross_j_per_token),
            ratio(row.net_j_per_token),
        ]);
    }
    table.notes.push(String::from(
        "joules / tokens, both summed over queries; total tokens: input and output; 95 % bootstrap interval over \
         queries: value ± half-width, or only the ends (low to high) if the half-width exceeds the value",
    ));
    table.notes.push(match run.block() {
        1 => String::from("an interval needs at least 10 queries"),
        block => {
            format!("queries overlap, so they are resampled in blocks of {block}; an interval needs at least 10 blocks")
        }
    });
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range_bounds(lengths: &[u64]) -> Vec<(u64, u64)> {
        let queries: Vec<TokenEnergy> =
            lengths.iter().map(|&output| TokenEnergy { output, all: output, gross: 1.0, net: None }).collect();
        ranges(&queries).iter().map(|range| (range.from, range.to)).collect()
    }

    #[test]
    fn ranges_follow_the_lengths() {
        assert_eq!(range_bounds(&[1, 2, 3, 9, 15, 100]), [(1, 1), (2, 3), (8, 15), (64, 127)]);
        assert_eq!(range_bounds(&[64; 400]), [(64, 64)]);
        assert_eq!(range_bounds(&[64, 65, 66, 65]), [(64, 64), (65, 65), (66, 66)]);
        let close: Vec<u64> = (64..124).collect();
        assert_eq!(range_bounds(&close), [(64, 73), (74, 83), (84, 93), (94, 103), (104, 113), (114, 123)]);
        assert!(range_bounds(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn every_length_is_in_one_range(lengths in prop::collection::vec(prop_oneof![1_u64..20, 60_u64..90, Just(u64::MAX)], 1..80)) {
            let ranges = range_bounds(&lengths);
            for length in &lengths {
                prop_assert_eq!(ranges.iter().filter(|(from, to)| (*from..=*to).contains(length)).count(), 1, "{:?}", ranges);
            }
        }
    }
}
