//! The paths a user typed → trace files, and what was left out on the way.
//!
//! A file is taken as it is. A folder gives its traces sorted by path. A log folder of a profiler has
//! `plugins/profile/<session>/<host>.xplane.pb`; of its sessions, which are named by their time, the latest that has a
//! trace is taken and nothing else in it.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{STANDARD_INPUT, SourceError};

/// How many folders deep a folder is searched.
pub(super) const DEPTH: usize = 8;

/// What the name of a trace ends in, the plainest first.
const ENDINGS: [&str; 4] = [".xplane.pb", ".xplane.pb.zst", ".xplane.pb.gz", ".xplane.pb.xz"];

/// The files that paths stand for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// The files: in the order of the paths, within a folder by their own path. None is in it twice.
    pub files: Vec<PathBuf>,
    /// What is in the folders and was not taken.
    pub skipped: Vec<Skipped>,
}

/// What was not taken from a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The session's folder, or the file.
    pub path: PathBuf,
    /// Why.
    pub reason: SkipReason,
}

impl fmt::Display for Skipped {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.reason {
            SkipReason::OlderSession => write!(formatter, "left out: {path}, as there is a later session"),
            SkipReason::EmptySession => write!(formatter, "{path} has no trace: an earlier session is taken"),
            SkipReason::PackedCopy => write!(formatter, "left out: {path}, as it is there less packed"),
        }
    }
}

/// Why something in a folder was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipReason {
    /// A session before the latest.
    OlderSession,
    /// A later session without a trace: its recording failed or is still going on.
    EmptySession,
    /// The same trace stands beside it, packed less.
    PackedCopy,
}

/// Expands what a user typed: files (and `-`) as they are, a folder to its traces.
pub fn find(paths: &[PathBuf]) -> Result<Found, SourceError> {
    let mut found = Found::default();
    for path in paths {
        if path == Path::new(STANDARD_INPUT) || !fs::metadata(path).map_err(|cause| unreadable(path, cause))?.is_dir() {
            found.files.push(path.clone());
            continue;
        }
        let before = found.files.len();
        search(path, DEPTH, &mut found)?;
        if found.files.len() == before {
            return Err(SourceError::NoTrace { folder: path.clone() });
        }
        found.files[before..].sort_unstable();
    }
    let mut seen = HashSet::new();
    found.files.retain(|file| seen.insert(fs::canonicalize(file).unwrap_or_else(|_| file.clone())));
    Ok(found)
}

/// Adds the traces of a folder.
fn search(folder: &Path, depth: usize, found: &mut Found) -> Result<(), SourceError> {
    if let Some(sessions) = sessions_of(folder) {
        let before = found.files.len();
        take_latest(&sessions, depth, found)?;
        if found.files.len() > before {
            return Ok(());
        }
    }
    let Content { traces, folders } = content(folder)?;
    for (_, mut packings) in traces {
        packings.sort_unstable();
        let mut packings = packings.into_iter().map(|(_, path)| path);
        found.files.extend(packings.next());
        found.skipped.extend(packings.map(|path| Skipped { path, reason: SkipReason::PackedCopy }));
    }
    if depth > 0 {
        for folder in folders {
            search(&folder, depth - 1, found)?;
        }
    }
    Ok(())
}

/// The folder of a log folder's sessions; a user may give any folder on the way to it.
fn sessions_of(folder: &Path) -> Option<PathBuf> {
    let whole = fs::canonicalize(folder).ok()?;
    let sessions = if whole.ends_with("plugins/profile") {
        folder.to_owned()
    } else if whole.ends_with("plugins") {
        folder.join("profile")
    } else {
        folder.join("plugins").join("profile")
    };
    sessions.is_dir().then_some(sessions)
}

