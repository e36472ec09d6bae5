//! Starts rayon's threads before the first product that needs them: rayon itself panics if it cannot start one.

use std::error::Error as _;
use std::sync::OnceLock;

use crate::error::ModelError;

/// Starts the threads. Repeated calls return the result of the first one.
pub(crate) fn start_threads() -> Result<(), ModelError> {
    static FAILURE: OnceLock<Option<String>> = OnceLock::new();
    let failure = FAILURE.get_or_init(|| {
        let error = rayon::ThreadPoolBuilder::new().build_global().err()?;
        // Threads that run already are an error without a source.
        error.source().map(ToString::to_string)
    });
    failure.clone().map_or(Ok(()), |cause| Err(ModelError::Threads { cause }))
}
