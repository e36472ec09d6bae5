//! Processes by `/proc`, on Linux.
//!
//! In goes the folder; out comes a [`Listing`]. A process that ends while it is read is left out, or has what was read
//! of it; one that is hidden from this user (`hidepid`) has its id and owner, and a note says so. Threads are not listed.
//!
//! Three calls a process: its line of `stat` (time, memory, name), its `cmdline`, and the owner of its folder.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ergometer_units::Bytes;

use super::Options;
use super::listing::{COMMAND_LENGTH, Listed, Listing, Time, one_line};
use super::stat_line::StatLine;
use super::users::Users;

/// How a file is read, so that a test can forbid one: as root, permission bits stop nobody. At most so many bytes.
type ReadFile = fn(&Path, u64) -> io::Result<Vec<u8>>;

#[derive(Debug)]
pub(super) struct ProcFiles {
    root: PathBuf,
    read: ReadFile,
    users: Users,
    machine: Machine,
    ids: Ids,
}

/// Whose ids the processes here have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ids {
    Machine,
    /// Those of a container: the machine has others for the same processes.
    Container,
}

/// The namespace of ids that the kernel starts with has this number on every machine (`PROC_PID_INIT_INO`). `NSpid` of
/// `status` would not tell: it begins with the namespace that `/proc` is of, so that a container sees one id there.
const OUTERMOST: &str = "pid:[4026531836]";

/// What a process that uses a GPU of NVIDIA's has open; the second is Windows' subsystem for Linux.
const GPU_FILES: [&str; 2] = ["/dev/nvidia", "/dev/dxg"];

/// What does not change while it runs.
#[derive(Debug)]
struct Machine {
    processors: Option<u32>,
    ticks_per_second: u64,
    page: u64,
}

/// Why a process is not read in full.
enum Unread {
    Ended,
    Hidden,
    Other(String),
}

impl ProcFiles {
    pub(super) fn new(options: &Options) -> Self {
        Self::reading(options, read_file)
    }

    fn reading(options: &Options, read: ReadFile) -> Self {
        let root = options.proc_root.clone();
        let machine = Machine::read(&root);
        let ids = match fs::read_link(root.join("self/ns/pid")) {
            Ok(namespace) if namespace != Path::new(OUTERMOST) => Ids::Container,
            _ => Ids::Machine,
        };
        Self { root, read, users: Users::read(&options.passwd), machine, ids }
    }

    /// Whether what a GPU's driver tells of this id can be of the process that has it here. In a container some drivers
    /// tell the machine's ids: there, one counts as the same only where it is seen to have a GPU open.
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
                let why = format!(
                    "cannot list processes: {}: {error}. hint: mount it with `mount -t proc proc /proc`",
                    self.root.display()
                );
                listing.notes.push(why);
                return listing;
            }
        };
        let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let (mut hidden, mut unread) = (0_usize, None);
        for id in ids {
            match self.process(id) {
                Ok(process) => listing.processes.push(process),
                Err(Unread::Ended) => {}
                Err(why) => {
                    let folder = self.root.join(id.to_string());
                    listing.processes.push(Listed { id, user: self.owner(&folder), ..Listed::default() });
                    match why {
                        Unread::Other(why) => unread = unread.or(Some(why)),
                        _ => hidden += 1,
                    }
                }
            }
        }
        if hidden > 0 {
            listing.notes.push(format!(
                "{hidden} processes of other users are hidden (hidepid). hint: run as root, or in the group that `gid=` of /proc's mount names"
            ));
        }
        listing.notes.extend(unread);
        listing
    }

    fn process(&self, id: u32) -> Result<Listed, Unread> {
        let folder = self.root.join(id.to_string());
        let path = folder.join("stat");
        let unread = |error: io::Error| match error.kind() {
            io::ErrorKind::PermissionDenied => Unread::Hidden,
            _ if is_ended(&error) => Unread::Ended,
            _ => Unread::Other(format!("cannot read {}: {error}", path.display())),
        };
        // A name has at most 64 bytes and the 50 fields at most 20 digits each.
        let line = (self.read)(&path, 2048).map_err(unread)?;
        let stat = StatLine::parse(&line)
            .ok_or_else(|| Unread::Other(format!("{} is not of the form of proc_pid_stat(5)", path.display())))?;
        // One byte a character at least: what is longer is cut anyway.
        let command = (self.read)(&folder.join("cmdline"), COMMAND_LENGTH as u64 * 4).ok();
        let Machine { ticks_per_second, page, .. } = self.machine;
        Ok(Listed {
            id,
            command: command.and_then(|bytes| one_line(&String::from_utf8_lossy(&bytes))),
            user: self.owner(&folder),
            memory: Some(Bytes::new(stat.resident_pages.saturating_mul(page))),
            time: Some(Time { started: stat.start_ticks, used: duration(stat.cpu_ticks, ticks_per_second) }),
            name: one_line(&stat.name),
        })
    }

    /// A process that may not be dumped belongs to root here, whoever runs it.
    fn owner(&self, folder: &Path) -> Option<String> {
        fs::metadata(folder).ok().map(|folder| self.users.name(folder.uid()))
    }
}

