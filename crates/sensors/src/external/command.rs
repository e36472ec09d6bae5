//! Runs a shell command at intervals and reads the power or energy that it prints.
//!
//! The command runs as `sh -c` in its own process group, with an empty standard input. The first 64 KiB of its output
//! are kept. At the timeout, when the sensor is dropped and when this process ends, the whole process group is killed. A
//! sample waits at most 100 ms for the command, so stopping a run never waits for a slow command. A command that cannot
//! be killed (with `sudo` it runs as another user) is not started again until it ends, so only one is ever running.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{io, process, thread};

use ergometer_telemetry::{Clock, EventKind};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

use super::meter::{Moment, Source, SourceError, Update, Value};
use super::output::{Amount, Finder, excerpt};
use super::spec::SecretText;
use super::with_hint;
use crate::process_group::GroupGuard;

const OUTPUT_LIMIT: usize = 64 * 1024;
const ERROR_LIMIT: usize = 4096;
/// How long one sample waits for a running command.
const SLICE: Duration = Duration::from_millis(100);
/// How long the last sample waits. The sampler allows two seconds.
const LAST_SLICE: Duration = Duration::from_secs(1);
/// How long processes that outlive the command may keep its output open.
const GRACE: Duration = Duration::from_millis(200);
/// How long a killed command may take to end. The system needs milliseconds, and the output may be held twice for
/// [`GRACE`]. A process that runs after this time cannot be killed.
const KILL_GRACE: Duration = Duration::from_secs(1);
/// The pause before the next sample of a running command. The sample itself waits.
const AT_ONCE: Duration = Duration::from_millis(1);

/// A shell command as the source of a meter.
pub(super) struct Command {
    pub(super) line: SecretText,
    pub(super) timeout: Duration,
    pub(super) every: Duration,
    pub(super) finder: Finder,
    pub(super) state: State,
    /// Kills the command when this process ends. Dropped after the state, which kills the command, too.
    pub(super) guard: Arc<GroupGuard>,
}

/// The progress of a command's runs.
#[derive(Default)]
pub(super) struct State {
    phase: Phase,
    /// When the next run is due.
    due: Option<Instant>,
    /// When the last sample began.
    sampled: Option<Instant>,
    /// How long the last run took.
    took: Duration,
}

#[derive(Default)]
enum Phase {
    #[default]
    Idle,
    Running(Run),
    /// It reached its timeout and has not ended yet.
    Overdue {
        run: Run,
        killed_at: Instant,
        is_reported: bool,
    },
}

/// The readers of an error message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Audience {
    /// The user who wrote the command.
    User,
    /// Everyone who receives the recording.
    Anyone,
}

impl Command {
    /// Runs the command once and waits for its value.
    pub(super) fn try_once(&mut self) -> Result<Amount, SourceError> {
        let mut run = Run::start(&self.line, &self.guard)?;
        match run.wait(self.timeout) {
            Some(done) => {
                self.state.took = done.ended - run.started;
                self.value(&done, Audience::User)
            }
            None => Err(self.too_slow(run.kill())),
        }
    }

    /// Kills a command that runs when the sensor stops. That is an error if it took far longer than the last run.
    fn end_with(&self, mut run: Run) -> Result<(), SourceError> {
        let elapsed = run.started.elapsed();
        let killed = run.kill();
        if elapsed <= LAST_SLICE.max(2 * self.state.took) {
            return Ok(());
        }
        let end = match killed {
            Err(Errno::PERM) => "could not be killed when the measurement ended, because it runs as another user",
            _ => "was killed when the measurement ended",
        };
        let text = format!("the command gave no value within {:.1} s and {end}", elapsed.as_secs_f64());
        Err(SourceError::Failed(with_hint(text, "find out why it hangs, or set a shorter timeout= to start it again")))
    }

    fn too_slow(&self, killed: Result<(), Errno>) -> SourceError {
        let limit = self.timeout.as_secs_f64();
        let (end, hint) = match killed {
            Err(Errno::PERM) => (
                "could not be killed because it runs as another user; it is not started again until it ends",
                "set a longer timeout=, or limit the time in the command itself: sudo timeout 5 …",
            ),
            _ => ("was killed", "set a longer timeout="),
        };
        SourceError::Failed(with_hint(format!("the command did not end within {limit} s and {end}"), hint))
    }

