//! Opens exactly the path that was checked, from a root's descriptor on: a symlink at any place of it is an
//! error, so is leaving the root, and nothing that could make an open or a read wait is opened.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, statat};

/// Why a file was not opened.
#[derive(Debug)]
pub(super) enum OpenError {
    Directory,
    /// Neither file nor folder; what it is.
    Special(&'static str),
    /// On the way lies what git or anvil obey.
    Authority,
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

/// What was seen of a file without opening it.
pub(super) struct Seen(Stat);

impl Seen {
    pub(super) fn is_directory(&self) -> bool {
        self.kind() == FileType::Directory
    }

    /// In bytes.
    pub(super) fn size(&self) -> u64 {
        u64::try_from(self.0.st_size).unwrap_or_default()
    }

    fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.0.st_mode)
    }
}

/// Opens a folder by its absolute path without symlinks, as the root of all further steps.
pub(super) fn root(real: &Path) -> io::Result<OwnedFd> {
    let top = rustix::fs::open("/", FOLDER | OFlags::CLOEXEC, Mode::empty())?;
    exact(&top, real.strip_prefix("/").unwrap_or(real), FOLDER)
}

/// Looks at what lies at a path, which is no link.
pub(super) fn look(root: &OwnedFd, path: &Path) -> io::Result<Seen> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(Seen(fstat(root)?));
    };
    let parent = exact(root, parent, FOLDER)?;
    Ok(Seen(statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?))
}

/// Opens a regular file for reading.
pub(super) fn regular(root: &OwnedFd, path: &Path) -> Result<File, OpenError> {
    // Looked at first because opening a device can already have an effect, and once more after
    // opening because it may have been swapped.
    demand_regular(&look(root, path)?)?;
    let file = exact(root, path, READ)?;
    demand_regular(&Seen(fstat(&file)?))?;
    Ok(File::from(file))
}

/// Opens a file that a directory listing called regular.
pub(super) fn walked(root: &OwnedFd, path: &Path) -> io::Result<File> {
    let file = exact(root, path, READ)?;
    match FileType::from_raw_mode(fstat(&file)?.st_mode) {
        FileType::RegularFile => Ok(File::from(file)),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Opens a folder inside another.
pub(super) fn subfolder(parent: &OwnedFd, name: &Path) -> io::Result<OwnedFd> {
    let flags = FOLDER | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(parent, name, flags, Mode::empty())?)
}

/// Opens a regular file inside a folder for reading.
pub(super) fn regular_in(parent: &OwnedFd, name: &Path) -> Result<File, OpenError> {
    let flags = READ | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(parent, name, flags, Mode::empty())?;
    demand_regular(&Seen(fstat(&file)?))?;
    Ok(File::from(file))
}

fn demand_regular(seen: &Seen) -> Result<(), OpenError> {
    match seen.kind() {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(OpenError::Directory),
        FileType::Fifo => Err(OpenError::Special("named pipe")),
        FileType::Socket => Err(OpenError::Special("socket")),
        FileType::CharacterDevice | FileType::BlockDevice => Err(OpenError::Special("device")),
        FileType::Symlink => Err(OpenError::Special("symlink")),
        FileType::Unknown => Err(OpenError::Special("special file")),
    }
}

/// Opens what lies at a path below `root` on which no part is a symlink.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn exact(root: &OwnedFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    use rustix::fs::{ResolveFlags, openat2};
    use rustix::io::Errno;

    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(root, or_dot(path), flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
        // Linux before 5.6, and containers whose system call filter does not know it.
        Err(Errno::NOSYS | Errno::PERM) => step_by_step(root, path, flags),
        opened => Ok(opened?),
    }
}

/// Opens what lies at a path below `root` on which no part is a symlink.
#[cfg(target_vendor = "apple")]
fn exact(root: &OwnedFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::NOFOLLOW_ANY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(root, or_dot(path), flags, Mode::empty())?)
}

/// Opens what lies at a path below `root` on which no part is a symlink.
#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn exact(root: &OwnedFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    step_by_step(root, path, flags)
}

/// The same without a system call for it: one folder after the other, following nothing.
#[cfg(not(target_vendor = "apple"))]
fn step_by_step(root: &OwnedFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    use std::os::fd::AsFd as _;

    let mut folder = root.as_fd().try_clone_to_owned()?;
    for part in path.parent().unwrap_or(path).components() {
        folder = subfolder(&folder, part.as_ref())?;
    }
    let name = path.file_name().map_or(Path::new("."), Path::new);
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(&folder, name, flags, Mode::empty())?)
}

/// The root itself has no name below it.
fn or_dot(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    use super::*;

    type Opener = fn(&OwnedFd, &Path, OFlags) -> io::Result<OwnedFd>;

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
            let open = |path: &str| open(&root(&real).unwrap(), Path::new(path), READ);
            let fd = open("folder/file").unwrap();
            File::from(fd).read_to_string(&mut text).unwrap();
            assert_eq!(text, "content");
            assert!(open("to-folder/file").is_err());
            assert!(open("folder/to-file").is_err());
            assert_eq!(open("folder/none").unwrap_err().kind(), io::ErrorKind::NotFound);
        }
    }

    #[test]
    fn nothing_above_the_root_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        fs::create_dir(real.join("inner")).unwrap();
        fs::write(real.join("secret"), "x").unwrap();
        let inner = root(&real.join("inner")).unwrap();
        #[cfg(any(target_os = "linux", target_os = "android"))]
        for path in ["../secret", "/etc/passwd"] {
            assert!(exact(&inner, Path::new(path), READ).is_err(), "{path}");
        }
        assert!(regular(&inner, Path::new("secret")).is_err());
    }

    #[test]
    fn the_root_of_the_file_system_opens_as_a_folder() {
        for open in openers() {
            open(&root(Path::new("/")).unwrap(), Path::new(""), FOLDER).unwrap();
        }
    }
}
