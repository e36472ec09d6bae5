//! Lists processes from `/proc` on Linux.
//!
//! A process that ends while it is read is skipped, or has the values that were read before. A process that is hidden
//! from this user (`hidepid`) has only its id and owner, and a note reports it. Threads are not listed.
//!
//! Each process needs three reads: its `stat` (time, memory, name), its `cmdline`, and the owner of its folder.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ergometer_diagnostics::{Message, hint};
use ergometer_units::Bytes;

use super::Options;
use super::listing::{COMMAND_LENGTH, ListedProcess, Listing, Time, one_line};
use super::stat_line::StatLine;
use super::users::Users;

/// Reads up to a number of bytes of a file. Tests replace this to deny permission, which file modes do not do for root.
type ReadFile = fn(&Path, u64) -> io::Result<Vec<u8>>;

#[derive(Debug)]
pub(super) struct ProcFiles {
    root: PathBuf,
    read: ReadFile,
    users: Users,
    machine: Machine,
    ids: Ids,
}

/// The namespace of the process ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ids {
    Machine,
    /// A container: the host has other ids for the same processes.
    Container,
}

/// The initial namespace of process ids, which has this number on every machine (`PROC_PID_INIT_INO`). `NSpid` in
/// `status` does not help: it starts with the namespace of `/proc`, so a container sees only one id there.
const OUTERMOST: &str = "pid:[4026531836]";

/// The files that a process with an NVIDIA GPU has open. The second is for the Windows Subsystem for Linux.
const GPU_FILES: [&str; 2] = ["/dev/nvidia", "/dev/dxg"];

/// Constants of the machine.
#[derive(Debug)]
struct Machine {
    processors: Option<u32>,
    ticks_per_second: u64,
    page: u64,
}

/// Why a process could not be read.
enum ReadError {
    Ended,
    Hidden,
    Other(String),
}

impl ProcFiles {
    pub(super) fn new(options: &Options) -> Self {
        Self::with_reader(options, read_file)
    }

    fn with_reader(options: &Options, read: ReadFile) -> Self {
        let root = options.proc_root.clone();
        let machine = Machine::read(&root);
        let ids = match fs::read_link(root.join("self/ns/pid")) {
            Ok(namespace) if namespace != Path::new(OUTERMOST) => Ids::Container,
            _ => Ids::Machine,
        };
        Self { root, read, users: Users::read(&options.passwd), machine, ids }
    }

    /// Whether a process id of the GPU driver is the local process with this id. In a container some drivers use the
    /// host's ids, so a process only matches if it has a GPU open.
    pub(super) fn is_known_to_driver(&self, id: u32) -> bool {
        let is_gpu =
            |path: PathBuf| path.to_str().is_some_and(|path| GPU_FILES.iter().any(|gpu| path.starts_with(gpu)));
        let open = || fs::read_dir(self.root.join(id.to_string()).join("fd")).into_iter().flatten().flatten();
        self.ids == Ids::Machine || open().any(|entry| fs::read_link(entry.path()).is_ok_and(is_gpu))
    }

