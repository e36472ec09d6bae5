//! What several analyses have to say about the records they were given.

use crate::AnalysisError;
use ergometer_runs::EnergySource;
use ergometer_runs::saved::Run;

/// A run without a record has nothing to be found out.
pub(super) fn check_queries(run: &Run) -> Result<(), AnalysisError> {
    if run.queries.is_empty() { Err(AnalysisError::no_queries(&run.folder)) } else { Ok(()) }
}

/// Numbers that are none.
pub(super) fn not_finite(run: &Run) -> Option<String> {
    match run.not_finite {
        0 => None,
        1 => Some(String::from("1 number in the records is NaN or infinite: it counts as absent")),
        many => Some(format!("{many} numbers in the records are NaN or infinite: they count as absent")),
    }
}

/// Failed queries that an analysis leaves out.
pub(super) fn failed_left_out(run: &Run) -> Option<String> {
    let failed = run.queries.len() - run.completed().count();
    match failed {
        0 => None,
        all if all == run.queries.len() => {
            Some(String::from("no query has an answer: there is nothing to tell of times, tokens and joules"))
        }
        1 => Some(String::from("1 failed query is not among the values")),
        many => Some(format!("{many} failed queries are not among the values")),
    }
}

/// Where joules are no measurement.
pub(super) fn modelled(run: &Run) -> Option<String> {
    (run.energy == Some(EnergySource::Modelled))
        .then(|| String::from("energy is modelled from the use of the processor, not measured"))
}
