//! Opens the files of a run folder and refuses pipes, sockets and devices in their place.
//!
//! A run folder may come from someone else. Opening a pipe waits until another process opens it too, and reading a device
//! may never end. The type is checked after opening, so that nothing can replace the file in between.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

/// Opens a regular file to read it.
pub fn open(path: &Path) -> io::Result<File> {
    open_with(File::options().read(true), Links::Followed, path)
}

/// Reads a whole regular file.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a regular file to write it. Fails for a symbolic link, which would lead to a file elsewhere.
pub fn open_to_write(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    open_with(options, Links::Refused, path)
}

/// Whether a symbolic link is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Links {
    Followed,
    Refused,
}

fn open_with(options: &mut OpenOptions, links: Links, path: &Path) -> io::Result<File> {
    add_flags(options, links);
    match options.open(path) {
        Ok(file) if file.metadata()?.is_file() => Ok(file),
        // A pipe without a reader and a socket cannot be opened to write, which the system words differently.
        Err(cause) if path.metadata().map_or(true, |found| found.is_file()) => Err(cause),
        _ => Err(io::Error::other("it is not a regular file")),
    }
}

#[cfg(unix)]
fn add_flags(options: &mut OpenOptions, links: Links) {
    use std::os::unix::fs::OpenOptionsExt;

    use rustix::fs::OFlags;

    // Without waiting for the other end of a pipe. It does not change how regular files are read and written.
    let flags = match links {
        Links::Followed => OFlags::NONBLOCK,
        Links::Refused => OFlags::NONBLOCK | OFlags::NOFOLLOW,
    };
    options.custom_flags(flags.bits().cast_signed());
}

#[cfg(not(unix))]
fn add_flags(_: &mut OpenOptions, _: Links) {}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::cost_model::{COST_MODEL_FILE, CostModels};
    use crate::folder::record_files;
    use crate::saved::{Attempt, Telemetry};
    use crate::store::{REQUESTS_FILE, STATE_FILE, TELEMETRY_FILE};

    fn make_pipe(path: &Path) {
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    }

    #[test]
    fn readers_of_a_run_refuse_pipes_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        for name in [STATE_FILE, REQUESTS_FILE, TELEMETRY_FILE, COST_MODEL_FILE] {
            make_pipe(&folder.path().join(name));
        }
        let errors = [
            record_files(folder.path()).err(),
            Attempt::each(folder.path(), |_, _| {}).err(),
            Telemetry::read(folder.path(), &[]).err(),
            CostModels::read(folder.path()).err(),
        ];
        for error in errors {
            let error = error.unwrap().to_string();
            assert!(error.starts_with("cannot read ") && error.ends_with(": it is not a regular file"), "{error}");
        }
    }

    #[test]
    fn pipes_sockets_devices_and_folders_are_refused_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let [pipe, socket, file] = ["pipe", "socket", "file"].map(|name| folder.path().join(name));
        make_pipe(&pipe);
        let _listener = UnixListener::bind(&socket).unwrap();
        for path in [&pipe, &socket, Path::new("/dev/zero"), folder.path()] {
            let refused = [
                open(path).err(),
                read(path).err(),
                open_to_write(File::options().write(true), path).err(),
                open_to_write(File::options().append(true).create(true), path).err(),
            ];
            for error in refused {
                assert_eq!(error.unwrap().to_string(), "it is not a regular file", "{}", path.display());
            }
        }
        fs::write(&file, "content").unwrap();
        assert_eq!(read(&file).unwrap(), b"content");
        assert!(open_to_write(File::options().append(true), &file).is_ok());
        assert_eq!(open(&folder.path().join("gone")).unwrap_err().kind(), io::ErrorKind::NotFound);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(open(&link).is_ok() && open_to_write(File::options().write(true), &link).is_err());
    }
}
