//! Measures the busy share (0 to 1) of all processors since the last read.
//!
//! The source is the first line of `/proc/stat`, which sums all processors in ticks of 10 ms; on other systems it is
//! sysinfo. The first read, and a read before the source has moved, give `None`, never a zero or the previous value.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;
use std::time::Instant;

use sysinfo::{CpuRefreshKind, MINIMUM_CPU_UPDATE_INTERVAL, RefreshKind, System};

/// A source of the busy share of all processors.
pub(super) enum ProcessorTime {
    /// Linux: the file stays open and is read from its start, which takes 70 us on two processors.
    Stat { file: File, last: Option<Ticks> },
    /// Other systems. Within its minimum interval sysinfo repeats the old value, so it is not read earlier.
    Sysinfo { system: Box<System>, last: Option<Instant> },
}

/// The time of all processors in ticks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ticks {
    busy: u64,
    total: u64,
}

impl ProcessorTime {
    /// Opens `stat` in this folder (`/proc`), or sysinfo on systems without it.
    pub(super) fn open(proc_root: &Path) -> io::Result<Self> {
        match File::open(proc_root.join("stat")) {
            Ok(file) => Ok(Self::Stat { file, last: None }),
            Err(_) if !cfg!(target_os = "linux") => {
                let usage = RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing().with_usage());
                let system = System::new_with_specifics(usage).map_err(io::Error::other)?;
                Ok(Self::Sysinfo { system: Box::new(system), last: None })
            }
            Err(error) => Err(error),
        }
    }

    /// The busy share of all processors, 0 to 1, since the last call that returned one (or since the first call).
    pub(super) fn busy_share(&mut self) -> io::Result<Option<f64>> {
        match self {
            Self::Stat { file, last } => {
                let now = read_ticks(file)?;
                let Some(before) = *last else {
                    *last = Some(now);
                    return Ok(None);
                };
                let share = share_between(before, now);
                if share.is_some() || now.total < before.total {
                    *last = Some(now);
                }
                Ok(share)
            }
            Self::Sysinfo { system, last } => {
                if last.is_some_and(|last| last.elapsed() < MINIMUM_CPU_UPDATE_INTERVAL) {
                    return Ok(None);
                }
                system.refresh_cpu_usage();
                let share = f64::from(system.global_cpu_usage()) / 100.0;
                Ok(last.replace(Instant::now()).map(|_| share.clamp(0.0, 1.0)))
            }
        }
    }
}

/// Measures how busy the processors of this machine are, with all processes together.
///
/// ```
/// let mut share = ergometer_sensors::ProcessorShare::start();
/// assert!(share.busy().is_none_or(|busy| (0.0..=1.0).contains(&busy)));
/// ```
pub struct ProcessorShare(Option<ProcessorTime>);

impl ProcessorShare {
    /// Starts the measurement.
    #[must_use]
    pub fn start() -> Self {
        let mut time = ProcessorTime::open(Path::new("/proc")).ok();
        // The first read only sets the start.
        let _ = time.as_mut().map(ProcessorTime::busy_share);
        Self(time)
    }

    /// The busy share of all processors since the start, or since the last call that returned one. `None` if it is
    /// unknown.
    pub fn busy(&mut self) -> Option<f64> {
        self.0.as_mut()?.busy_share().ok().flatten()
    }
}

fn read_ticks(file: &mut File) -> io::Result<Ticks> {
    // The first line has ten numbers of at most 20 digits.
    let mut buffer = [0; 256];
    file.rewind()?;
    let length = file.read(&mut buffer)?;
    parse_ticks(&buffer[..length])
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "stat does not start with a line of `cpu` times"))
}

/// Parses `cpu user nice system idle iowait irq softirq steal guest guest_nice`. User and nice include the guest times.
/// Stolen time is not busy: another virtual machine used the processor and its energy.
fn parse_ticks(text: &[u8]) -> Option<Ticks> {
    let line = text.split(|&byte| byte == b'\n').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    if words.next() != Some("cpu") {
        return None;
    }
    let times = words.take(8).map(str::parse).collect::<Result<Vec<u64>, _>>().ok()?;
    if times.len() < 4 {
        return None;
    }
    let total = times.iter().try_fold(0_u64, |sum, &time| sum.checked_add(time))?;
    let idle = [3, 4, 7].iter().filter_map(|&index| times.get(index)).sum::<u64>();
    Some(Ticks { busy: total - idle, total })
}

/// `None` if no tick passed. Idle times may decrease by a tick (proc(5)), so busy is limited to the total.
fn share_between(before: Ticks, now: Ticks) -> Option<f64> {
    let total = now.total.checked_sub(before.total).filter(|&total| total > 0)?;
    let busy = now.busy.saturating_sub(before.busy).min(total);
    Some(busy as f64 / total as f64)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_share_is_busy_ticks_over_all_ticks() {
        let folder = tempfile::tempdir().unwrap();
        let stat = folder.path().join("stat");
        fs::write(&stat, "cpu  100 0 100 800 0 0 0 0 50 0\ncpu0 1 2 3 4\n").unwrap();
        let mut time = ProcessorTime::open(folder.path()).unwrap();
        assert_eq!(time.busy_share().unwrap(), None, "the first read has nothing to compare with");
        assert_eq!(time.busy_share().unwrap(), None, "no tick passed");
        fs::write(&stat, "cpu  120 0 110 850 10 0 0 10 60 0\ncpu0 1 2 3 4\n").unwrap();
        assert_eq!(time.busy_share().unwrap(), Some(0.3), "iowait and steal are not busy");
        fs::write(&stat, "cpu  1 0 1 8 0 0 0 0 0 0\n").unwrap();
        assert_eq!(time.busy_share().unwrap(), None, "the source restarted");
        fs::write(&stat, "cpu  2 0 1 8 0 0 0 0 0 0\n").unwrap();
        assert_eq!(time.busy_share().unwrap(), Some(1.0));
    }

    #[test]
    fn a_malformed_line_is_an_error() {
        let wrong: [&[u8]; 6] = [b"", b"cpu", b"cpu 1 2 3", b"cpu0 1 2 3 4", b"cpu 1 x 3 4", b"cpu \xff\xfe 3 4"];
        for text in wrong {
            assert_eq!(parse_ticks(text), None, "{text:?}");
        }
        assert_eq!(parse_ticks(b"cpu 18446744073709551615 1 1 1"), None, "the sum overflows");
    }
}
