//! Turns Ctrl-C, termination and the end of a child process into state that loops can check and wait for.

use std::io;
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ergometer::measure::ProcessGroup;
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::exit::Failure;
use crate::threads::{cannot_open, cannot_start};

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
    /// The first of them, and when it arrived.
    first: Option<(i32, Instant)>,
    /// Whether another one arrived later.
    is_repeated: bool,
}

/// How long an interrupted child process may take to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the other processes of its group may take to end after they were killed.
const KILL_PATIENCE: Duration = Duration::from_secs(1);

/// Signals within this time count as one: some launchers signal the process and its group.
const SAME_SIGNAL: Duration = Duration::from_millis(500);

/// Signals that arrive together count as one, so a wait checks again after this long.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

impl Interrupt {
    /// Starts to listen; Ctrl-C no longer ends the program.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let interrupt = Self::default();
        let signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGCHLD]);
        let mut signals = signals.map_err(|error| cannot_open("listen for signals", &error))?;
        let shared = Arc::clone(&interrupt.0);
        let listen = move || {
            for signal in signals.forever() {
                let mut asked = shared.lock();
                if signal != SIGCHLD {
                    asked.add(signal);
                }
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

    /// Waits for a child process to end. An interrupt is passed on. The child is killed five seconds later, or at the
    /// second Ctrl-C. The same holds for the other processes of its group, if it has its own.
    pub(crate) fn wait_for(&self, child: &mut Child, group: ProcessGroup) -> io::Result<ExitStatus> {
        let leader = Pid::from_child(child);
        let (mut deadline, mut ended) = (None, None);
        loop {
            // Signals notify under this lock, so a child that ends after this check is not missed.
            let asked = self.0.lock();
            if ended.is_none() {
                ended = child.try_wait()?;
            }
            let has_others = || group == ProcessGroup::Own && test_kill_process_group(leader).is_ok();
            let Some((signal, _)) = asked.first.filter(|_| ended.is_none() || has_others()) else {
                if let Some(status) = ended {
                    return Ok(status);
                }
                drop(self.0.wait(asked, CHECK_INTERVAL));
                continue;
            };
            let end = *deadline.get_or_insert_with(|| {
                pass_on(signal, leader, group);
                Instant::now() + PATIENCE
            });
            if let Some(status) = ended.filter(|_| Instant::now() >= end + KILL_PATIENCE) {
                return Ok(status);
            }
            if asked.is_repeated || Instant::now() >= end {
                match group {
                    ProcessGroup::Shared => child.kill()?,
                    ProcessGroup::Own => _ = kill_process_group(leader, Signal::KILL),
                }
            }
            // Only the end of the child itself gives a signal.
            drop(self.0.wait(asked, if ended.is_some() { CHECK_INTERVAL / 10 } else { CHECK_INTERVAL }));
        }
    }
}

/// Passes a signal on to the child process. Ctrl-C in a terminal reaches all processes of the group of `ergo` already.
fn pass_on(signal: i32, leader: Pid, group: ProcessGroup) {
    let signal = match signal {
        SIGHUP => Signal::HUP,
        SIGTERM => Signal::TERM,
        _ => Signal::INT,
    };
    // The child may have ended.
    let _ = match group {
        ProcessGroup::Own => kill_process_group(leader, signal),
        ProcessGroup::Shared if signal == Signal::INT => Ok(()),
        ProcessGroup::Shared => kill_process(leader, Signal::TERM),
    };
}

impl StopRequests {
    fn add(&mut self, signal: i32) {
        self.times += 1;
        let (_, first) = *self.first.get_or_insert_with(|| (signal, Instant::now()));
        self.is_repeated |= first.elapsed() > SAME_SIGNAL;
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
