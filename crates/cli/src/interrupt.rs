//! Turns Ctrl-C, termination and the end of a child process into state that loops can check and wait for.

use std::io;
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::exit::Failure;
use crate::threads::cannot_start;

/// Whether the user asked to stop; waits wake up on every signal.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt(Arc<Signalled>);

#[derive(Debug, Default)]
struct Signalled {
    requests: Mutex<StopRequests>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct StopRequests {
    /// How many signals asked to stop.
    times: usize,
    /// Whether a signal was sent to this process only. Ctrl-C in a terminal also reaches the child process.
    alone: bool,
}

/// How long an interrupted child process may take to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// Signals that arrive together count as one, so a wait checks again after this long.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

impl Interrupt {
    /// Starts to listen; Ctrl-C no longer ends the program.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let interrupt = Self::default();
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGCHLD])?;
        let shared = Arc::clone(&interrupt.0);
        let listen = move || {
            for signal in signals.forever() {
                let mut asked = shared.lock();
                asked.times += usize::from(signal != SIGCHLD);
                asked.alone |= signal == SIGTERM || signal == SIGHUP;
                shared.changed.notify_all();
            }
        };
        thread::Builder::new().name(String::from("ergo-signals")).spawn(listen).map_err(cannot_start)?;
        Ok(interrupt)
    }

    /// Whether the user asked to stop.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.0.lock().times > 0
    }

    /// Sleeps until the deadline or an interrupt. Returns whether it was interrupted.
    pub(crate) fn sleep_until(&self, deadline: Instant) -> bool {
        let mut asked = self.0.lock();
        while asked.times == 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            asked = self.0.wait(asked, left);
        }
        true
    }

    /// Calls a function on its own thread each time the user asks to stop, with the number of times so far.
    pub(crate) fn on_signals(&self, mut call: impl FnMut(usize) + Send + 'static) -> Result<(), Failure> {
        let shared = Arc::clone(&self.0);
        let watch = move || {
            let mut seen = 0;
            loop {
                let mut asked = shared.lock();
                while asked.times == seen {
                    asked = shared.wait(asked, CHECK_INTERVAL);
                }
                seen = asked.times;
                drop(asked);
                call(seen);
            }
        };
        thread::Builder::new().name(String::from("ergo-stop")).spawn(watch).map_err(cannot_start)?;
        Ok(())
    }

    /// Waits for a child process to end. After an interrupt it is killed after five seconds, or at the second Ctrl-C.
    pub(crate) fn wait_for(&self, child: &mut Child) -> io::Result<ExitStatus> {
        let mut deadline = None;
        loop {
            // Signals notify under this lock, so a child that ends after this check is not missed.
            let asked = self.0.lock();
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            if asked.times > 0 {
                if deadline.is_none() && asked.alone {
                    ask_to_end(child);
                }
                let end = *deadline.get_or_insert_with(|| Instant::now() + PATIENCE);
                if asked.times > 1 || Instant::now() >= end {
                    child.kill()?;
                }
            }
            drop(self.0.wait(asked, CHECK_INTERVAL));
        }
    }
}

/// Passes a termination signal on to the child process.
fn ask_to_end(child: &Child) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::TERM);
    }
}

impl Signalled {
    fn lock(&self) -> MutexGuard<'_, StopRequests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&'a self, asked: MutexGuard<'a, StopRequests>, timeout: Duration) -> MutexGuard<'a, StopRequests> {
        self.changed.wait_timeout(asked, timeout).unwrap_or_else(PoisonError::into_inner).0
    }
}
