//! A command line goes in; the power or energy it prints comes out, at the end of each run.
//!
//! It runs by `sh -c` in a process group of its own, with nothing to read. The first 64 KiB of its output are kept and
//! the rest is thrown away. At the timeout, and when the sensor goes, it is killed with all that it started. A look
//! waits a tenth of a second at most, so that stopping never waits for a slow command. What cannot be killed (`sudo`
//! runs as another user) is waited for: no other run starts until it is gone, so that there is never more than one.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{io, process, thread};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

use super::complaint::Complaint;
use super::meter::{Found, Moment, Source, Trouble, Value};
use super::output::{Amount, Finder, start_of};
use super::spec::SecretText;
use ergometer_telemetry::{Clock, EventKind};

const OUTPUT_LIMIT: usize = 64 * 1024;
const ERROR_LIMIT: usize = 4096;
/// How long one look waits for a command that runs.
const SLICE: Duration = Duration::from_millis(100);
/// How long the last look waits: the sampler gives two seconds.
const LAST_SLICE: Duration = Duration::from_secs(1);
/// How long what a command left behind may hold its output open.
const GRACE: Duration = Duration::from_millis(200);
/// Until the next look at a command that runs; it is the look that waits.
const AT_ONCE: Duration = Duration::from_millis(1);

/// See the module.
pub(super) struct Command {
    pub(super) line: SecretText,
    pub(super) timeout: Duration,
    pub(super) every: Duration,
    pub(super) finder: Finder,
    pub(super) state: State,
}

/// Where the runs of a command stand.
#[derive(Default)]
pub(super) struct State {
    phase: Phase,
    /// When the next run is due.
    due: Option<Instant>,
    looked: Option<Instant>,
    took: Duration,
}

#[derive(Default)]
enum Phase {
    #[default]
    Idle,
    Running(Run),
    /// It was killed at its timeout, or should have been, and has not ended yet.
    Overdue {
        run: Run,
        is_told: bool,
    },
}

/// Who reads what is wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// Who wrote the command, at the terminal.
    User,
    /// Whoever gets the recording.
    Anyone,
}

impl Command {
    /// Runs it once and waits for it: does it work at all?
    pub(super) fn try_once(&self) -> Result<Amount, Trouble> {
        let mut run = Run::start(&self.line)?;
        match run.wait(self.timeout) {
            Some(done) => self.value(&done, Reader::User),
            None => Err(self.too_slow(run.kill())),
        }
    }

    fn too_slow(&self, killed: Result<(), Errno>) -> Trouble {
        let limit = self.timeout.as_secs_f64();
        let (end, hint) = match killed {
            Err(Errno::PERM) => (
                "could not be killed, as it runs as another user: no other is started until it ends",
                "give a longer timeout=, or end it there: sudo timeout 5 …",
            ),
            _ => ("was killed", "give a longer timeout="),
        };
        Trouble::Failed(Complaint::with_hint(format!("it did not end within {limit} s and {end}"), hint))
    }

    fn value(&self, done: &Done, reader: Reader) -> Result<Amount, Trouble> {
        if done.is_held {
            let why = "something it started keeps its output open";
            return Err(Trouble::Lost(Complaint::with_hint(why, "start that with >/dev/null 2>&1")));
        }
        let status =
            done.status.as_ref().map_err(|cause| Trouble::failed(format!("it cannot be waited for: {cause}")))?;
        if !status.success() {
            let said = String::from_utf8_lossy(&done.stderr);
            let first = said.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            // What the shell itself says quotes the command: `sh: 1: hunter2: not found`.
            let is_shell = first.trim_start().starts_with("sh:");
            let said = if is_shell && reader == Reader::Anyone {
                "the shell complained; what it said may quote the command and is left out".to_owned()
            } else {
                format!("said {}", start_of(first))
            };
            return Err(Trouble::failed(format!("it failed ({status}) and {said}")));
        }
        self.finder.find(&String::from_utf8_lossy(&done.stdout)).map_err(Trouble::Failed)
    }

    fn is_due(&self, now: Instant) -> bool {
        self.state.due.is_none_or(|due| now >= due)
    }