    pub(super) fn list(&mut self) -> Listing {
        let mut listing = Listing { processors: self.machine.processors, ..Listing::default() };
        let entries = match fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(error) => {
                let message = Message::new(format!("cannot list processes: {}: {error}", self.root.display()));
                listing.notes.push(message.with_hint(hint!("mount it with `mount -t proc proc /proc`")));
                return listing;
            }
        };
        let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let (mut hidden, mut unread) = (0_usize, None);
        for id in ids {
            match self.process(id) {
                Ok(process) => listing.processes.push(process),
                Err(ReadError::Ended) => {}
                Err(why) => {
                    let folder = self.root.join(id.to_string());
                    listing.processes.push(ListedProcess { id, user: self.owner(&folder), ..ListedProcess::default() });
                    match why {
                        ReadError::Other(why) => unread = unread.or(Some(why)),
                        _ => hidden += 1,
                    }
                }
            }
        }
        if hidden > 0 {
            let message = Message::new(match hidden {
                1 => String::from("1 process of another user is hidden (hidepid)"),
                count => format!("{count} processes of other users are hidden (hidepid)"),
            });
            let hint = hint!("run as root, or as a member of the group in the `gid=` option of the /proc mount");
            listing.notes.push(message.with_hint(hint));
        }
        listing.notes.extend(unread.map(Message::from));
        listing
    }

    fn process(&self, id: u32) -> Result<ListedProcess, ReadError> {
        let folder = self.root.join(id.to_string());
        let path = folder.join("stat");
        let unread = |error: io::Error| match error.kind() {
            io::ErrorKind::PermissionDenied => ReadError::Hidden,
            _ if is_ended(&error) => ReadError::Ended,
            _ => ReadError::Other(format!("cannot read {}: {error}", path.display())),
        };
        // A name has at most 64 bytes, and each of the 50 fields at most 20 digits.
        let line = (self.read)(&path, 2048).map_err(unread)?;
        let stat = StatLine::parse(&line).ok_or_else(|| {
            ReadError::Other(format!("{} does not have the format of proc_pid_stat(5)", path.display()))
        })?;
        // A character has at most 4 bytes, and a longer command line is cut anyway.
        let command = (self.read)(&folder.join("cmdline"), COMMAND_LENGTH as u64 * 4).ok();
        let Machine { ticks_per_second, page, .. } = self.machine;
        Ok(ListedProcess {
            id,
            command: command.and_then(|bytes| one_line(&String::from_utf8_lossy(&bytes))),
            user: self.owner(&folder),
            memory: Some(Bytes::new(stat.resident_pages.saturating_mul(page))),
            time: Some(Time { started: stat.start_ticks, used: duration(stat.cpu_ticks, ticks_per_second) }),
            name: one_line(&stat.name),
        })
    }

    /// The owner of the folder. For a process that may not be dumped this is root, whoever runs it.
    fn owner(&self, folder: &Path) -> Option<String> {
        fs::metadata(folder).ok().map(|folder| self.users.name(folder.uid()))
    }
}

impl Machine {
    fn read(root: &Path) -> Self {
        let processors = fs::read(root.join("stat")).ok().and_then(|text| count_processors(&text));
        Self {
            processors,
            // All supported architectures use hundredths of a second.
            ticks_per_second: Some(rustix::param::clock_ticks_per_second()).filter(|&ticks| ticks > 0).unwrap_or(100),
            page: rustix::param::page_size() as u64,
        }
    }
}

/// Counts the lines `cpu0`, `cpu1`, ... of `/proc/stat`: the processors that are online.
fn count_processors(text: &[u8]) -> Option<u32> {
    let is_one =
        |line: &&[u8]| line.strip_prefix(b"cpu").is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_digit));
    let count = text.split(|&byte| byte == b'\n').filter(is_one).count();
    u32::try_from(count).ok().filter(|&count| count > 0)
}

fn duration(ticks: u64, per_second: u64) -> Duration {
    let rest_ns = ticks % per_second * 1_000_000_000 / per_second;
    Duration::from_secs(ticks / per_second) + Duration::from_nanos(rest_ns)
}

