//! Runs long work without Python's global lock, so that Ctrl-C can interrupt it.
//!
//! The work runs on a separate thread while the caller waits without the lock and checks for signals. Parallel parts
//! run in a thread pool created by this process, because the threads of a pool inherited over a fork do not exist.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

/// Interval between checks for signals: too short for a person to notice.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The thread pool and the id of the process that created it. Locked only briefly and with Python's global lock held,
/// so it is never locked when a process forks.
static POOL: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);

/// Returns the result of the work, or raises the exception of a signal handler; the work's result is then discarded.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let pool = pool()?;
    let (sender, mut receiver) = mpsc::channel();
    thread::Builder::new().name(String::from("ergometer")).spawn(move || {
        // The receiver is gone if the caller was interrupted.
        let _ = sender.send(pool.install(work));
    })?;
    loop {
        let received;
        (receiver, received) = py.detach(move || {
            let received = receiver.recv_timeout(SIGNAL_CHECK_INTERVAL);
            (receiver, received)
        });
        match received {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("internal error: a thread of ergometer panicked; see stderr"));
            }
        }
    }
}

/// The thread pool of this process.
fn pool() -> PyResult<Arc<ThreadPool>> {
    let mut current = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    match current.as_ref() {
        Some((owner, pool)) if *owner == process => Ok(Arc::clone(pool)),
        _ => {
            let fresh = ThreadPoolBuilder::new().thread_name(|number| format!("ergometer-{number}")).build();
            let fresh = Arc::new(fresh.map_err(|cause| PyRuntimeError::new_err(cause.to_string()))?);
            // Dropping an inherited pool would wait for threads that do not exist.
            std::mem::forget(current.replace((process, Arc::clone(&fresh))));
            Ok(fresh)
        }
    }
}
