//! Opens a counting perf event of one processor with `perf_event_open`.
//!
//! Besides `nvidia/scoped_power.rs`, this is the only module with unsafe code.
#![expect(unsafe_code, reason = "neither the standard library nor rustix 1 has perf_event_open")]

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::FromRawFd;

use super::{Event, OpenEvent};
use crate::energy_counter::ReadCounter;

/// The first 64 bytes of the kernel's `perf_event_attr`, which are its whole first version (`PERF_ATTR_SIZE_VER0`). The
/// kernel treats the rest as zero.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    source: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

const SIZE: u32 = 64;
const _: () = assert!(size_of::<Attributes>() == SIZE as usize);

/// `PERF_FLAG_FD_CLOEXEC`, which libc does not define.
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;

/// The events of this machine's kernel.
pub(in crate::rapl) struct Kernel;

impl OpenEvent for Kernel {
    fn open(&self, event: Event) -> io::Result<Box<dyn ReadCounter>> {
        let attributes = Attributes { source: event.source, size: SIZE, config: event.config, ..Attributes::default() };
        // All processes, one processor, no group; the file is closed in child processes.
        let (process, group): (libc::pid_t, libc::c_int) = (-1, -1);
        let processor = libc::c_int::try_from(event.processor).map_err(io::Error::other)?;
        // SAFETY: the call takes these five arguments of these types (perf_event_open(2)). The pointer is to a whole
        // `Attributes`, which has the kernel's layout and the length in its field `size`. The kernel reads it during
        // the call and keeps no pointer to it.
        let descriptor = unsafe {
            libc::syscall(libc::SYS_perf_event_open, &raw const attributes, process, processor, group, CLOSE_ON_EXEC)
        };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        let descriptor = libc::c_int::try_from(descriptor).map_err(io::Error::other)?;
        // SAFETY: the call has just created this descriptor, so it is open and has no other owner.
        Ok(Box::new(EventFile(unsafe { File::from_raw_fd(descriptor) })))
    }
}

/// An open event. With a `read_format` of 0, a read returns only the count. If the kernel could not schedule the event,
/// it returns nothing, which is an error here.
struct EventFile(File);

impl ReadCounter for EventFile {
    fn read(&mut self) -> io::Result<u64> {
        let mut count = [0; 8];
        self.0.read_exact(&mut count)?;
        Ok(u64::from_ne_bytes(count))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use super::*;

    /// `PERF_TYPE_SOFTWARE`, `PERF_COUNT_SW_CPU_CLOCK`: the nanoseconds of a processor, which every machine has.
    const CLOCK: Event = Event { source: 1, config: 0, processor: 0 };

    #[test]
    fn a_read_returns_exactly_eight_bytes() {
        let counts = [(7_u64 << 32) + 3, u64::MAX].map(u64::to_ne_bytes).concat();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&counts).and_then(|()| file.write_all(&[1; 7])).and_then(|()| file.rewind()).unwrap();
        let mut counter = EventFile(file);
        assert_eq!(counter.read().unwrap(), 30_064_771_075);
        assert_eq!(counter.read().unwrap(), u64::MAX);
        assert!(counter.read().is_err(), "seven bytes are not a count");
        assert!(counter.read().is_err(), "no bytes: the kernel could not schedule the event");
    }

    #[test]
    fn a_real_event_counts() {
        let mut counter = match Kernel.open(CLOCK) {
            Ok(counter) => counter,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
                eprintln!("skipped: no permission for perf events ({error})");
                return;
            }
        };
        let first = counter.read().unwrap();
        assert!(counter.read().unwrap() > first);
    }

    #[test]
    fn a_missing_event_is_an_error() {
        assert!(Kernel.open(Event { source: u32::MAX, ..CLOCK }).is_err());
        assert!(Kernel.open(Event { processor: 1 << 20, ..CLOCK }).is_err());
        assert!(Kernel.open(Event { processor: u32::MAX, ..CLOCK }).is_err(), "never all processors by accident");
    }
}
