//! Lists processes with sysinfo on systems without `/proc`: macOS, Windows, the BSDs.
//!
//! Start times are only known to the second. A value that sysinfo cannot read is zero or empty there and absent here.

use std::ffi::OsString;
use std::time::Duration;

use ergometer_units::Bytes;
use sysinfo::{CpuRefreshKind, ProcessRefreshKind, ProcessesToUpdate, RefreshKind, System, UpdateKind};

use super::Options;
use super::listing::{ListedProcess, Listing, Time, one_line};
use super::users::Users;

#[derive(Debug)]
pub(super) struct SystemProcesses {
    system: Result<System, String>,
    users: Users,
}

impl SystemProcesses {
    pub(super) fn new(options: &Options) -> Self {
        let processors = RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing());
        let system = System::new_with_specifics(processors).map_err(|error| error.to_string());
        Self { system, users: Users::read(&options.passwd) }
    }

    /// Whether a process id of the GPU driver is the local process with this id. These systems have one set of ids.
    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::unused_self, reason = "the same signature as in `proc_files`, where it depends on the process")]
    pub(super) fn is_known_to_driver(&self, _: u32) -> bool {
        true
    }

    pub(super) fn list(&mut self) -> Listing {
        let system = match &mut self.system {
            Ok(system) => system,
            Err(why) => {
                let notes = vec![format!("cannot list processes: {why}").into()];
                return Listing { notes, ..Listing::default() };
            }
        };
        let wanted = ProcessRefreshKind::nothing()
            .with_cpu()
            .with_memory()
            .with_user(UpdateKind::OnlyIfNotSet)
            .with_cmd(UpdateKind::OnlyIfNotSet)
            .without_tasks();
        system.refresh_processes_specifics(ProcessesToUpdate::All, true, wanted);
        let processes = system.processes().iter().filter(|(_, process)| process.thread_kind().is_none());
        let listed = |(id, process): (&sysinfo::Pid, &sysinfo::Process)| ListedProcess {
            id: id.as_u32(),
            name: one_line(&process.name().to_string_lossy()),
            command: one_line(&process.cmd().join(&OsString::from(" ")).to_string_lossy()),
            user: process.user_id().map(|user| {
                let number = user.to_string();
                number.parse().map_or(number, |number| self.users.name(number))
            }),
            memory: Some(process.memory()).filter(|&bytes| bytes > 0).map(Bytes::new),
            time: Some(Time {
                started: process.start_time(),
                used: Duration::from_millis(process.accumulated_cpu_time()),
            })
            // On macOS, both are unknown for a process of another user.
            .filter(|time| time.started > 0),
        };
        let processors = u32::try_from(system.cpus().len()).ok().filter(|&count| count > 0);
        Listing { processors, processes: processes.map(listed).collect(), notes: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_listed_with_its_memory_and_time() {
        let listing = SystemProcesses::new(&Options::default()).list();
        let own = listing.processes.iter().find(|process| process.id == std::process::id()).unwrap();
        assert!(own.name.is_some() && own.command.is_some() && own.user.is_some());
        assert!(own.memory > Some(Bytes::new(1 << 19)), "{:?}", own.memory);
        assert!(own.time.is_some());
        assert!(listing.processors.is_some_and(|count| count > 0));
    }
}