    fn value(&self, done: &RunResult, audience: Audience) -> Result<Amount, SourceError> {
        if done.is_held {
            let why = "a process that the command started keeps its output open";
            return Err(SourceError::Lost(with_hint(why, "redirect that process with >/dev/null 2>&1")));
        }
        let status = done
            .status
            .as_ref()
            .map_err(|cause| SourceError::failed(format!("cannot wait for the command: {cause}")))?;
        if !status.success() {
            let stderr = String::from_utf8_lossy(&done.stderr);
            let first = stderr.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            // Errors of the shell quote the command: `sh: 1: hunter2: not found`.
            let is_shell = first.trim_start().starts_with("sh:");
            let output = if is_shell && audience == Audience::Anyone {
                ": an error of the shell (hidden, because it may quote the command)".to_owned()
            } else if first.is_empty() {
                " and printed no error message".to_owned()
            } else {
                format!(": {}", excerpt(first))
            };
            return Err(SourceError::failed(format!("the command failed ({status}){output}")));
        }
        self.finder.find(&String::from_utf8_lossy(&done.stdout)).map_err(SourceError::Failed)
    }

    fn is_due(&self, now: Instant) -> bool {
        self.state.due.is_none_or(|due| now >= due)
    }

    /// Waits for the killed run, for one slice at most. Returns whether it has ended. If it is still running when the next
    /// run is due and the grace is over, that is reported once.
    fn has_ended(&mut self, overdue: (Run, Instant), is_reported: bool, now: Instant, update: &mut Update) -> bool {
        let (mut run, killed_at) = overdue;
        let left = KILL_GRACE.saturating_sub(killed_at.elapsed());
        if run.wait(left.min(SLICE)).is_some() {
            return true;
        }
        let is_due = self.is_due(now);
        if is_due {
            self.state.due = Some(self.next_due(now));
        }
        let is_stuck = is_due && killed_at.elapsed() >= KILL_GRACE;
        if is_stuck && !is_reported {
            let message =
                "a process of the killed command is still running; the command is not started again until it ends";
            update.notices.push((EventKind::ReadFailed, message.into()));
        }
        self.state.phase = Phase::Overdue { run, killed_at, is_reported: is_reported || is_stuck };
        false
    }

    /// The first time after `now` on the grid of runs.
    fn next_due(&self, now: Instant) -> Instant {
        let due = self.state.due.unwrap_or(now);
        let late = now.saturating_duration_since(due);
        let steps = late.as_nanos() / self.every.as_nanos().max(1) + 1;
        due + self.every * u32::try_from(steps).unwrap_or(u32::MAX)
    }
}

impl Source for Command {
    fn read(&mut self, moment: Moment, clock: &Clock, update: &mut Update) -> Result<(), SourceError> {
        let now = Instant::now();
        self.state.sampled = Some(now);
        let running = match std::mem::take(&mut self.state.phase) {
            Phase::Running(run) => Some(run),
            Phase::Idle => None,
            Phase::Overdue { run, killed_at, is_reported } => {
                if !self.has_ended((run, killed_at), is_reported, now, update) {
                    return Ok(());
                }
                None
            }
        };
        let mut run = if let Some(run) = running {
            run
        } else {
            let is_last_chance = moment == Moment::Last && self.state.took < LAST_SLICE;
            if !self.is_due(now) && !is_last_chance {
                return Ok(());
            }
            self.state.due = Some(self.next_due(now));
            Run::start(&self.line, &self.guard)?
        };
        let left = self.timeout.saturating_sub(run.started.elapsed());
        let slice = if moment == Moment::Last { LAST_SLICE } else { SLICE };
        let Some(done) = run.wait(slice.min(left)) else {
            if run.started.elapsed() >= self.timeout {
                self.state.took = self.timeout;
                let (killed, killed_at) = (run.kill(), Instant::now());
                self.state.phase = Phase::Overdue { run, killed_at, is_reported: killed == Err(Errno::PERM) };
                return Err(self.too_slow(killed));
            }
            if moment == Moment::Last {
                return self.end_with(run);
            }
            self.state.phase = Phase::Running(run);
            return Ok(());
        };
        self.state.took = done.ended - run.started;
        let Amount { amount, .. } = self.value(&done, Audience::Anyone)?;
        update.values.push(Value { after: clock.at(run.started), at: clock.at(done.ended), amount });
        Ok(())
    }

    fn pause(&self) -> Option<Duration> {
        let until = |due: Instant| due.saturating_duration_since(self.state.sampled.unwrap_or(due));
        Some(if self.is_busy() { AT_ONCE } else { self.state.due.map_or(self.every, until) })
    }

    fn is_busy(&self) -> bool {
        matches!(self.state.phase, Phase::Running(_))
    }
}