fn read_file(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(512);
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether the process has ended: its folder is gone, or a file that was open before returns `ESRCH`.
fn is_ended(error: &io::Error) -> bool {
    const ESRCH: i32 = 3;
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(ESRCH)
}

#[cfg(test)]
mod tests {
    use super::super::fake::FakeProc;
    use super::*;

    fn find(listing: &Listing, id: u32) -> &ListedProcess {
        listing.processes.iter().find(|process| process.id == id).unwrap()
    }

    #[test]
    fn time_memory_name_command_and_owner_are_read() {
        let tree = FakeProc::new();
        tree.process(815, b"VLLM::EngineCore (0)", 1300, 7711).write(
            815,
            "cmdline",
            b"python3\0-m\0vllm serve\0caf\xe9\n\0",
        );
        tree.process(2, b"kthreadd", 4, 3).write(2, "cmdline", b"");
        let listing = ProcFiles::new(&tree.options()).list();
        assert_eq!(listing.processors, Some(2));
        assert_eq!((listing.processes.len(), listing.notes.len()), (2, 0), "neither `self` nor `stat` is a process");
        let engine = find(&listing, 815);
        assert_eq!(engine.name.as_deref(), Some("VLLM::EngineCore (0)"));
        assert_eq!(engine.command.as_deref(), Some("python3 -m vllm serve caf\u{fffd}"));
        assert_eq!(engine.time, Some(Time { started: 7711, used: Duration::from_secs(13) }));
        assert_eq!(engine.memory, Some(Bytes::new(25600 * rustix::param::page_size() as u64)));
        assert_eq!(engine.user, Some(tree.user()), "the owner of the folder");
        assert_eq!(find(&listing, 2).command, None, "a kernel thread has no command line");
    }

    #[test]
    fn a_process_that_ends_while_it_is_read_is_skipped() {
        let tree = FakeProc::new();
        tree.process(1, b"init", 10, 1).process(5, b"ends", 10, 1).process(6, b"ended", 10, 1);
        tree.remove(5, "stat").remove(6, "cmdline");
        let listing = ProcFiles::new(&tree.options()).list();
        let mut ids: Vec<u32> = listing.processes.iter().map(|process| process.id).collect();
        ids.sort_unstable();
        assert_eq!(ids, [1, 6], "the values of 6 that were read are kept");
        assert!(listing.notes.is_empty());
        // The kernel returns this if the file was already open.
        let gone: ReadFile = |_, _| Err(io::Error::from_raw_os_error(3));
        assert!(ProcFiles::with_reader(&tree.options(), gone).list().processes.is_empty());
    }

    #[test]
    fn hidden_processes_have_an_owner_and_one_note() {
        let tree = FakeProc::new();
        tree.process(1, b"init", 10, 1).process(42, b"secret", 10, 1).process(43, b"secret", 10, 1);
        let deny: ReadFile = |path, most| match path.components().rev().nth(1) {
            Some(folder) if folder.as_os_str().to_str().is_some_and(|name| name.starts_with('4')) => {
                Err(io::ErrorKind::PermissionDenied.into())
            }
            _ => read_file(path, most),
        };
        let listing = ProcFiles::with_reader(&tree.options(), deny).list();
        assert_eq!(*find(&listing, 42), ListedProcess { id: 42, user: Some(tree.user()), ..ListedProcess::default() });
        assert_eq!(find(&listing, 1).name.as_deref(), Some("init"));
        assert!(matches!(&listing.notes[..], [note] if note.text.starts_with("2 processes of other users are hidden")));
        tree.end(43);
        let listing = ProcFiles::with_reader(&tree.options(), deny).list();
        assert!(matches!(&listing.notes[..], [note] if note.text.starts_with("1 process of another user is hidden")));
    }

    #[test]
    fn a_malformed_stat_file_is_a_note_and_not_a_number() {
        let tree = FakeProc::new();
        tree.process(7, b"fine", 10, 1).process(8, b"fine", 10, 1).write(8, "stat", b"8 (fish) S \xff\n");
        let listing = ProcFiles::new(&tree.options()).list();
        assert_eq!((find(&listing, 8).time, find(&listing, 8).memory), (None, None));
        assert!(
            matches!(&listing.notes[..], [note] if note.text.contains("8/stat does not have the format")),
            "{:?}",
            listing.notes
        );
        let nowhere = Options { proc_root: tree.options().proc_root.join("none"), ..tree.options() };
        let listing = ProcFiles::new(&nowhere).list();
        assert!(listing.processors.is_none() && listing.notes[0].hint.is_some(), "{:?}", listing.notes);
    }

    #[test]
    fn a_command_line_of_any_length_is_cut() {
        let tree = FakeProc::new();
        tree.process(9, b"java", 10, 1).write(9, "cmdline", "\u{e9}\0".repeat(100_000).as_bytes());
        let listing = ProcFiles::new(&tree.options()).list();
        let length = find(&listing, 9).command.as_ref().unwrap().chars().count();
        assert!((COMMAND_LENGTH - 1..=COMMAND_LENGTH).contains(&length), "{length}");
    }
}
