//! Opens exactly the path that was checked: a symlink at any place of it is an error, and nothing
//! that could make an open or a read wait is opened.

use std::fs::{File, FileType, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Why a file was not opened.
#[derive(Debug)]
pub(super) enum OpenError {
    Directory,
    /// Neither file nor folder; what it is.
    Special(&'static str),
    Io(io::Error),
}

impl<E: Into<io::Error>> From<E> for OpenError {
    fn from(error: E) -> Self {
        Self::Io(error.into())
    }
}

/// A handle on a folder that need not be readable, only passable, where the system has such a thing.
#[cfg(any(target_os = "linux", target_os = "android"))]
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// A regular file for reading. Without NONBLOCK a named pipe would wait for its writer.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Opens a regular file for reading.
pub(super) fn regular(real: &Path) -> Result<File, OpenError> {
    // Looked at first because opening a device can already have an effect, and once more after
    // opening because it may have been swapped.
    demand_regular(&real.symlink_metadata()?)?;
    let file = File::from(exact(real, READ)?);
    demand_regular(&file.metadata()?)?;
    Ok(file)
}

/// Opens a file that a directory listing called regular.
pub(super) fn walked(real: &Path) -> io::Result<File> {
    let file = File::from(exact(real, READ)?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// Opens a folder as the start of further steps.
pub(super) fn folder(real: &Path) -> io::Result<OwnedFd> {
    exact(real, FOLDER)
}

/// Opens a folder inside another.
pub(super) fn subfolder(parent: &OwnedFd, name: &Path) -> io::Result<OwnedFd> {
    let flags = FOLDER | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(parent, name, flags, Mode::empty())?)
}

/// Opens a regular file inside a folder for reading.
pub(super) fn regular_in(parent: &OwnedFd, name: &Path) -> Result<File, OpenError> {
    let flags = READ | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(parent, name, flags, Mode::empty())?);
    demand_regular(&file.metadata()?)?;
    Ok(file)
}

fn demand_regular(metadata: &Metadata) -> Result<(), OpenError> {
    let kind = metadata.file_type();
    if kind.is_file() {
        Ok(())
    } else if kind.is_dir() {
        Err(OpenError::Directory)
    } else {
        Err(OpenError::Special(special_kind(kind)))
    }
}

fn special_kind(kind: FileType) -> &'static str {
    if kind.is_fifo() {
        "named pipe"
    } else if kind.is_socket() {
        "socket"
    } else if kind.is_char_device() || kind.is_block_device() {
        "device"
    } else if kind.is_symlink() {
        "symlink"
    } else {
        "special file"
    }
}

/// Opens an absolute path on which no part is a symlink.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn exact(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    use rustix::fs::{CWD, ResolveFlags, openat2};
    use rustix::io::Errno;

    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(CWD, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
        // Linux before 5.6, and containers whose system call filter does not know it.
        Err(Errno::NOSYS | Errno::PERM) => step_by_step(path, flags),
        opened => Ok(opened?),
    }
}

/// Opens an absolute path on which no part is a symlink.
#[cfg(target_vendor = "apple")]
fn exact(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::NOFOLLOW_ANY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Opens an absolute path on which no part is a symlink.
#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn exact(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    step_by_step(path, flags)
}

/// The same without a system call for it: one folder after the other, following nothing.
#[cfg(not(target_vendor = "apple"))]
fn step_by_step(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    use rustix::fs::{open, openat};

    let mut folder = open("/", FOLDER | OFlags::CLOEXEC, Mode::empty())?;
    if let Some(parents) = path.parent() {
        for part in parents.components().skip(1) {
            folder = subfolder(&folder, part.as_ref())?;
        }
    }
    let name = path.file_name().map_or(Path::new("."), Path::new);
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(&folder, name, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    use super::*;

    type Opener = fn(&Path, OFlags) -> io::Result<OwnedFd>;

    fn openers() -> Vec<Opener> {
        vec![
            exact,
            #[cfg(not(target_vendor = "apple"))]
            step_by_step,
        ]
    }

    #[test]
    fn a_symlink_at_any_place_of_the_path_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        fs::create_dir(real.join("folder")).unwrap();
        fs::write(real.join("folder/file"), "content").unwrap();
        symlink("folder", real.join("to-folder")).unwrap();
        symlink("file", real.join("folder/to-file")).unwrap();
        for open in openers() {
            let mut text = String::new();
            let fd = open(&real.join("folder/file"), READ).unwrap();
            File::from(fd).read_to_string(&mut text).unwrap();
            assert_eq!(text, "content");
            assert!(open(&real.join("to-folder/file"), READ).is_err());
            assert!(open(&real.join("folder/to-file"), READ).is_err());
            let missing = open(&real.join("folder/none"), READ).unwrap_err();
            assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        }
    }

    #[test]
    fn the_root_of_the_file_system_opens_as_a_folder() {
        for open in openers() {
            open(Path::new("/"), FOLDER).unwrap();
        }
    }
}