    /// Whether the run that was killed is gone. Where it is not when the next is due, that is told once.
    fn is_gone(&mut self, mut run: Run, is_told: bool, now: Instant, found: &mut Found) -> bool {
        if run.wait(Duration::ZERO).is_some() {
            return true;
        }
        let is_due = self.is_due(now);
        if is_due {
            self.state.due = Some(self.next_due(now));
        }
        if is_due && !is_told {
            let message = "something of it still runs though it was killed: no other is started until that ends";
            found.notices.push((EventKind::ReadFailed, message.to_owned()));
        }
        self.state.phase = Phase::Overdue { run, is_told: is_told || is_due };
        false
    }

    /// The first point after now on the grid of runs.
    fn next_due(&self, now: Instant) -> Instant {
        let due = self.state.due.unwrap_or(now);
        let late = now.saturating_duration_since(due);
        let steps = late.as_nanos() / self.every.as_nanos().max(1) + 1;
        due + self.every * u32::try_from(steps).unwrap_or(u32::MAX)
    }
}

impl Source for Command {
    fn read(&mut self, moment: Moment, clock: &Clock, found: &mut Found) -> Result<(), Trouble> {
        let now = Instant::now();
        self.state.looked = Some(now);
        let running = match std::mem::take(&mut self.state.phase) {
            Phase::Running(run) => Some(run),
            Phase::Idle => None,
            Phase::Overdue { run, is_told } => {
                if !self.is_gone(run, is_told, now, found) {
                    return Ok(());
                }
                None
            }
        };
        let mut run = if let Some(run) = running {
            run
        } else {
            let is_worth_it = moment == Moment::Last && self.state.took < LAST_SLICE;
            if !self.is_due(now) && !is_worth_it {
                return Ok(());
            }
            self.state.due = Some(self.next_due(now));
            Run::start(&self.line)?
        };
        let left = self.timeout.saturating_sub(run.started.elapsed());
        let slice = if moment == Moment::Last { LAST_SLICE } else { SLICE };
        let Some(done) = run.wait(slice.min(left)) else {
            if run.started.elapsed() >= self.timeout {
                self.state.took = self.timeout;
                let killed = run.kill();
                self.state.phase = Phase::Overdue { run, is_told: killed == Err(Errno::PERM) };
                return Err(self.too_slow(killed));
            }
            if moment == Moment::Usual {
                self.state.phase = Phase::Running(run);
            }
            return Ok(());
        };
        self.state.took = done.ended - run.started;
        let Amount { amount, .. } = self.value(&done, Reader::Anyone)?;
        found.values.push(Value { after: clock.at(run.started), at: clock.at(done.ended), amount });
        Ok(())
    }

    fn pause(&self) -> Option<Duration> {
        let until = |due: Instant| due.saturating_duration_since(self.state.looked.unwrap_or(due));
        Some(if self.is_busy() { AT_ONCE } else { self.state.due.map_or(self.every, until) })
    }

    fn is_busy(&self) -> bool {
        matches!(self.state.phase, Phase::Running(_))
    }
}

/// A command that runs. When it goes, so do its processes.
struct Run {
    started: Instant,
    group: Option<Pid>,
    done: Receiver<Done>,
    is_killed: Arc<AtomicBool>,
}

/// How a command ended.
struct Done {
    ended: Instant,
    status: io::Result<ExitStatus>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// Whether something that is out of reach still writes.
    is_held: bool,
}

