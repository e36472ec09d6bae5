//! Correct answers per joule by subject, with a block bootstrap.

use ergometer_charts::{Cell, Table};
use ergometer_statistics::{Resampling, ratio_interval};
use ergometer_units::format;
use serde_json::{Value, json};

use super::super::cell::{self, count_cell, estimate_cell};
use super::super::entries;
use super::super::order::in_sending_order;
use ergometer_runs::EnergySource;
use ergometer_runs::saved::{Query, Run};
use ergometer_statistics::Estimate;

/// The queries of a subject that have energy values.
pub(super) struct Subject {
    name: String,
    queries: u64,
    graded: u64,
    right: u64,
    /// Correct answers per joule, over graded queries.
    per_joule: Option<Estimate>,
    joules_per_query: Option<Estimate>,
    cost_usd: Option<f64>,
}

/// Subjects, worst first: by fewest correct answers per joule, then by most joules.
pub(super) fn by_subject(run: &Run, seed: u64) -> Vec<Subject> {
    let mut members: Vec<Vec<(usize, &Query)>> = vec![Vec::new(); run.subjects.len()];
    for (place, query) in in_sending_order(run.queries.iter()).into_iter().enumerate() {
        if let Some(members) = members.get_mut(query.subject as usize).filter(|_| query.energy.is_some()) {
            members.push((place, query));
        }
    }
    let there = run.subjects.iter().zip(&members).filter(|(_, members)| !members.is_empty());
    let mut subjects: Vec<Subject> = there.map(|(name, members)| subject(name, members, run.block(), seed)).collect();
    let rank = |subject: &Subject| subject.per_joule.map_or(f64::INFINITY, |found| found.value);
    let joules = |subject: &Subject| subject.joules_per_query.map_or(0.0, |found| found.value);
    subjects.sort_by(|one, other| {
        rank(one)
            .total_cmp(&rank(other))
            .then(joules(other).total_cmp(&joules(one)))
            .then_with(|| one.name.cmp(&other.name))
    });
    subjects
}

fn subject(name: &str, members: &[(usize, &Query)], block: usize, seed: u64) -> Subject {
    let gross = |query: &Query| query.energy.map_or(0.0, |energy| energy.gross);
    let ratio = |pairs: &[(f64, f64)], block: usize| {
        let (top, bottom) = pairs.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
        let interval = ratio_interval(pairs, Resampling { block, seed, ..Resampling::default() });
        (bottom > 0.0).then(|| entries::with(top / bottom, interval))
    };
    // Concurrent queries are resampled together. The block size is the largest number of queries of this subject in any
    // block of the run.
    let places: Vec<usize> = members.iter().map(|member| member.0).collect();
    let within = |(first, &place): (usize, &usize)| places.partition_point(|&other| other < place + block) - first;
    let block = places.iter().enumerate().map(within).max().unwrap_or(1);
    let graded = || members.iter().filter_map(|(_, query)| Some((query.correct?, gross(query))));
    let right: Vec<(f64, f64)> = graded().map(|(is_right, joules)| (f64::from(u8::from(is_right)), joules)).collect();
    let each: Vec<(f64, f64)> = members.iter().map(|(_, query)| (gross(query), 1.0)).collect();
    let costs: Option<Vec<f64>> = members.iter().map(|(_, query)| query.cost_usd).collect();
    Subject {
        name: name.to_owned(),
        queries: members.len() as u64,
        graded: right.len() as u64,
        right: graded().filter(|(is_right, _)| *is_right).count() as u64,
        per_joule: ratio(&right, block),
        joules_per_query: ratio(&each, block),
        cost_usd: costs.map(|costs| costs.iter().sum()),
    }
}

impl Subject {
    pub(super) fn json(&self) -> Value {
        json!({"subject": self.name, "queries": self.queries, "graded": self.graded, "right": self.right,
            "per_joule": entries::estimate(self.per_joule), "j_per_query": entries::estimate(self.joules_per_query),
            "cost_usd": entries::number(self.cost_usd)})
    }
}

pub(super) fn subject_table(subjects: &[Subject], source: EnergySource) -> Table {
    let is_priced = subjects.iter().any(|subject| subject.cost_usd.is_some());
    let mut columns = vec![
        ("subject", "subject"),
        ("correct per joule", "per_joule"),
        ("energy per query", "j_per_query"),
        ("correct", "right"),
        ("graded", "graded"),
    ];
    columns.extend(is_priced.then_some(("cost", "cost_usd")));
    let what = if subjects.iter().any(|subject| subject.graded > 0) { "Correct answers per joule" } else { "Energy" };
    let title = format!("{what} by subject, worst first ({} energy)", source.name());
    let mut table = Table::new("efficiency_by_subject", &title, &columns);
    for subject in subjects {
        let mut row = vec![
            Cell::text(cell::outside(&subject.name)),
            estimate_cell(subject.per_joule, |value| format!("{} /J", format::significant(value))),
            estimate_cell(subject.joules_per_query, |value| format::quantity(value, "J")),
            count_cell(subject.right),
            count_cell(subject.graded),
        ];
        row.extend(
            is_priced.then(|| Cell::number(subject.cost_usd, |cost| format!("{} USD", format::significant(cost)))),
        );
        table.rows.push(row);
    }
    if subjects.iter().any(|subject| subject.graded > 0) {
        table.notes.push(String::from(
            "Correct answers per joule leave out the energy used while no request was in flight. The value of the whole \
             run includes it, so it is lower.",
        ));
    }
    table
}