/// A running command. Dropping it kills its process group.
struct Run {
    started: Instant,
    group: Option<Pid>,
    done: Receiver<RunResult>,
    is_killed: Arc<AtomicBool>,
}

/// The result of a run that ended.
struct RunResult {
    ended: Instant,
    status: io::Result<ExitStatus>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// Whether a process outside the process group keeps the output open.
    is_held: bool,
}

impl Run {
    fn start(line: &SecretText, guard: &Arc<GroupGuard>) -> Result<Self, SourceError> {
        let started = Instant::now();
        let no_start = |cause: io::Error| SourceError::failed(format!("cannot start sh: {cause}"));
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
        guard.watch(child.id());
        let guard = Arc::clone(guard);
        let (sender, done) = mpsc::channel();
        // Created before the threads: if a thread cannot be started, dropping this kills the command.
        let is_killed = Arc::new(AtomicBool::new(false));
        let run = Self { started, group, done, is_killed: Arc::clone(&is_killed) };
        let stdout = CollectedOutput::start(child.stdout.take(), OUTPUT_LIMIT).map_err(no_start)?;
        let stderr = CollectedOutput::start(child.stderr.take(), ERROR_LIMIT).map_err(no_start)?;
        let wait = move || {
            let done = wait_for(child, group, &stdout, &stderr);
            guard.release();
            if done.is_held && is_killed.load(Ordering::Acquire) {
                // A process outside the group has ended when the output is closed.
                stdout.await_end();
                stderr.await_end();
            }
            let _ = sender.send(done);
        };
        thread::Builder::new().name("ergo-command".to_owned()).spawn(wait).map_err(no_start)?;
        Ok(run)
    }

    fn wait(&mut self, timeout: Duration) -> Option<RunResult> {
        let done = self.done.recv_timeout(timeout).ok()?;
        // The process was reaped, so its id may already belong to another process.
        self.group = None;
        Some(done)
    }

    /// Kills the process group once. The run has ended when [`wait`](Self::wait) returns it.
    fn kill(&mut self) -> Result<(), Errno> {
        self.is_killed.store(true, Ordering::Release);
        kill(self.group.take())
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if matches!(self.done.try_recv(), Err(mpsc::TryRecvError::Empty)) {
            // The command may have ended by itself.
            let _ = kill(self.group);
        }
    }
}

fn kill(group: Option<Pid>) -> Result<(), Errno> {
    group.map_or(Ok(()), |group| kill_process_group(group, Signal::KILL))
}

fn wait_for(mut child: Child, group: Option<Pid>, stdout: &CollectedOutput, stderr: &CollectedOutput) -> RunResult {
    let status = child.wait();
    let ended = Instant::now();
    let ends = || stdout.ends_within(GRACE) && stderr.ends_within(GRACE);
    let is_held = !ends() && {
        let _ = kill(group);
        !ends()
    };
    RunResult { ended, status, stdout: stdout.take(), stderr: stderr.take(), is_held }
}

/// Collects the output of a pipe on a thread, up to a limit.
struct CollectedOutput {
    bytes: Arc<Mutex<Vec<u8>>>,
    end: Receiver<()>,
}

impl CollectedOutput {
    fn start(pipe: Option<impl Read + Send + 'static>, limit: usize) -> io::Result<Self> {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let (sender, end) = mpsc::channel::<()>();
        let kept = Arc::clone(&bytes);
        let read = move || {
            // Dropped when this thread ends. The receiver waits for that.
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
        // The thread sends no value: this returns when the sender is dropped.
        let _ = self.end.recv();
    }

    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.bytes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::external::unit::Quantity;

    #[test]
    fn a_command_that_cannot_be_killed_is_not_reported_as_killed() {
        let finder = Finder { pattern: None, unit: None, quantity: Quantity::Power };
        let (timeout, every) = (Duration::from_secs(5), Duration::from_secs(1));
        let (line, state) = (SecretText("true".to_owned()), State::default());
        let guard = Arc::new(GroupGuard::start().unwrap());
        let command = Command { line, timeout, every, finder, state, guard };
        let message = |killed| match command.too_slow(killed) {
            SourceError::Failed(message) | SourceError::Lost(message) => message,
        };
        assert_eq!(
            message(Ok(())),
            with_hint("the command did not end within 5 s and was killed", "set a longer timeout=")
        );
        assert!(message(Err(Errno::PERM)).text.contains("could not be killed"), "{:?}", message(Err(Errno::PERM)));
    }
}