/// Adds the traces of the latest session that has any, and tells of the others.
fn take_latest(sessions: &Path, depth: usize, found: &mut Found) -> Result<(), SourceError> {
    let mut latest = None;
    let mut skipped = Vec::new();
    for session in content(sessions)?.folders.into_iter().rev() {
        let mut in_session = Found::default();
        search_session(&session, depth, &mut in_session)?;
        match (in_session.files.is_empty(), &latest) {
            (false, None) => latest = Some(in_session),
            (false, Some(_)) => skipped.push(Skipped { path: session, reason: SkipReason::OlderSession }),
            (true, None) => skipped.push(Skipped { path: session, reason: SkipReason::EmptySession }),
            (true, Some(_)) => {}
        }
    }
    if let Some(latest) = latest {
        skipped.reverse();
        found.files.extend(latest.files);
        found.skipped.extend(latest.skipped);
        found.skipped.extend(skipped);
    }
    Ok(())
}

fn search_session(session: &Path, depth: usize, found: &mut Found) -> Result<(), SourceError> {
    if depth == 0 { Ok(()) } else { search(session, depth - 1, found) }
}

/// What is in a folder, sorted by name.
#[derive(Default)]
struct Content {
    /// By the name without its ending, each packing with the rank of its ending.
    traces: BTreeMap<Vec<u8>, Vec<(usize, PathBuf)>>,
    folders: Vec<PathBuf>,
}

/// A link to a folder is not followed, so there are no loops; a link to a file is. Pipes and devices are no traces.
fn content(folder: &Path) -> Result<Content, SourceError> {
    let mut content = Content::default();
    for entry in fs::read_dir(folder).map_err(|cause| unreadable(folder, cause))? {
        let entry = entry.map_err(|cause| unreadable(folder, cause))?;
        let path = entry.path();
        let kind = entry.file_type().map_err(|cause| unreadable(&path, cause))?;
        if kind.is_dir() {
            content.folders.push(path);
        } else if let Some((trace, rank)) = trace_of(&path)
            // A link to nothing is kept: to open it tells what is wrong with it.
            && (kind.is_file() || kind.is_symlink() && fs::metadata(&path).map_or(true, |to| to.is_file()))
        {
            content.traces.entry(trace).or_default().push((rank, path));
        }
    }
    content.folders.sort_unstable();
    Ok(content)
}

/// The name without its ending, and which ending that is; nothing where it is no trace by its name.
fn trace_of(path: &Path) -> Option<(Vec<u8>, usize)> {
    let name = path.file_name()?.as_encoded_bytes();
    let ending = |(rank, ending): (usize, &&str)| Some((name.strip_suffix(ending.as_bytes())?.to_vec(), rank));
    ENDINGS.iter().enumerate().find_map(ending)
}

