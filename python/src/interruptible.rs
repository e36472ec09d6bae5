//! Long work, off Python's lock and within reach of Ctrl-C.
//!
//! Work runs on a thread of its own while the caller waits without the lock and looks for signals. Its parallel parts
//! run in a pool that belongs to this process: the threads of one that was inherited over a fork do not exist.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

/// How often signals are looked for: too short for a person to notice.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The pool, and the process it is of. Touched only with Python's lock held and never for long, so it is never locked
/// when a process forks.
static POOL: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);

/// Runs work to its end, or raises what a signal raises; the work then ends unheard.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let pool = pool()?;
    let (sender, mut receiver) = mpsc::channel();
    thread::Builder::new().name(String::from("ergometer")).spawn(move || {
        // Nobody listens any more where the caller was interrupted.
        let _ = sender.send(pool.install(work));
    })?;
    loop {
        let heard;
        (receiver, heard) = py.detach(move || {
            let heard = receiver.recv_timeout(LOOK_EVERY);
            (receiver, heard)
        });
        match heard {
            Ok(done) => return Ok(done),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("a thread of ergometer panicked; stderr says where"));
            }
        }
    }
}

/// The pool of this process.
fn pool() -> PyResult<Arc<ThreadPool>> {
    let mut known = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    match known.as_ref() {
        Some((owner, pool)) if *owner == process => Ok(Arc::clone(pool)),
        _ => {
            let fresh = ThreadPoolBuilder::new().thread_name(|number| format!("ergometer-{number}")).build();
            let fresh = Arc::new(fresh.map_err(|cause| PyRuntimeError::new_err(cause.to_string()))?);
            // An inherited pool is left as it is: to end it would be to wait for threads that are not there.
            std::mem::forget(known.replace((process, Arc::clone(&fresh))));
            Ok(fresh)
        }
    }
}
