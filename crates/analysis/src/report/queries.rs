//! The table of queries, with the beginnings of prompts and answers.

use ergometer_charts::{Block, Cell, Table};
use ergometer_units::format::{quantity, thousands};

use super::RequestLink;
use crate::AnalysisError;
use ergometer_runs::saved::{Attribution, Query, Run, Texts};

/// Maximum number of rows; more would make the page slow.
const MOST: usize = 1_000;

/// Maximum number of characters of a prompt or answer.
const LENGTH: usize = 160;

pub(super) fn blocks(run: &Run, link: RequestLink) -> Result<Vec<Block>, AnalysisError> {
    if run.queries.is_empty() {
        return Ok(Vec::new());
    }
    let wanted = chosen(run);
    let texts = Texts::read(run, &wanted, LENGTH)?;
    let has_net = run.queries.iter().any(|query| query.attribution.is_some());
    let mut columns = vec![
        ("request", "request"),
        ("subject", "subject"),
        ("prompt", "problem"),
        ("answer", "response"),
        ("correct", "correct"),
        ("input tokens", "input_tokens"),
        ("output tokens", "output_tokens"),
        ("TTFT", "ttft_s"),
        ("E2E latency", "total_s"),
        ("energy", "gross_j"),
    ];
    columns.extend(has_net.then_some(("net energy", "net_j")));
    let mut table = Table::new("queries", "", &columns);
    for &place in &wanted {
        let query = &run.queries[place];
        let text = texts.get(&place).cloned().unwrap_or_default();
        let response = if query.is_completed() { text.response } else { format!("failed: {}", text.cause) };
        let mut row = vec![
            match link {
                RequestLink::ToTimeline => Cell::Request { request: query.request },
                RequestLink::None => Cell::Number { value: query.request as f64, shown: query.request.to_string() },
            },
            Cell::text(run.subject(query)),
            Cell::text(text.problem),
            Cell::text(response),
            query.correct.map_or(Cell::Absent, |correct| Cell::text(if correct { "yes" } else { "no" })),
            Cell::number(query.input_tokens.map(|tokens| tokens as f64), thousands),
            Cell::number(query.output_tokens.map(|tokens| tokens as f64), thousands),
            Cell::number(query.ttft_s, |seconds| quantity(seconds, "s")),
            Cell::number(query.total_s, |seconds| quantity(seconds, "s")),
            energy(query),
        ];
        row.extend(has_net.then(|| net_energy(query)));
        table.rows.push(row);
    }
    if has_net {
        table.notes.push(String::from(
            "Net energy: the share of the energy above idle power, with its 95 % interval; the shares sum to the net \
             energy of all requests.",
        ));
    }
    if wanted.len() < run.queries.len() {
        table.notes.push(format!(
            "Shows {} of {} queries: failed queries first, then the slowest. The records have all queries.",
            thousands(wanted.len() as f64),
            thousands(run.queries.len() as f64)
        ));
    }
    Ok(vec![Block::Table(table)])
}

fn energy(query: &Query) -> Cell {
    let Some(energy) = query.energy else { return Cell::Absent };
    let shown = quantity(energy.gross, "J");
    if energy.high > energy.low {
        Cell::Estimate { value: energy.gross, low: energy.low, high: energy.high, shown }
    } else {
        Cell::Number { value: energy.gross, shown }
    }
}

/// The share of the net energy with its interval.
fn net_energy(query: &Query) -> Cell {
    let Some(Attribution { share: value, low, high, .. }) = query.attribution else { return Cell::Absent };
    let joules = |joules: f64| quantity(joules, "J");
    Cell::Estimate { value, low, high, shown: format!("{} ({} to {})", joules(value), joules(low), joules(high)) }
}

/// The indices of the queries in the table, in the order of the run.
fn chosen(run: &Run) -> Vec<usize> {
    let mut places: Vec<usize> = (0..run.queries.len()).collect();
    if places.len() > MOST {
        let length = |place: &usize| run.queries[*place].total_s.unwrap_or(0.0);
        places.sort_by(|one, other| {
            let failed = |place: &usize| run.queries[*place].is_completed();
            failed(one).cmp(&failed(other)).then(length(other).total_cmp(&length(one)))
        });
        places.truncate(MOST);
        places.sort_unstable();
    }
    places
}
