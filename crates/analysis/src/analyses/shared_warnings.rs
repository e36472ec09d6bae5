//! Warnings that several analyses share.

use crate::AnalysisError;
use ergometer_diagnostics::Message;
use ergometer_runs::EnergySource;
use ergometer_runs::saved::Run;

/// An error if the run has no queries.
pub(super) fn check_queries(run: &Run) -> Result<(), AnalysisError> {
    if run.queries.is_empty() { Err(AnalysisError::no_queries(&run.folder)) } else { Ok(()) }
}

/// Warns about numbers that are NaN or infinite.
pub(super) fn not_finite(run: &Run) -> Option<Message> {
    match run.not_finite {
        0 => None,
        1 => Some(Message::new("1 number in the records is NaN or infinite and is left out")),
        many => Some(Message::new(format!("{many} numbers in the records are NaN or infinite and are left out"))),
    }
}

/// Warns about failed queries that an analysis leaves out.
pub(super) fn failed_left_out(run: &Run) -> Option<Message> {
    let failed = run.queries.len() - run.completed().count();
    match failed {
        0 => None,
        all if all == run.queries.len() => {
            Some(Message::new("all queries failed, so there are no latencies, tokens or joules to analyze"))
        }
        1 => Some(Message::new("1 failed query is left out")),
        many => Some(Message::new(format!("{many} failed queries are left out"))),
    }
}

/// Warns if the energy is modelled.
pub(super) fn modelled(run: &Run) -> Option<Message> {
    (run.energy == Some(EnergySource::Modelled))
        .then(|| Message::new("energy is modelled from CPU utilization, not measured"))
}