impl Machine {
    fn read(root: &Path) -> Self {
        let processors = fs::read(root.join("stat")).ok().and_then(|text| count_processors(&text));
        Self {
            processors,
            // All architectures built for today count in hundredths.
            ticks_per_second: Some(rustix::param::clock_ticks_per_second()).filter(|&ticks| ticks > 0).unwrap_or(100),
            page: rustix::param::page_size() as u64,
        }
    }
}

/// The lines `cpu0`, `cpu1`, ... of `/proc/stat`: those that are switched on.
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

/// A process that ended takes its folder with it; a file that was open by then answers `ESRCH`.
fn is_ended(error: &io::Error) -> bool {
    const ESRCH: i32 = 3;
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(ESRCH)
}

#[cfg(test)]
mod tests {
    use super::super::fake::FakeProc;
    use super::*;

    fn find(listing: &Listing, id: u32) -> &Listed {
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
        assert_eq!(find(&listing, 2).command, None, "a thread of the kernel has no command line");
    }

    #[test]
    fn a_process_that_ends_while_it_is_read_is_left_out() {
        let tree = FakeProc::new();
        tree.process(1, b"init", 10, 1).process(5, b"ends", 10, 1).process(6, b"ended", 10, 1);
        tree.remove(5, "stat").remove(6, "cmdline");
        let listing = ProcFiles::new(&tree.options()).list();
        let mut ids: Vec<u32> = listing.processes.iter().map(|process| process.id).collect();
        ids.sort_unstable();
        assert_eq!(ids, [1, 6], "what was read of 6 stands");
        assert!(listing.notes.is_empty());
        // As the kernel answers where the file was open already.
        let gone: ReadFile = |_, _| Err(io::Error::from_raw_os_error(3));
        assert!(ProcFiles::reading(&tree.options(), gone).list().processes.is_empty());
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
        let listing = ProcFiles::reading(&tree.options(), deny).list();
        assert_eq!(*find(&listing, 42), Listed { id: 42, user: Some(tree.user()), ..Listed::default() });
        assert_eq!(find(&listing, 1).name.as_deref(), Some("init"));
        assert!(matches!(&listing.notes[..], [note] if note.starts_with("2 processes of other users are hidden")));
    }

    #[test]
    fn garbage_is_said_and_never_a_number() {
        let tree = FakeProc::new();
        tree.process(7, b"fine", 10, 1).process(8, b"fine", 10, 1).write(8, "stat", b"8 (fish) S \xff\n");
        let listing = ProcFiles::new(&tree.options()).list();
        assert_eq!((find(&listing, 8).time, find(&listing, 8).memory), (None, None));
        assert!(
            matches!(&listing.notes[..], [note] if note.contains("8/stat is not of the form")),
            "{:?}",
            listing.notes
        );
        let nowhere = Options { proc_root: tree.options().proc_root.join("none"), ..tree.options() };
        let listing = ProcFiles::new(&nowhere).list();
        assert!(listing.processors.is_none() && listing.notes[0].contains("hint: "), "{:?}", listing.notes);
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
