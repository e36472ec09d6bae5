//! Ctrl-C, termination and the end of a child, as something loops can look at and wait for: what was measured is kept.

use std::io;
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// What the user asked for, and a bell that rings on every signal.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    asked: Mutex<Asked>,
    bell: Condvar,
}

#[derive(Debug, Default)]
struct Asked {
    /// How many times a signal asked us to stop.
    times: usize,
    /// Whether one came to us alone. Ctrl-C comes from the terminal, and reaches a command as well.
    alone: bool,
}

/// How long an interrupted command may take to end by itself.
const PATIENCE: Duration = Duration::from_secs(5);

/// Signals can come together and count as one, so a wait looks again after this long.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

impl Interrupt {
    /// Listens from now on; Ctrl-C no longer ends the program by itself.
    pub(crate) fn listen() -> io::Result<Self> {
        let interrupt = Self::default();
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGCHLD])?;
        let shared = Arc::clone(&interrupt.0);
        thread::Builder::new().name(String::from("ergo-signals")).spawn(move || {
            for signal in signals.forever() {
                let mut asked = shared.lock();
                asked.times += usize::from(signal != SIGCHLD);
                asked.alone |= signal == SIGTERM || signal == SIGHUP;
                shared.bell.notify_all();
            }
        })?;
        Ok(interrupt)
    }

    /// Whether the user asked to stop.
    pub(crate) fn is_asked(&self) -> bool {
        self.0.lock().times > 0
    }

    /// Sleeps until the deadline or an interrupt. Says whether it was interrupted.
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

    /// Calls this on a thread of its own each time the user asks to stop, with how many times they did.
    pub(crate) fn on_signals(&self, mut call: impl FnMut(usize) + Send + 'static) -> io::Result<()> {
        let shared = Arc::clone(&self.0);
        thread::Builder::new().name(String::from("ergo-stop")).spawn(move || {
            let mut seen = 0;
            loop {
                let mut asked = shared.lock();
                while asked.times == seen {
                    asked = shared.wait(asked, LOOK_AGAIN);
                }
                seen = asked.times;
                drop(asked);
                call(seen);
            }
        })?;
        Ok(())
    }

    /// Waits for a command to end. Once interrupted it has five seconds, and none after a second Ctrl-C.
    pub(crate) fn wait_for(&self, child: &mut Child) -> io::Result<ExitStatus> {
        let mut deadline = None;
        loop {
            // The bell is rung under this lock, so a child that ends after the look is not missed.
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
            drop(self.0.wait(asked, LOOK_AGAIN));
        }
    }
}

/// Passes a termination on. A command that is gone already needs none.
fn ask_to_end(child: &Child) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::TERM);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&'a self, asked: MutexGuard<'a, Asked>, timeout: Duration) -> MutexGuard<'a, Asked> {
        self.bell.wait_timeout(asked, timeout).unwrap_or_else(PoisonError::into_inner).0
    }
}