fn unreadable(path: &Path, cause: io::Error) -> SourceError {
    SourceError::Read { path: path.to_owned(), cause }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, b"x").unwrap();
        }
        root
    }

    /// The files and what was skipped, relative to the root.
    fn found_in(root: &Path, paths: &[&str]) -> (Vec<String>, Vec<(String, SkipReason)>) {
        let found = find(&paths.iter().map(|path| root.join(path)).collect::<Vec<_>>()).unwrap();
        let short = |path: &Path| path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
        let skipped = found.skipped.iter().map(|skipped| (short(&skipped.path), skipped.reason)).collect();
        (found.files.iter().map(|path| short(path)).collect(), skipped)
    }

    #[test]
    fn of_a_log_folder_the_latest_session_is_taken() {
        let root = tree(&[
            "log/plugins/profile/2026_01_02_03_04_05/a.xplane.pb",
            "log/plugins/profile/2026_01_03_03_04_05/b.xplane.pb.gz",
            "log/plugins/profile/2026_01_03_03_04_05/a.xplane.pb",
            "log/plugins/profile/2026_01_03_03_04_05/a.trace.json.gz",
            "log/plugins/profile/2026_01_04_03_04_05/a.trace.json.gz",
            "log/other.xplane.pb",
        ]);
        let session = "log/plugins/profile/2026_01_03_03_04_05";
        let files = vec![format!("{session}/a.xplane.pb"), format!("{session}/b.xplane.pb.gz")];
        let skipped = vec![
            ("log/plugins/profile/2026_01_02_03_04_05".to_owned(), SkipReason::OlderSession),
            ("log/plugins/profile/2026_01_04_03_04_05".to_owned(), SkipReason::EmptySession),
        ];
        for given in ["log", "log/plugins", "log/plugins/profile"] {
            assert_eq!(found_in(root.path(), &[given]), (files.clone(), skipped.clone()), "{given}");
        }
        assert_eq!(found_in(root.path(), &[session]), (files, vec![]));
        // An older one is taken where it is asked for.
        let older = "log/plugins/profile/2026_01_02_03_04_05";
        assert_eq!(found_in(root.path(), &[older]).0, [format!("{older}/a.xplane.pb")]);
    }

    #[test]
    fn any_folder_is_searched_to_a_depth() {
        let deep = format!("{}in.xplane.pb", "d/".repeat(DEPTH));
        let root = tree(&["z.xplane.pb.xz", "b/y.xplane.pb.zst", "x.xplane.pb.bak", "xplane.pb", &deep]);
        fs::create_dir_all(root.path().join("d/".repeat(DEPTH + 1))).unwrap();
        fs::write(root.path().join("d/".repeat(DEPTH + 1)).join("out.xplane.pb"), b"x").unwrap();
        assert_eq!(
            found_in(root.path(), &[""]),
            (vec!["b/y.xplane.pb.zst".into(), deep, "z.xplane.pb.xz".into()], vec![])
        );
    }

    #[test]
    fn a_trace_counts_once() {
        let root = tree(&["in/a.xplane.pb.gz", "in/a.xplane.pb", "in/a.xplane.pb.xz"]);
        let copies = ["in/a.xplane.pb.gz", "in/a.xplane.pb.xz"].map(|path| (path.to_owned(), SkipReason::PackedCopy));
        let (files, skipped) = found_in(root.path(), &["in/a.xplane.pb", "in", "in/../in/a.xplane.pb"]);
        assert_eq!((files, skipped), (vec!["in/a.xplane.pb".to_owned()], copies.to_vec()));
        // What is named is taken, whatever it is called.
        assert_eq!(find(&[PathBuf::from("-")]).unwrap().files, [PathBuf::from("-")]);
        assert_eq!(found_in(root.path(), &["in/a.xplane.pb.xz"]).0, ["in/a.xplane.pb.xz"]);
    }

    #[test]
    fn what_is_missing_is_told_with_its_path() {
        let root = tree(&["in/a.txt"]);
        let error = find(&[root.path().join("in")]).unwrap_err().to_string();
        assert!(error.starts_with(&format!("no trace in {}", root.path().join("in").display())), "{error}");
        assert!(error.contains("hint: "), "{error}");
        let error = find(&[root.path().join("gone")]).unwrap_err().to_string();
        assert!(error.contains("gone: ") && error.contains("hint: check the name"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn links_to_folders_are_not_followed_and_links_to_files_are() {
        use std::os::unix::fs::symlink;
        let root = tree(&["in/sub/b.txt", "elsewhere/a.xplane.pb"]);
        let inside = root.path().join("in");
        symlink(&inside, inside.join("sub/loop")).unwrap();
        symlink(root.path().join("elsewhere"), inside.join("link")).unwrap();
        symlink("../elsewhere/a.xplane.pb", inside.join("a.xplane.pb")).unwrap();
        symlink("nowhere", inside.join("gone.xplane.pb")).unwrap();
        assert_eq!(found_in(root.path(), &["in"]).0, ["in/a.xplane.pb", "in/gone.xplane.pb"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_may_not_be_read_is_an_error() {
        use std::os::unix::fs::PermissionsExt;
        let root = tree(&["in/sub/a.xplane.pb"]);
        let closed = root.path().join("in/sub");
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
        let result = find(&[root.path().join("in")]);
        let can_read_all = fs::read_dir(&closed).is_ok();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
        // The superuser may read everything.
        if !can_read_all {
            let error = result.unwrap_err().to_string();
            assert!(error.contains("sub: ") && error.contains("hint: `chmod"), "{error}");
        }
    }
}