impl Run {
    fn start(line: &SecretText) -> Result<Self, Trouble> {
        let started = Instant::now();
        let no_start = |cause: io::Error| Trouble::failed(format!("sh cannot be started: {cause}"));
        let mut child = process::Command::new("sh")
            .arg("-c")
            .arg(&line.0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(no_start)?;
        let group = Some(Pid::from_child(&child));
        let (sender, done) = mpsc::channel();
        // Made first: where a thread cannot be had, dropping it ends the command.
        let is_killed = Arc::new(AtomicBool::new(false));
        let run = Self { started, group, done, is_killed: Arc::clone(&is_killed) };
        let stdout = Collected::of(child.stdout.take(), OUTPUT_LIMIT).map_err(no_start)?;
        let stderr = Collected::of(child.stderr.take(), ERROR_LIMIT).map_err(no_start)?;
        let wait = move || {
            let done = wait_for(child, group, &stdout, &stderr);
            if done.is_held && is_killed.load(Ordering::Acquire) {
                // Out of reach and awaited: it is gone when nobody writes any more.
                stdout.await_end();
                stderr.await_end();
            }
            let _ = sender.send(done);
        };
        thread::Builder::new().name("ergo-command".to_owned()).spawn(wait).map_err(no_start)?;
        Ok(run)
    }

    fn wait(&mut self, timeout: Duration) -> Option<Done> {
        let done = self.done.recv_timeout(timeout).ok()?;
        // It was waited for: its number may belong to another by now.
        self.group = None;
        Some(done)
    }

    /// Kills it, once. It has ended when [`wait`](Self::wait) says so.
    fn kill(&mut self) -> Result<(), Errno> {
        self.is_killed.store(true, Ordering::Release);
        kill(self.group.take())
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if matches!(self.done.try_recv(), Err(mpsc::TryRecvError::Empty)) {
            // It may have ended by itself.
            let _ = kill(self.group);
        }
    }
}

fn kill(group: Option<Pid>) -> Result<(), Errno> {
    group.map_or(Ok(()), |group| kill_process_group(group, Signal::KILL))
}

fn wait_for(mut child: Child, group: Option<Pid>, stdout: &Collected, stderr: &Collected) -> Done {
    let status = child.wait();
    let ended = Instant::now();
    let ends = || stdout.ends_within(GRACE) && stderr.ends_within(GRACE);
    let is_held = !ends() && {
        let _ = kill(group);
        !ends()
    };
    Done { ended, status, stdout: stdout.taken(), stderr: stderr.taken(), is_held }
}

/// What comes out of a pipe, up to a limit.
struct Collected {
    bytes: Arc<Mutex<Vec<u8>>>,
    end: Receiver<()>,
}

impl Collected {
    fn of(pipe: Option<impl Read + Send + 'static>, limit: usize) -> io::Result<Self> {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let (sender, end) = mpsc::channel::<()>();
        let kept = Arc::clone(&bytes);
        let read = move || {
            // Dropped at the end of this thread, which is what its receiver waits for.
            let _sender = sender;
            let mut chunk = [0; 8192];
            let Some(mut pipe) = pipe else { return };
            loop {
                match pipe.read(&mut chunk) {
                    Ok(0) => return,
                    Ok(length) => {
                        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                        let room = limit.saturating_sub(kept.len());
                        kept.extend_from_slice(&chunk[..length.min(room)]);
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => return,
                }
            }
        };
        thread::Builder::new().name("ergo-output".to_owned()).spawn(read)?;
        Ok(Self { bytes, end })
    }

    fn ends_within(&self, timeout: Duration) -> bool {
        self.end.recv_timeout(timeout) == Err(RecvTimeoutError::Disconnected)
    }

    fn await_end(&self) {
        // Nothing is ever sent.
        let _ = self.end.recv();
    }

    fn taken(&self) -> Vec<u8> {
        std::mem::take(&mut *self.bytes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::external::unit::Quantity;

    #[test]
    fn what_cannot_be_killed_is_not_said_to_be() {
        let finder = Finder { pattern: None, unit: None, quantity: Quantity::Power };
        let (timeout, every) = (Duration::from_secs(5), Duration::from_secs(1));
        let command = Command { line: SecretText("true".to_owned()), timeout, every, finder, state: State::default() };
        let told = |killed| match command.too_slow(killed) {
            Trouble::Failed(complaint) | Trouble::Lost(complaint) => complaint.to_string(),
        };
        assert_eq!(told(Ok(())), "it did not end within 5 s and was killed. hint: give a longer timeout=");
        assert!(told(Err(Errno::PERM)).contains("could not be killed"), "{}", told(Err(Errno::PERM)));
    }
}
