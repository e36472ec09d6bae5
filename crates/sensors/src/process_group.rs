//! Kills a process group when this process ends, however it ends.
//!
//! A process that gets SIGKILL cannot end its children. The guard is a shell that waits for the end of its input: the
//! system closes the input when this process ends, and the guard then kills the group. The death signal of Linux
//! (`PR_SET_PDEATHSIG`) reaches only the child and not the processes that the child started, and setting it needs
//! unsafe code. Processes that leave the group (`setsid`) or run as another user (`sudo`) are not reached.

use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// Keeps the last line of the input, which is a group or empty. The guard must outlive this process, so it ignores the
/// signals that may end both.
const SCRIPT: &str = r#"trap '' HUP INT TERM
group=
while read -r line; do group=$line; done
[ -z "$group" ] || kill -s KILL -- "-$group""#;

/// Kills the group it watches when this process ends.
///
/// ```
/// use std::os::unix::process::CommandExt as _;
/// use std::process::Command;
///
/// use ergometer_sensors::process_group::GroupGuard;
///
/// let guard = GroupGuard::start()?;
/// let mut child = Command::new("true").process_group(0).spawn()?;
/// guard.watch(child.id());
/// child.wait()?;
/// guard.release();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct GroupGuard {
    shell: Child,
    /// `None` if the shell has no input, which does not happen.
    input: Mutex<Option<ChildStdin>>,
}

impl GroupGuard {
    /// Starts a guard that watches no group.
    pub fn start() -> io::Result<Self> {
        let mut shell = Command::new("sh")
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Signals to the group of this process, such as Ctrl-C, do not reach it.
            .process_group(0)
            .spawn()?;
        let input = Mutex::new(shell.stdin.take());
        Ok(Self { shell, input })
    }

    /// Watches a group instead of the one before. Its id is that of the process that leads it.
    pub fn watch(&self, group: u32) {
        self.send(&format!("{group}\n"));
    }

    /// Watches no group any more. Call this when the group has ended, before its id is used again.
    pub fn release(&self) {
        self.send("\n");
    }

    fn send(&self, line: &str) {
        let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(input) = input.as_mut() {
            // It fails if somebody killed the guard. Then nothing watches the group.
            let _ = input.write_all(line.as_bytes());
        }
    }
}

/// Ends the guard. It kills nothing.
impl Drop for GroupGuard {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_is_killed_when_the_input_ends() {
        let guard = GroupGuard::start().unwrap();
        let mut child = Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        guard.watch(child.id());
        // As if this process had ended.
        *guard.input.lock().unwrap() = None;
        let status = child.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    }

    #[test]
    fn a_released_group_is_not_killed() {
        let mut guard = GroupGuard::start().unwrap();
        let mut child = Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        guard.watch(child.id());
        guard.release();
        *guard.input.lock().unwrap() = None;
        assert!(guard.shell.wait().unwrap().success());
        assert!(child.try_wait().unwrap().is_none(), "it still runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
