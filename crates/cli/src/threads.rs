//! Starts the threads of async runtimes and of parallel loops. A thread that cannot be started is an error here; the
//! libraries panic.

use std::error::Error as _;
use std::sync::{OnceLock, mpsc};
use std::time::Duration;
use std::{fmt, io, thread};

use ergometer_diagnostics::contain_panic;
use tokio::runtime::{Builder, Runtime};

use crate::exit::Failure;

/// How long the first blocking task may take to start. It takes a millisecond if its thread can be started.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the runtime keeps an idle thread for blocking tasks. It could not be replaced if threads run out later.
const KEEP_ALIVE: Duration = Duration::from_secs(30 * 24 * 3600);

/// The threads that run the tasks of a runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workers {
    /// The thread that waits for the tasks.
    Caller,
    /// This many threads, at least one.
    Threads(usize),
}

/// Starts a runtime and one thread for its blocking tasks.
///
/// If a thread cannot be started later, tokio queues a blocking task for the threads that exist. Without any it panics,
/// or the task waits forever, so one thread is started now.
pub(crate) fn start_runtime(workers: Workers) -> Result<Runtime, Failure> {
    let (mut builder, count) = match workers {
        Workers::Caller => (Builder::new_current_thread(), 0),
        Workers::Threads(count) => (Builder::new_multi_thread(), count.max(1)),
    };
    if count > 0 {
        builder.worker_threads(count);
    }
    // tokio panics if its first thread cannot be started, and continues without the others.
    check_threads(count + 1).map_err(cannot_start)?;
    let runtime = contain_panic(|| builder.enable_all().thread_keep_alive(KEEP_ALIVE).build());
    let runtime = runtime.map_err(cannot_start)?.map_err(|error| cannot_open("start the async runtime", &error))?;
    let first = contain_panic(|| {
        runtime.block_on(async { tokio::time::timeout(PATIENCE, tokio::task::spawn_blocking(|| ())).await })
    });
    let cause = match first {
        Ok(Ok(Ok(()))) => return Ok(runtime),
        Ok(Ok(Err(error))) => error.to_string(),
        Ok(Err(_)) => format!("it did not run within {} s", PATIENCE.as_secs()),
        Err(panic) => panic,
    };
    runtime.shutdown_background();
    Err(cannot_start(cause))
}

/// Starts the threads of parallel loops. Repeated calls return the result of the first one.
pub(crate) fn start_pool() -> Result<(), Failure> {
    static FAILURE: OnceLock<Option<String>> = OnceLock::new();
    let failure = FAILURE.get_or_init(|| {
        let error = rayon::ThreadPoolBuilder::new().build_global().err()?;
        // A pool that runs already is an error without a source.
        error.source().map(ToString::to_string)
    });
    failure.as_ref().map_or(Ok(()), |cause| Err(cannot_start(cause)))
}

/// The failure of an action that needs a file descriptor.
pub(crate) fn cannot_open(action: &str, error: &io::Error) -> Failure {
    Failure::failed(format!("cannot {action}: {error}")).hint("check the limit on open files with `ulimit -n`")
}

/// The failure to start a thread.
pub(crate) fn cannot_start(cause: impl fmt::Display) -> Failure {
    Failure::failed(format!("cannot start a thread: {cause}"))
        .hint("check the limits on processes and on memory with `ulimit -u` and `ulimit -v`")
}

/// Starts this many threads at the same time and ends them.
fn check_threads(count: usize) -> io::Result<()> {
    let mut running = Vec::with_capacity(count);
    let started = (0..count).try_for_each(|_| {
        let (sender, receiver) = mpsc::channel::<()>();
        let wait = move || _ = receiver.recv();
        running.push((sender, thread::Builder::new().name(String::from("ergo-check")).spawn(wait)?));
        Ok(())
    });
    for (sender, thread) in running {
        drop(sender);
        let _ = thread.join();
    }
    started
}
