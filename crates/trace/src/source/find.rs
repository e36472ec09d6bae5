//! Finds trace files from a list of paths.
//!
//! A file is returned as it is, and a folder is searched for traces, sorted by path. A profiler's log folder contains
//! `plugins/profile/<session>/<host>.xplane.pb`, where sessions are named by their time: only the latest session with a
//! trace is read, and everything else in the folder is skipped.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{STANDARD_INPUT, SourceError};

/// The maximum depth of a folder search.
pub(super) const DEPTH: usize = 8;

/// The file name endings of traces, in order of preference.
const ENDINGS: [&str; 4] = [".xplane.pb", ".xplane.pb.zst", ".xplane.pb.gz", ".xplane.pb.xz"];

/// The trace files that [`find`] found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TraceFiles {
    /// The files, in the order of the given paths; the files of a folder are sorted by path. No file appears twice.
    pub files: Vec<PathBuf>,
    /// The sessions and files in the folders that were skipped.
    pub skipped: Vec<Skipped>,
}

/// A session or file in a folder that was skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The session's folder, or the file.
    pub path: PathBuf,
    /// Why it was skipped.
    pub reason: SkipReason,
}

impl fmt::Display for Skipped {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.reason {
            SkipReason::OlderSession => write!(formatter, "skipped {path}: there is a later session"),
            SkipReason::EmptySession => {
                write!(formatter, "skipped {path}: it has no trace, so an earlier session is read")
            }
            SkipReason::PackedCopy => write!(formatter, "skipped {path}: a less compressed copy is in the same folder"),
        }
    }
}

/// The reason why a session or file was skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipReason {
    /// There is a later session.
    OlderSession,
    /// The session has no trace: its recording failed or is not finished.
    EmptySession,
    /// The same folder has a less compressed copy of the trace.
    PackedCopy,
}

/// Finds the traces of these paths. Files and `-` (standard input) are returned as they are; folders are searched.
///
/// ```
/// # fn main() -> Result<(), ergometer_trace::SourceError> {
/// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/xplane");
/// assert!(ergometer_trace::find(&[folder.into()])?.files.len() > 1);
/// # Ok(())
/// # }
/// ```
pub fn find(paths: &[PathBuf]) -> Result<TraceFiles, SourceError> {
    let mut found = TraceFiles::default();
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

/// Adds the traces in a folder.
fn search(folder: &Path, depth: usize, found: &mut TraceFiles) -> Result<(), SourceError> {
    if let Some(sessions) = sessions_folder(folder) {
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

/// The folder that contains the sessions, if `folder` is a profiler's log folder or a folder on the way to the
/// sessions.
fn sessions_folder(folder: &Path) -> Option<PathBuf> {
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

/// Adds the traces of the latest session that has any, and lists the other sessions as skipped.
fn take_latest(sessions: &Path, depth: usize, found: &mut TraceFiles) -> Result<(), SourceError> {
    let mut latest = None;
    let mut skipped = Vec::new();
    for session in content(sessions)?.folders.into_iter().rev() {
        let mut in_session = TraceFiles::default();
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

fn search_session(session: &Path, depth: usize, found: &mut TraceFiles) -> Result<(), SourceError> {
    if depth == 0 { Ok(()) } else { search(session, depth - 1, found) }
}

/// The traces and folders in a folder, sorted by name.
#[derive(Default)]
struct Content {
    /// By name without the ending: each copy of the trace with the rank of its ending.
    traces: BTreeMap<Vec<u8>, Vec<(usize, PathBuf)>>,
    folders: Vec<PathBuf>,
}

/// Lists a folder. Links to files are followed, links to folders are not, so there are no loops. Pipes and devices are
/// ignored.
fn content(folder: &Path) -> Result<Content, SourceError> {
    let mut content = Content::default();
    for entry in fs::read_dir(folder).map_err(|cause| unreadable(folder, cause))? {
        let entry = entry.map_err(|cause| unreadable(folder, cause))?;
        let path = entry.path();
        let kind = entry.file_type().map_err(|cause| unreadable(&path, cause))?;
        if kind.is_dir() {
            content.folders.push(path);
        } else if let Some((trace, rank)) = parse_name(&path)
            // A broken link is kept, so that opening it reports the error.
            && (kind.is_file() || kind.is_symlink() && fs::metadata(&path).map_or(true, |to| to.is_file()))
        {
            content.traces.entry(trace).or_default().push((rank, path));
        }
    }
    content.folders.sort_unstable();
    Ok(content)
}

/// The file name without its ending, and the rank of the ending. `None` if it is not the name of a trace.
fn parse_name(path: &Path) -> Option<(Vec<u8>, usize)> {
    let name = path.file_name()?.as_encoded_bytes();
    let ending = |(rank, ending): (usize, &&str)| Some((name.strip_suffix(ending.as_bytes())?.to_vec(), rank));
    ENDINGS.iter().enumerate().find_map(ending)
}

fn unreadable(path: &Path, cause: io::Error) -> SourceError {
    SourceError::Read { path: path.to_owned(), cause }
}

#[cfg(test)]
mod tests {
    use ergometer_diagnostics::{CommandLine, Diagnostic};

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

    /// The files and the skipped paths, relative to the root.
    fn found_in(root: &Path, paths: &[&str]) -> (Vec<String>, Vec<(String, SkipReason)>) {
        let found = find(&paths.iter().map(|path| root.join(path)).collect::<Vec<_>>()).unwrap();
        let short = |path: &Path| path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
        let skipped = found.skipped.iter().map(|skipped| (short(&skipped.path), skipped.reason)).collect();
        (found.files.iter().map(|path| short(path)).collect(), skipped)
    }

    #[test]
    fn the_latest_session_of_a_log_folder_is_read() {
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
        // An older session is read if its folder is given.
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
        // A given file is read regardless of its name.
        assert_eq!(find(&[PathBuf::from("-")]).unwrap().files, [PathBuf::from("-")]);
        assert_eq!(found_in(root.path(), &["in/a.xplane.pb.xz"]).0, ["in/a.xplane.pb.xz"]);
    }

    #[test]
    fn an_error_names_the_missing_path() {
        let root = tree(&["in/a.txt"]);
        let error = find(&[root.path().join("in")]).unwrap_err();
        assert_eq!(error.to_string(), format!("no trace in {}", root.path().join("in").display()));
        assert!(error.one_line(&CommandLine).contains(". hint: pass the profiler's log folder"), "{error}");
        let error = find(&[root.path().join("gone")]).unwrap_err().one_line(&CommandLine);
        assert!(error.contains("gone: ") && error.contains("hint: pass the path"), "{error}");
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
            let error = result.unwrap_err().one_line(&CommandLine);
            assert!(error.contains("sub: ") && error.contains("`chmod"), "{error}");
        }
    }
}
